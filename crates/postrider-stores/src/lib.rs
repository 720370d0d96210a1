//! Where messages wait: one folder per database.
//!
//! `postgres` and `sqlite` hold the SQL text under features of their own (`postgres-sql`, `sqlite-sql`), without any
//! driver: the SDK sends the same statements through the driver that the application has.

#[cfg(feature = "postgres-sql")]
pub mod postgres;
#[cfg(feature = "sqlite-sql")]
pub mod sqlite;
