//! sqlx with PostgreSQL.

use std::borrow::Cow;

use postrider_core::Error;
use postrider_stores::keys::{FoundKey, KeyColumns};
use postrider_stores::postgres::enqueue::{Columns, ENQUEUE};
use sqlx::{AssertSqlSafe, FromRow as _, PgConnection, PgPool, Postgres, Transaction};

use super::sqlx_rows::{asked, receive_in};
use super::{Answering, postgres};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

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
                .map_err(|error| postgres::refused(&table, code(&error).as_deref()).because(error))?;
            Ok(ids)
        })
    }
}

receive_in!(Postgres, postgres::names, postgres, not_received);

fn not_received(error: sqlx::Error) -> InboxError {
    let said = error.as_database_error().map_or_else(|| error.to_string(), |told| told.message().to_owned());
    postgres::not_received(code(&error).as_deref(), said)
}

migrate_on!(PgPool, acquire, PgConnection, run, not_migrated);

async fn run(connection: &mut PgConnection, outbox: &Outbox) -> Result<(), Error> {
    let lanes = sqlx::query_scalar(AssertSqlSafe(postgres::lanes_statement(outbox)));
    let found = match lanes.persistent(false).fetch_optional(&mut *connection).await {
        Err(error) if code(&error).as_deref() == Some("42P01") => None,
        answer => answer.map_err(not_migrated)?,
    };
    let ran = sqlx::raw_sql(AssertSqlSafe(postgres::script(outbox, found)?)).execute(&mut *connection).await;
    if let Err(error) = ran {
        // The script's own transaction is still open on this connection, which goes back to the application.
        sqlx::raw_sql("rollback").execute(&mut *connection).await.map_err(not_migrated)?;
        let is_up_to_date = match code(&error).as_deref() {
            refused if postgres::is_forbidden(refused) => {
                let current = sqlx::query_scalar(AssertSqlSafe(postgres::is_current_statement(outbox)));
                current.persistent(false).fetch_one(connection).await.unwrap_or(false)
            }
            refused => postgres::is_up_to_date(refused),
        };
        return if is_up_to_date { Ok(()) } else { Err(not_migrated(error)) };
    }
    Ok(())
}

fn not_migrated(error: sqlx::Error) -> Error {
    postgres::not_migrated(code(&error).as_deref()).because(error)
}

fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(|error| error.code())
}
