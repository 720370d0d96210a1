//! sqlx with PostgreSQL.

use postrider_stores::postgres::enqueue::{Columns, ENQUEUE};
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use super::{Answering, refusal};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::outbox::Outbox;

impl<'t> Enqueue for &'t mut Transaction<'_, Postgres> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let table = outbox.postgres_table();
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            if messages.is_empty() {
                return Ok(ids);
            }
            let columns = Columns::of(&messages);
            sqlx::query(AssertSqlSafe(ENQUEUE.replace("{outbox}", &table)))
                .bind(&columns.message_ids)
                .bind(&columns.topics)
                .bind(&columns.keys)
                .bind(&columns.payloads)
                .bind(&columns.content_types)
                .bind(&columns.headers)
                .bind(&columns.attributes)
                .bind(&columns.deliver_at)
                .bind(&columns.expires_at)
                .bind(&columns.retries)
                .execute(&mut **self)
                .await
                .map_err(|error| {
                    let code = error.as_database_error().and_then(|error| error.code());
                    refusal::postgres(&table, code.as_deref()).because(error)
                })?;
            Ok(ids)
        })
    }
}
