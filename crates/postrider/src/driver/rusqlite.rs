//! rusqlite, synchronous.

use std::time::Instant;

use postrider_core::{Error, ErrorKind, Message};
use postrider_stores::dialog::{self, Value};
use postrider_stores::keys::{FoundKey, KeyColumns};
use postrider_stores::sqlite::enqueue::{Fields, ROWS_PER_STATEMENT, enqueue};
use postrider_stores::sqlite::upgrade;
use rusqlite::{
    Connection, OptionalExtension, Params, Savepoint, Statement, ToSql, Transaction, TransactionBehavior,
    params_from_iter,
};

use super::sqlite;
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

macro_rules! enqueue_and_receive_in {
    ($transaction:ident) => {
        impl Receive for &$transaction<'_> {
            type Received<R: Send + 'static> = Result<R, InboxError>;

            fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
                ask(self, inbox, question)
            }
        }

        impl Receive for &mut $transaction<'_> {
            type Received<R: Send + 'static> = Result<R, InboxError>;

            fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
                ask(self, inbox, question)
            }
        }

        impl Enqueue for &$transaction<'_> {
            type Answer<R: Send + 'static> = Result<R, EnqueueError>;

            fn write<R: Send + 'static>(
                self,
                outbox: &Outbox,
                batch: Result<Batch<R>, EnqueueError>,
            ) -> Self::Answer<R> {
                write(self, outbox, batch)
            }
        }

        impl Enqueue for &mut $transaction<'_> {
            type Answer<R: Send + 'static> = Result<R, EnqueueError>;

            fn write<R: Send + 'static>(
                self,
                outbox: &Outbox,
                batch: Result<Batch<R>, EnqueueError>,
            ) -> Self::Answer<R> {
                write(self, outbox, batch)
            }
        }
    };
}

enqueue_and_receive_in!(Transaction);
enqueue_and_receive_in!(Savepoint);

fn write<R>(
    connection: &Connection,
    outbox: &Outbox,
    batch: Result<Batch<R>, EnqueueError>,
) -> Result<R, EnqueueError> {
    let Batch { messages, ids } = batch?;
    // The type says transaction, but SQL text may have ended it; then each INSERT would commit on its own.
    if connection.is_autocommit() {
        return Err(EnqueueError::OutsideTransaction);
    }
    let table = outbox.sqlite_table();
    for rows in messages.chunks(ROWS_PER_STATEMENT) {
        insert(connection, &table, rows).map_err(|error| refused(&table, error))?;
    }
    Ok(ids)
}

fn insert(connection: &Connection, table: &str, messages: &[Message]) -> rusqlite::Result<()> {
    let sql = enqueue(table, messages.len());
    match messages {
        [message] => bind(&mut *connection.prepare_cached(&sql)?, std::slice::from_ref(message)),
        // Not cached: a statement per number of messages would fill the cache with long ones.
        _ => bind(&mut connection.prepare(&sql)?, messages),
    }
}

fn bind(insert: &mut Statement<'_>, messages: &[Message]) -> rusqlite::Result<()> {
    for (place, row) in messages.iter().map(Fields::of).enumerate() {
        let first = 10 * place + 1;
        insert.raw_bind_parameter(first, row.message_id)?;
        insert.raw_bind_parameter(first + 1, row.topic)?;
        insert.raw_bind_parameter(first + 2, row.key)?;
        insert.raw_bind_parameter(first + 3, row.payload)?;
        insert.raw_bind_parameter(first + 4, row.content_type)?;
        insert.raw_bind_parameter(first + 5, row.headers)?;
        insert.raw_bind_parameter(first + 6, row.attributes)?;
        insert.raw_bind_parameter(first + 7, row.deliver_at)?;
        insert.raw_bind_parameter(first + 8, row.expires_at)?;
        insert.raw_bind_parameter(first + 9, row.retry)?;
    }
    insert.raw_execute()?;
    Ok(())
}

fn refused(table: &str, error: rusqlite::Error) -> Error {
    let (code, message) = told(&error);
    sqlite::refused(table, code, &message).because(error)
}

