//! sqlx with SQLite.

use postrider_core::{Error, ErrorKind, Message};
use sqlx::{AssertSqlSafe, Executor, Sqlite, SqliteConnection, SqlitePool};

use super::enqueued::Enqueued;
use super::parts::{self, Parts, SQLITE};
use crate::driver::Answering;
use crate::outbox::Outbox;

impl<'t> Enqueued for &'t SqlitePool {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        let table = outbox.sqlite_table();
        Box::pin(read(self, table))
    }
}

impl<'t> Enqueued for &'t mut SqliteConnection {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        let table = outbox.sqlite_table();
        Box::pin(read(self, table))
    }
}

async fn read<'t>(from: impl Executor<'t, Database = Sqlite>, table: String) -> Result<Vec<Message>, Error> {
    let sql = AssertSqlSafe(SQLITE.replace("{outbox}", &table));
    let rows = sqlx::query_as::<_, Parts>(sql).persistent(false).fetch_all(from).await;
    let rows = rows.map_err(|error| parts::unreadable(&table, kind(&error)).because(error))?;
    rows.into_iter().map(parts::message).collect()
}

fn kind(error: &sqlx::Error) -> ErrorKind {
    if error.as_database_error().is_some() { ErrorKind::Config } else { ErrorKind::Unavailable }
}
