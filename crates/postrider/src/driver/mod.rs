//! One adapter per driver: the same statement for every driver of a database.

#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
mod postgres;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(any(feature = "sqlx-sqlite", feature = "rusqlite"))]
mod sqlite;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

/// The answer of an asynchronous driver.
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite", feature = "tokio-postgres"))]
pub(crate) type Answering<'t, R, E> = std::pin::Pin<Box<dyn Future<Output = Result<R, E>> + Send + 't>>;
