//! mysql_async.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Pool, Transaction};
use postrider_core::{Error, Message};
use postrider_stores::mysql::Names;
use postrider_stores::mysql::enqueue::{Fields, ROWS_PER_STATEMENT, enqueue};
use postrider_stores::mysql::upgrade::Facts;

use super::mysql_migration::{Session, not_migrated, run};
use super::{Answering, mysql};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;

impl<'t> Enqueue for &'t mut Transaction<'_> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let names = mysql::names(outbox);
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            let names = names?;
            for rows in messages.chunks(ROWS_PER_STATEMENT) {
                insert(self, &names, rows).await.map_err(|error| refused(&names, &error))?;
            }
            Ok(ids)
        })
    }
}

async fn insert(tx: &mut Transaction<'_>, names: &Names, messages: &[Message]) -> mysql_async::Result<()> {
    let statement = tx.prep(enqueue(names, messages.len())).await?;
    tx.exec_drop(&statement, values(messages)).await?;
    match messages {
        [_] => Ok(()),
        // Kept for one message only: a statement per number of messages would fill the cache with long ones.
        _ => tx.close(statement).await,
    }
}

fn values(messages: &[Message]) -> Params {
    Params::Positional(messages.iter().map(Fields::of).flat_map(Fields::values).collect())
}

fn refused(names: &Names, error: &mysql_async::Error) -> Error {
    let number = number(error);
    mysql::told(mysql::refused(names, number), number, error)
}

migrate_on!(Pool, get_conn, Conn, run, not_migrated::<Conn>);

impl Session for Conn {
    type Failed = mysql_async::Error;

    fn number(error: &Self::Failed) -> Option<u16> {
        number(error)
    }

    async fn turn(&mut self, sql: String) -> mysql_async::Result<Option<i64>> {
        Ok(self.query_first::<Option<i64>, _>(sql).await?.flatten())
    }

    async fn facts(&mut self, sql: String) -> mysql_async::Result<Option<Facts>> {
        Ok(self.query_first::<(i32, i32, Option<i32>), _>(sql).await?.map(Facts::from))
    }

    async fn run(&mut self, sql: String) -> mysql_async::Result<()> {
        self.query_drop(sql).await
    }
}

fn number(error: &mysql_async::Error) -> Option<u16> {
    match error {
        mysql_async::Error::Server(told) => Some(told.code),
        _ => None,
    }
}
