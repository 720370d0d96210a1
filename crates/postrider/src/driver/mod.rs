//! One adapter per driver: the same statement for every driver of a database.

#[cfg(feature = "_diesel")]
mod diesel;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "diesel-mysql")]
mod diesel_mysql;
#[cfg(feature = "diesel-postgres")]
mod diesel_postgres;
#[cfg(feature = "diesel-sqlite")]
mod diesel_sqlite;
#[cfg(feature = "_mysql")]
mod mysql;
#[cfg(feature = "mysql_async")]
mod mysql_async;
#[cfg(feature = "_postgres")]
mod postgres;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "_sqlite")]
mod sqlite;
#[cfg(feature = "sqlx-mysql")]
mod sqlx_mysql;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

#[cfg(feature = "_diesel")]
pub use self::diesel::{Diesel, DieselBackend};
#[cfg(feature = "diesel-async")]
pub use self::diesel_async::DieselAsync;

/// The answer of an asynchronous driver.
#[cfg(feature = "_async")]
pub(crate) type Answering<'t, R, E> = std::pin::Pin<Box<dyn Future<Output = Result<R, E>> + Send + 't>>;
