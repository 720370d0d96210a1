//! mysql_async.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Pool, Transaction};
use postrider_core::{Error, Message};
use postrider_stores::dialog::{Statement, Value};
use postrider_stores::keys::{FoundKey, KeyColumns};
use postrider_stores::mysql::Names;
use postrider_stores::mysql::enqueue::{Fields, ROWS_PER_STATEMENT, enqueue};
use postrider_stores::mysql::upgrade::Facts;

use super::mysql_migration::{Session, not_migrated, run};
use super::{Answering, mysql};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

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

impl<'t> Receive for &'t mut Transaction<'_> {
    type Received<R: Send + 'static> = Answering<'t, R, InboxError>;

    fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
        let names = mysql::names(&inbox.tables);
        Box::pin(async move {
            let turn = question?.mysql(&names?);
            let outcome = carry_out!(
                turn,
                |statement| {
                    let (sql, parameters) = asked(statement);
                    self.exec_iter(sql, parameters).await.map_err(|error| not_received(&error))?.affected_rows()
                },
                {
                    let (sql, parameters) = asked(statement);
                    let row = self.exec_first::<Option<i64>, _, _>(sql, parameters).await;
                    row.map_err(|error| not_received(&error))?.flatten()
                },
                {
                    let (sql, parameters) = asked(statement);
                    let row = self.exec_first::<KeyColumns, _, _>(sql, parameters).await;
                    row.map_err(|error| not_received(&error))?.map(FoundKey::from)
                },
            );
            Q::answer(outcome)
        })
    }
}

fn asked(statement: Statement) -> (String, Params) {
    let value = |value| match value {
        Value::Text(text) => text.into(),
        Value::Maybe(text) => text.into(),
        Value::Number(number) => number.into(),
        Value::Bytes(bytes) => bytes.into(),
    };
    let values: Vec<mysql_async::Value> = statement.values.into_iter().map(value).collect();
    (statement.sql, if values.is_empty() { Params::Empty } else { Params::Positional(values) })
}

fn not_received(error: &mysql_async::Error) -> InboxError {
    mysql::not_received(number(error), error)
}

/// Whether one of the errors that the driver's are made of says nothing of what was asked.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(error: &(dyn std::error::Error + 'static)) -> bool {
    use mysql_async::{DriverError, IoError, ServerError};

    let of_the_connection =
        |error: &DriverError| matches!(error, DriverError::ConnectionClosed | DriverError::PoolDisconnected);
    error.is::<IoError>()
        || error.downcast_ref().is_some_and(of_the_connection)
        || error.downcast_ref().is_some_and(|told: &ServerError| mysql::is_trouble(told.code))
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
