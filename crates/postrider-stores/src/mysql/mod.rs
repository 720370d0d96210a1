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
//!
//! The feature `mysql-sql` has the SQL text alone ([`enqueue`], [`upgrade`], [`ddl`]), for drivers of the application's
//! own; `mysql` has the store.

#[cfg(feature = "mysql")]
mod backend;
#[cfg(feature = "mysql")]
mod classify;
#[cfg(feature = "mysql")]
mod cohort;
#[cfg(feature = "mysql")]
mod columns;
#[cfg(feature = "mysql")]
mod dead;
#[cfg(feature = "mysql")]
mod decode;
#[cfg(feature = "mysql")]
mod dialect;
#[cfg(feature = "mysql")]
mod doctor;
pub mod enqueue;
#[cfg(feature = "mysql")]
mod explain;
#[cfg(feature = "mysql")]
mod found;
#[cfg(feature = "mysql")]
mod gaps;
#[cfg(feature = "mysql")]
mod holders;
pub mod inbox;
#[cfg(feature = "mysql")]
mod keeper;
pub mod keys;
#[cfg(feature = "mysql")]
mod leases;
#[cfg(feature = "mysql")]
mod life;
#[cfg(feature = "mysql")]
mod link;
#[cfg(feature = "mysql")]
mod migrate;
mod names;
#[cfg(feature = "mysql")]
mod operator;
#[cfg(feature = "mysql")]
mod operator_sql;
#[cfg(feature = "mysql")]
mod options;
#[cfg(feature = "mysql")]
mod past;
mod quoting;
#[cfg(feature = "mysql")]
mod read_sql;
#[cfg(feature = "mysql")]
mod removal;
pub mod schema;
#[cfg(feature = "mysql")]
mod settle_sql;
#[cfg(feature = "mysql")]
mod settler;
#[cfg(feature = "mysql")]
mod source;
#[cfg(feature = "mysql")]
mod status;
#[cfg(feature = "mysql")]
mod store;
#[cfg(feature = "mysql")]
mod tls;
pub mod tokens;
mod trouble;
pub mod upgrade;

#[cfg(feature = "mysql")]
pub use self::{
    backend::BACKEND,
    migrate::{Installed, migrate, migrate_check},
    options::MysqlOptions,
    removal::remove,
    store::MysqlStore,
};
pub use self::{
    names::Names,
    quoting::quotes_values,
    schema::{COMPATIBLE_FROM, VERSION, ddl},
    trouble::{goes_away, is_out_of_something},
};