fn ask<Q: Question>(
    connection: &Connection,
    inbox: &Inbox,
    question: Result<Q, InboxError>,
) -> Result<Q::Answer, InboxError> {
    let question = question?;
    // As for what is enqueued: each statement would commit on its own.
    if connection.is_autocommit() {
        return Err(InboxError::OutsideTransaction);
    }
    let turn = question.sqlite(&sqlite::prefix(&inbox.tables)?);
    let outcome = carry_out!(
        turn,
        |statement| changed(connection, &statement).map_err(not_received)?,
        found(connection, &statement).map_err(not_received)?,
        key(connection, &statement).map_err(not_received)?,
    );
    Q::answer(outcome)
}

fn changed(connection: &Connection, statement: &dialog::Statement) -> rusqlite::Result<u64> {
    let changed = connection.prepare_cached(&statement.sql)?.execute(parameters(statement))?;
    Ok(u64::try_from(changed).unwrap_or(u64::MAX))
}

fn found(connection: &Connection, statement: &dialog::Statement) -> rusqlite::Result<Option<i64>> {
    let mut query = connection.prepare_cached(&statement.sql)?;
    Ok(query.query_row(parameters(statement), |row| row.get(0)).optional()?.flatten())
}

fn key(connection: &Connection, statement: &dialog::Statement) -> rusqlite::Result<Option<FoundKey>> {
    let mut query = connection.prepare_cached(&statement.sql)?;
    let columns = query.query_row(parameters(statement), |row| KeyColumns::try_from(row)).optional()?;
    Ok(columns.map(FoundKey::from))
}

fn parameters(statement: &dialog::Statement) -> impl Params {
    params_from_iter(statement.values.iter().map(|value| -> &dyn ToSql {
        match value {
            Value::Text(text) => text,
            Value::Maybe(text) => text,
            Value::Number(number) => number,
            Value::Bytes(bytes) => bytes,
        }
    }))
}

fn not_received(error: rusqlite::Error) -> InboxError {
    let (code, message) = told(&error);
    sqlite::not_received(code, if message.is_empty() { error.to_string() } else { message })
}

/// The result code, and what SQLite said.
fn told(error: &rusqlite::Error) -> (Option<i32>, String) {
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            (Some(failure.extended_code), message.clone().unwrap_or_default())
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => (Some(error.extended_code), msg.clone()),
        _ => (None, String::new()),
    }
}

impl MigrateTarget for &Connection {
    type Answer = Result<(), Error>;

    fn migrate(self, outbox: &Outbox) -> Self::Answer {
        if !self.is_autocommit() {
            let text = "migrating the outbox inside a transaction: commit it first, a migration has one of its own";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let named = |statement| upgrade::named(statement, &outbox.prefix);
        switch_to_wal(self).map_err(not_migrated)?;
        let tx = Transaction::new_unchecked(self, TransactionBehavior::Immediate).map_err(not_migrated)?;
        tx.execute_batch(&named(upgrade::META)).map_err(not_migrated)?;
        let facts = tx.query_row(&named(upgrade::FACTS), (), |row| {
            Ok(upgrade::Facts::from((row.get(0)?, row.get(1)?, row.get(2)?)))
        });
        let script = upgrade::script(&outbox.prefix, facts.map_err(not_migrated)?, outbox.lanes)?;
        tx.execute_batch(&script).map_err(not_migrated)?;
        tx.commit().map_err(not_migrated)
    }
}

impl MigrateTarget for &mut Connection {
    type Answer = Result<(), Error>;

    fn migrate(self, outbox: &Outbox) -> Self::Answer {
        <&Connection as MigrateTarget>::migrate(self, outbox)
    }
}

fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        match connection.query_row(upgrade::WAL, (), |_| Ok(())) {
            Err(refused) if sqlite::is_busy(code(&refused)) && began.elapsed() < upgrade::SWITCH_WITHIN => {
                Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?.rollback()?;
                std::thread::sleep(upgrade::SWITCH_AGAIN);
            }
            answer => return answer,
        }
    }
}

/// Whether SQLite's own error, beneath the driver's, says nothing of what was asked.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<rusqlite::ffi::Error>().is_some_and(|failure| sqlite::is_trouble(failure.extended_code))
}

fn not_migrated(error: rusqlite::Error) -> Error {
    sqlite::not_migrated(code(&error)).because(error)
}

fn code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|failure| failure.extended_code)
}
