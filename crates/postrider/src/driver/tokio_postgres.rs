//! tokio-postgres.

use postrider_core::Error;
use postrider_stores::dialog::{Statement, Value};
use postrider_stores::keys::FoundKey;
use postrider_stores::postgres::enqueue::{Columns, ENQUEUE};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Transaction};

use super::{Answering, postgres};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

impl<'t> Enqueue for &'t Transaction<'_> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let table = outbox.postgres_table();
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            if messages.is_empty() {
                return Ok(ids);
            }
            let columns = Columns::of(&messages);
            // Typed and unnamed: one round trip, and nothing is left behind in a pooled server connection.
            self.execute_typed(
                &ENQUEUE.replace("{outbox}", &table),
                &[
                    (&columns.message_ids, Type::UUID_ARRAY),
                    (&columns.topics, Type::TEXT_ARRAY),
                    (&columns.keys, Type::TEXT_ARRAY),
                    (&columns.payloads, Type::BYTEA_ARRAY),
                    (&columns.content_types, Type::TEXT_ARRAY),
                    (&columns.headers, Type::TEXT_ARRAY),
                    (&columns.attributes, Type::TEXT_ARRAY),
                    (&columns.deliver_at, Type::INT8_ARRAY),
                    (&columns.expires_at, Type::INT8_ARRAY),
                    (&columns.retries, Type::TEXT_ARRAY),
                ],
            )
            .await
            .map_err(|error| refused(&table, error))?;
            Ok(ids)
        })
    }
}

impl<'t, 'c> Enqueue for &'t mut Transaction<'c> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        <&'t Transaction<'c> as Enqueue>::write(self, outbox, batch)
    }
}

fn refused(table: &str, error: tokio_postgres::Error) -> Error {
    let refusal = postgres::refused(table, error.code().map(SqlState::code));
    match error.as_db_error() {
        // Not the error itself: its text has the server's DETAIL, which can quote the row, payload included.
        Some(told) => refusal.because(format!("{} {}: {}", told.severity(), told.code().code(), told.message())),
        None => refusal.because(error),
    }
}

impl<'t> Receive for &'t Transaction<'_> {
    type Received<R: Send + 'static> = Answering<'t, R, InboxError>;

    fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
        let names = postgres::names(&inbox.tables);
        Box::pin(async move {
            let turn = question?.postgres(&names?);
            let outcome = carry_out!(
                turn,
                |statement| self.execute_typed(&statement.sql, &parameters(&statement)).await.map_err(not_received)?,
                match self.query_typed(&statement.sql, &parameters(&statement)).await.map_err(not_received)?.first() {
                    Some(row) => row.try_get(0).map_err(not_received)?,
                    None => None,
                },
                match self.query_typed(&statement.sql, &parameters(&statement)).await.map_err(not_received)?.first() {
                    Some(row) => Some(key(row).map_err(not_received)?),
                    None => None,
                },
            );
            Q::answer(outcome)
        })
    }
}

impl<'t, 'c> Receive for &'t mut Transaction<'c> {
    type Received<R: Send + 'static> = Answering<'t, R, InboxError>;

    fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
        <&'t Transaction<'c> as Receive>::ask(self, inbox, question)
    }
}

fn key(row: &Row) -> Result<FoundKey, tokio_postgres::Error> {
    let (fingerprint, epoch, leased_until, now) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let (status, headers, body) = (row.try_get(4)?, row.try_get(5)?, row.try_get(6)?);
    Ok(FoundKey::from((fingerprint, epoch, leased_until, now, status, headers, body)))
}

fn parameters(statement: &Statement) -> Vec<(&(dyn ToSql + Sync), Type)> {
    statement.values.iter().map(typed).collect()
}

fn typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Maybe(text) => (text, Type::TEXT),
        Value::Number(number) => (number, Type::INT8),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
    }
}

fn not_received(error: tokio_postgres::Error) -> InboxError {
    let said = error.as_db_error().map_or_else(|| error.to_string(), |told| told.message().to_owned());
    postgres::not_received(error.code().map(SqlState::code), said)
}

/// Of an error that is not the server's the words alone say what it is.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(error: &(dyn std::error::Error + 'static)) -> bool {
    const OF_THE_CONNECTION: [&str; 5] = [
        "connection closed",
        "error communicating with the server",
        "error connecting to server",
        "error performing TLS handshake",
        "timeout waiting for server",
    ];
    let told = error.downcast_ref::<tokio_postgres::error::DbError>();
    told.is_some_and(|told| postgres::is_trouble(told.code().code()))
        || OF_THE_CONNECTION.contains(&error.to_string().as_str())
}

impl<'t> MigrateTarget for &'t Client {
    type Answer = Answering<'t, (), Error>;

    fn migrate(self, outbox: &Outbox) -> Self::Answer {
        let outbox = outbox.clone();
        Box::pin(async move {
            let found = match self.query_typed(&postgres::lanes_statement(&outbox), &[]).await {
                Ok(rows) => rows.first().map(|row| row.get(0)),
                Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => None,
                Err(error) => return Err(not_migrated(error)),
            };
            if let Err(error) = self.batch_execute(&postgres::script(&outbox, found)?).await {
                // The script's own transaction is still open on this connection.
                self.batch_execute("rollback").await.map_err(not_migrated)?;
                let is_up_to_date = match error.code().map(SqlState::code) {
                    refused if postgres::is_forbidden(refused) => {
                        let current = self.query_typed(&postgres::is_current_statement(&outbox), &[]).await;
                        current.is_ok_and(|rows| rows.first().is_some_and(|row| row.get(0)))
                    }
                    refused => postgres::is_up_to_date(refused),
                };
                return if is_up_to_date { Ok(()) } else { Err(not_migrated(error)) };
            }
            Ok(())
        })
    }
}

fn not_migrated(error: tokio_postgres::Error) -> Error {
    postgres::not_migrated(error.code().map(SqlState::code)).because(error)
}
