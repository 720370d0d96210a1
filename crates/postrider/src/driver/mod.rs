//! One adapter per driver: the same statement for every driver of a database.

/// The tables are created through a pool of a driver, or a connection, by the function `$run` on the connection; `$refused`
/// says what it means that the pool gives none.
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite", feature = "mysql_async"))]
macro_rules! migrate_on {
    ($pool:ty, $acquire:ident, $connection:ty, $run:ident, $refused:expr) => {
        impl<'t> MigrateTarget for &'t $pool {
            type Answer = Answering<'t, (), Error>;

            fn migrate(self, outbox: &Outbox) -> Self::Answer {
                let outbox = outbox.clone();
                Box::pin(async move {
                    let mut pooled = self.$acquire().await.map_err($refused)?;
                    let connection: &mut $connection = &mut pooled;
                    $run(connection, &outbox).await
                })
            }
        }

        impl<'t> MigrateTarget for &'t mut $connection {
            type Answer = Answering<'t, (), Error>;

            fn migrate(self, outbox: &Outbox) -> Self::Answer {
                let outbox = outbox.clone();
                Box::pin(async move { $run(self, &outbox).await })
            }
        }
    };
}

/// Carries out a dialog with an inbox: `$change` answers how many rows a statement changed, `$number` the
/// number that it found, `$key` the row of a key.
#[cfg(any(feature = "_postgres", feature = "_mysql", feature = "_sqlite"))]
macro_rules! carry_out {
    ($turn:expr, |$statement:ident| $change:expr, $number:expr, $key:expr $(,)?) => {{
        let mut turn = $turn;
        loop {
            turn = match turn {
                ::postrider_stores::dialog::Turn::Change($statement, then) => then($change),
                ::postrider_stores::dialog::Turn::Number($statement, then) => then($number),
                ::postrider_stores::dialog::Turn::Key($statement, then) => then($key),
                ::postrider_stores::dialog::Turn::Done(outcome) => break outcome,
            };
        }
    }};
}

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
#[cfg(any(feature = "sqlx-mysql", feature = "mysql_async"))]
mod mysql_migration;
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
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
mod sqlx_rows;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;
#[cfg(feature = "consume")]
pub(crate) mod trouble;

#[cfg(feature = "_diesel")]
pub use self::diesel::{Diesel, DieselBackend};
#[cfg(feature = "diesel-async")]
pub use self::diesel_async::DieselAsync;

/// The answer of an asynchronous driver.
#[cfg(feature = "_async")]
pub(crate) type Answering<'t, R, E> = std::pin::Pin<Box<dyn Future<Output = Result<R, E>> + Send + 't>>;
