//! mysql_async.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Pool, Transaction};
use postrider_core::{Error, Message};
use postrider_stores::mysql::Names;
use postrider_stores::mysql::enqueue::{Fields, ROWS_PER_STATEMENT, enqueue};
use postrider_stores::mysql::upgrade::{self, AS_BEFORE, Facts, NO_SUCH_TABLE, STRICT};

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
    let rows = messages.iter().map(Fields::of).flat_map(|row| {
        [
            row.message_id.into(),
            row.topic.into(),
            row.key.into(),
            row.payload.into(),
            row.content_type.into(),
            row.headers.into(),
            row.attributes.into(),
            row.deliver_at.into(),
            row.expires_at.into(),
            row.retry.into(),
        ]
    });
    Params::Positional(rows.collect())
}

fn refused(names: &Names, error: &mysql_async::Error) -> Error {
    let number = number(error);
    mysql::told(mysql::refused(names, number), number, error)
}

impl<'t> MigrateTarget for &'t Pool {
    type Answer = Answering<'t, (), Error>;

    fn migrate(self, outbox: &Outbox) -> Self::Answer {
        let outbox = outbox.clone();
        Box::pin(async move {
            let mut connection = self.get_conn().await.map_err(not_migrated)?;
            run(&mut connection, &outbox).await
        })
    }
}

impl<'t> MigrateTarget for &'t mut Conn {
    type Answer = Answering<'t, (), Error>;

    fn migrate(self, outbox: &Outbox) -> Self::Answer {
        let outbox = outbox.clone();
        Box::pin(async move { run(self, &outbox).await })
    }
}

async fn run(connection: &mut Conn, outbox: &Outbox) -> Result<(), Error> {
    let names = mysql::names(outbox)?;
    let turn: Option<Option<i64>> = connection.query_first(upgrade::take_turn(&names)).await.map_err(not_migrated)?;
    if turn.flatten() != Some(1) {
        return Err(mysql::not_my_turn());
    }
    let done = steps(connection, &names, outbox).await;
    // The connection goes back to the application as it was, whatever became of the steps.
    let ended = connection.query_drop(upgrade::end_turn(&names)).await;
    done.and_then(|()| ended.map_err(not_migrated))
}

async fn steps(connection: &mut Conn, names: &Names, outbox: &Outbox) -> Result<(), Error> {
    let found = match connection.query_first::<(i32, i32, Option<i32>), _>(upgrade::facts(names)).await {
        Err(error) if number(&error) == Some(NO_SUCH_TABLE) => None,
        answer => answer.map_err(not_migrated)?.map(Facts::from),
    };
    let script = upgrade::script(names, found, outbox.lanes)?;
    if script.is_empty() {
        return Ok(());
    }
    connection.query_drop(STRICT).await.map_err(not_migrated)?;
    let mut ran = Ok(());
    for statement in script {
        ran = connection.query_drop(statement).await;
        if ran.is_err() {
            break;
        }
    }
    let restored = connection.query_drop(AS_BEFORE).await;
    ran.and(restored).map_err(not_migrated)
}

fn not_migrated(error: mysql_async::Error) -> Error {
    mysql::not_migrated(number(&error)).because(error)
}

fn number(error: &mysql_async::Error) -> Option<u16> {
    match error {
        mysql_async::Error::Server(told) => Some(told.code),
        _ => None,
    }
}
