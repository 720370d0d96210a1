//! tokio-postgres.

use postrider_core::Error;
use postrider_stores::postgres::enqueue::{Columns, ENQUEUE};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::{Answering, postgres};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;

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
                let is_up_to_date = postgres::is_up_to_date(error.code().map(SqlState::code));
                return if is_up_to_date { Ok(()) } else { Err(not_migrated(error)) };
            }
            Ok(())
        })
    }
}

fn not_migrated(error: tokio_postgres::Error) -> Error {
    postgres::not_migrated(error.code().map(SqlState::code)).because(error)
}
