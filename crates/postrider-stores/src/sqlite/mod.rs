//! SQLite: the outbox in the application's own file.
//!
//! SQLite has one writer. The relay takes the write lock for at most about 20 ms a time and leaves it free in between;
//! applications should begin their write transactions with `begin immediate` and set a busy timeout of 5 s or more,
//! or they meet `database is locked` by themselves. The file is in WAL mode, so that readers and the writer do not
//! wait for each other. New rows are noticed through `pragma data_version`, which touches no table.
//!
//! Moments are integers, microseconds since 1970 UTC; message ids are hyphenated text; headers and the like are JSON
//! text; a payload may be a blob or text. [`enqueue`] and [`upgrade`] alone are there under
//! the feature `sqlite-sql`, without a driver.

#[cfg(feature = "sqlite")]
mod backend;
#[cfg(feature = "sqlite")]
mod check;
#[cfg(feature = "sqlite")]
mod cohort;
#[cfg(feature = "sqlite")]
mod dead;
#[cfg(feature = "sqlite")]
mod disk;
pub mod enqueue;
#[cfg(feature = "sqlite")]
mod fault;
#[cfg(feature = "sqlite")]
mod found;
pub mod inbox;
#[cfg(feature = "sqlite")]
mod keeper;
#[cfg(feature = "sqlite")]
mod leases;
#[cfg(feature = "sqlite")]
mod link;
#[cfg(feature = "sqlite")]
mod operator;
#[cfg(feature = "sqlite")]
mod options;
#[cfg(feature = "sqlite")]
mod past;
#[cfg(feature = "sqlite")]
mod removal;
#[cfg(feature = "sqlite")]
mod row;
#[cfg(feature = "sqlite")]
mod schema;
#[cfg(feature = "sqlite")]
mod settler;
#[cfg(feature = "sqlite")]
mod source;
#[cfg(feature = "sqlite")]
mod status;
#[cfg(feature = "sqlite")]
mod store;
pub mod upgrade;

#[cfg(feature = "sqlite")]
pub use backend::BACKEND;
#[cfg(feature = "sqlite")]
pub use check::library;
#[cfg(feature = "sqlite")]
pub use options::{Prefix, SqliteOptions};
#[cfg(feature = "sqlite")]
pub use removal::remove;
#[cfg(feature = "sqlite")]
pub use schema::{ddl, migrate};
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use upgrade::{COMPATIBLE_FROM, DEFAULT_LANES, VERSION};
