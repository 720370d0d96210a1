//! MySQL 8 and MariaDB 10.6 and later.
//!
//! The outbox is one ordinary InnoDB table. Row numbers are drawn when rows are written and rows become visible when their
//! transactions commit, in another order, and these databases have no snapshot that a client could keep. So new rows are
//! found by their primary key, and the numbers that were passed and not seen are kept and looked for by every read, until
//! their rows are seen or are known not to come. What was read is remembered in memory only, and is bound to the
//! connection and to the life of the server.
//!
//! Everything is read as it is committed when a statement begins (READ COMMITTED), by an index that each statement names;
//! rows are changed by their primary key. So no lock is ever taken on what is not there, and nobody's insert waits.
//!
//! Moments are microseconds since 1970 UTC, message ids hyphenated text, headers and the like JSON text.

mod backend;
mod classify;
mod cohort;
mod columns;
mod dead;
mod decode;
mod dialect;
mod doctor;
pub mod enqueue;
mod explain;
mod found;
mod gaps;
mod holders;
mod leases;
mod life;
mod link;
mod migrate;
mod names;
mod operator;
mod operator_sql;
mod options;
mod read_sql;
mod removal;
pub mod schema;
mod settle_sql;
mod settler;
mod source;
mod status;
mod store;
mod tls;

pub use self::{
    backend::BACKEND,
    migrate::{Installed, migrate, migrate_check},
    names::Names,
    options::{Encryption, MysqlOptions},
    removal::remove,
    schema::{COMPATIBLE_FROM, VERSION, ddl},
    store::MysqlStore,
};
