//! PostgreSQL 13 and later.
//!
//! The outbox is one ordinary table. New rows are found by the difference between two snapshots, never by an id that
//! was passed: ids commit out of order, and nothing may wait for somebody else's long transaction. What was read is
//! remembered in memory only and is bound to the life of the server. Outcomes are recorded by one statement that locks
//! the lanes it acts for, so that a relay that lost its lease changes nothing.
//!
//! Every statement is single, unnamed and stateless: it works through PgBouncer in transaction mode
//! ([`Pooling::Transaction`]).
//!
//! The feature `postgres-sql` has the SQL text alone ([`enqueue`], [`ddl`]), for drivers of the application's own;
//! `postgres` has the store.
//!
//! Call `postrider_enqueue` in a statement of its own, after the lock that orders the messages, or in RETURNING; never
//! in the select list, SET or WHERE of a statement that locks rows: PostgreSQL runs it again after the wait, and the
//! message is enqueued twice.

pub mod enqueue;
pub mod inbox;
mod names;
pub mod schema;

#[cfg(feature = "postgres")]
mod backend;
#[cfg(feature = "postgres")]
mod classify;
#[cfg(feature = "postgres")]
mod cohort;
#[cfg(feature = "postgres")]
mod decode;
#[cfg(feature = "postgres")]
mod doctor;
#[cfg(feature = "postgres")]
mod exceptions;
#[cfg(feature = "postgres")]
mod expected;
#[cfg(feature = "postgres")]
mod holders;
#[cfg(feature = "postgres")]
mod hot_pages;
#[cfg(feature = "postgres")]
mod keeper;
#[cfg(feature = "postgres")]
mod key_filter;
#[cfg(feature = "postgres")]
mod leases;
#[cfg(feature = "postgres")]
mod link;
#[cfg(feature = "postgres")]
mod migrate;
#[cfg(feature = "postgres")]
mod operator;
#[cfg(feature = "postgres")]
mod operator_sql;
#[cfg(feature = "postgres")]
mod options;
#[cfg(feature = "postgres")]
mod past;
#[cfg(feature = "postgres")]
mod read_sql;
#[cfg(feature = "postgres")]
mod readers;
#[cfg(feature = "postgres")]
mod removal;
#[cfg(feature = "postgres")]
mod rights;
#[cfg(feature = "postgres")]
mod settle_sql;
#[cfg(feature = "postgres")]
mod settler;
#[cfg(feature = "postgres")]
mod snapshot;
#[cfg(feature = "postgres")]
mod source;
#[cfg(feature = "postgres")]
mod span;
#[cfg(feature = "postgres")]
mod status;
#[cfg(feature = "postgres")]
mod store;
#[cfg(feature = "postgres")]
mod tls;

pub use names::Names;
pub use schema::{COMPATIBLE_FROM, VERSION, ddl};

#[cfg(feature = "postgres")]
pub use self::{
    backend::BACKEND,
    migrate::{Installed, migrate, migrate_check},
    options::{Pooling, PostgresOptions},
    removal::remove,
    store::PostgresStore,
};

/// The roles that may write, relay and administer, as SQL to read, adapt and run: `{schema}` and the tables' names
/// are in place, the role names are `postrider_writer`, `postrider_relay` and `postrider_admin`.
pub fn roles(names: &Names) -> String {
    names.fill(include_str!("roles.sql"))
}
