//! sqlx with SQLite.

use postrider_stores::sqlite::enqueue::{Fields, ROWS_PER_STATEMENT, enqueue};
use sqlx::{AssertSqlSafe, Sqlite, Transaction};

use super::{Answering, refusal};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::outbox::Outbox;

impl<'t> Enqueue for &'t mut Transaction<'_, Sqlite> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let table = outbox.sqlite_table();
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            for rows in messages.chunks(ROWS_PER_STATEMENT) {
                // Cached for one message only: a statement per number of messages would fill the cache with long ones.
                let mut insert = sqlx::query(AssertSqlSafe(enqueue(&table, rows.len()))).persistent(rows.len() == 1);
                for row in rows.iter().map(Fields::of) {
                    insert = insert
                        .bind(row.message_id)
                        .bind(row.topic)
                        .bind(row.key)
                        .bind(row.payload)
                        .bind(row.content_type)
                        .bind(row.headers)
                        .bind(row.attributes)
                        .bind(row.deliver_at)
                        .bind(row.expires_at)
                        .bind(row.retry);
                }
                insert.execute(&mut **self).await.map_err(|error| refused(&table, error))?;
            }
            Ok(ids)
        })
    }
}

fn refused(table: &str, error: sqlx::Error) -> postrider_core::Error {
    let told = error.as_database_error();
    let code = told.and_then(|told| told.code()?.parse().ok());
    let message = told.map(|told| told.message().to_owned()).unwrap_or_default();
    refusal::sqlite(table, code, &message).because(error)
}
