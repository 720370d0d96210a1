//! Where messages wait: one folder per database, one feature each.
//!
//! `postgres`, `mysql` and `sqlite` hold the SQL text under features of their own (`postgres-sql`, `mysql-sql`,
//! `sqlite-sql`), without any driver: the SDK sends the same statements through the driver that the application has.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod consumers;
pub mod dialog;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod encryption;
#[cfg(any(feature = "memory", feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod failures;
#[cfg(any(feature = "sqlite-sql", feature = "postgres-sql", feature = "mysql-sql"))]
mod fields;
mod history;
pub mod keys;
mod lanes;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod login;
#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
mod page;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod parameter;
pub mod received;
mod registry;
#[cfg(any(feature = "sqlite", feature = "mysql"))]
mod since;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod stride;
#[cfg(any(feature = "sqlite-sql", feature = "postgres", feature = "mysql-sql"))]
mod versions;

#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "mysql-sql")]
pub mod mysql;
#[cfg(feature = "failpoints")]
pub mod points;
#[cfg(feature = "postgres-sql")]
pub mod postgres;
#[cfg(feature = "sqlite-sql")]
pub mod sqlite;

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use encryption::Encryption;
#[cfg(any(feature = "sqlite-sql", feature = "postgres-sql", feature = "mysql-sql"))]
pub use fields::Fields;
pub use history::History;
pub use lanes::agree_on_lanes;
pub use registry::{
    BACKENDS, Backend, KINDS, Kind, MigrateOptions, Pending, StoreOptions, ddl, kind, migrate, open, remove,
};
