//! sqlx with PostgreSQL.

use postrider_core::{Error, ErrorKind, Message};
use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Postgres};

use super::enqueued::Enqueued;
use super::parts::{self, POSTGRES, Parts};
use crate::driver::Answering;
use crate::outbox::Outbox;

impl<'t> Enqueued for &'t PgPool {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        let table = outbox.postgres_table();
        Box::pin(read(self, table))
    }
}

impl<'t> Enqueued for &'t mut PgConnection {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        let table = outbox.postgres_table();
        Box::pin(read(self, table))
    }
}

async fn read<'t>(from: impl Executor<'t, Database = Postgres>, table: String) -> Result<Vec<Message>, Error> {
    let sql = AssertSqlSafe(POSTGRES.replace("{outbox}", &table));
    let rows = sqlx::query_as::<_, Parts>(sql).persistent(false).fetch_all(from).await;
    let rows = rows.map_err(|error| parts::unreadable(&table, kind(&error)).because(error))?;
    rows.into_iter().map(parts::message).collect()
}

fn kind(error: &sqlx::Error) -> ErrorKind {
    if error.as_database_error().is_some() { ErrorKind::Config } else { ErrorKind::Unavailable }
}
