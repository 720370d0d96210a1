//! One adapter per driver: how it reads an outbox.

#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
mod diesel;
#[cfg(feature = "mysql_async")]
mod mysql_async;
#[cfg(any(feature = "_postgres", feature = "_mysql", feature = "_sqlite"))]
mod parts;
#[cfg(any(feature = "_postgres", feature = "_mysql", feature = "_sqlite"))]
mod reading;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub use diesel::DieselReadable;
