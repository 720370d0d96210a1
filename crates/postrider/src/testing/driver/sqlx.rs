//! sqlx with PostgreSQL, MySQL and MariaDB, and SQLite.

use postrider_core::{Error, ErrorKind, Message};
#[cfg(feature = "sqlx-mysql")]
use sqlx::{MySqlConnection, MySqlPool};
#[cfg(feature = "sqlx-postgres")]
use sqlx::{PgConnection, PgPool};
#[cfg(feature = "sqlx-sqlite")]
use sqlx::{SqliteConnection, SqlitePool};

use super::parts::{self, Parts};
use super::reading::Reading;
use crate::driver::Answering;
use crate::outbox::Outbox;
use crate::testing::Enqueued;

macro_rules! read_through {
    ($reading:ident, $from:ty) => {
        impl<'t> Enqueued for &'t $from {
            read_through!(@answer $reading);
        }
    };
    ($reading:ident, mut $from:ty) => {
        impl<'t> Enqueued for &'t mut $from {
            read_through!(@answer $reading);
        }
    };
    (@answer $reading:ident) => {
        type Answer = Answering<'t, Vec<Message>, Error>;

        fn enqueued(self, outbox: &Outbox) -> Self::Answer {
            let reading = Reading::$reading(outbox);
            Box::pin(async move {
                let sql = sqlx::AssertSqlSafe(reading.sql.clone());
                let rows = sqlx::query_as::<_, Parts>(sql).persistent(false).fetch_all(self).await;
                let rows = rows.map_err(|error| reading.failed(kind(&error)).because(error))?;
                rows.into_iter().map(parts::message).collect()
            })
        }
    };
}

#[cfg(feature = "sqlx-postgres")]
read_through!(postgres, PgPool);
#[cfg(feature = "sqlx-postgres")]
read_through!(postgres, mut PgConnection);
#[cfg(feature = "sqlx-mysql")]
read_through!(mysql, MySqlPool);
#[cfg(feature = "sqlx-mysql")]
read_through!(mysql, mut MySqlConnection);
#[cfg(feature = "sqlx-sqlite")]
read_through!(sqlite, SqlitePool);
#[cfg(feature = "sqlx-sqlite")]
read_through!(sqlite, mut SqliteConnection);

fn kind(error: &sqlx::Error) -> ErrorKind {
    if error.as_database_error().is_some() { ErrorKind::Config } else { ErrorKind::Unavailable }
}
