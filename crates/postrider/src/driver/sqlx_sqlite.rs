//! sqlx with SQLite.

use std::time::Instant;

use postrider_core::Error;
use postrider_stores::keys::{FoundKey, KeyColumns};
use postrider_stores::sqlite::enqueue::{ROWS_PER_STATEMENT, enqueue};
use postrider_stores::sqlite::upgrade;
use sqlx::{AssertSqlSafe, Connection as _, FromRow as _, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::sqlx_rows::{asked, insert, receive_in};
use super::{Answering, sqlite};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

impl<'t> Enqueue for &'t mut Transaction<'_, Sqlite> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let table = outbox.sqlite_table();
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            for rows in messages.chunks(ROWS_PER_STATEMENT) {
                let insert = insert(enqueue(&table, rows.len()), rows);
                insert.execute(&mut **self).await.map_err(|error| refused(&table, error))?;
            }
            Ok(ids)
        })
    }
}

fn refused(table: &str, error: sqlx::Error) -> Error {
    let told = error.as_database_error();
    let message = told.map(|told| told.message().to_owned()).unwrap_or_default();
    sqlite::refused(table, code(&error), &message).because(error)
}

receive_in!(Sqlite, sqlite::prefix, sqlite, not_received);

fn not_received(error: sqlx::Error) -> InboxError {
    let said = error.as_database_error().map_or_else(|| error.to_string(), |told| told.message().to_owned());
    sqlite::not_received(code(&error), said)
}

migrate_on!(SqlitePool, acquire, SqliteConnection, run, not_migrated);

async fn run(connection: &mut SqliteConnection, outbox: &Outbox) -> Result<(), Error> {
    let named = |statement| AssertSqlSafe(upgrade::named(statement, &outbox.prefix));
    switch_to_wal(connection).await.map_err(not_migrated)?;
    let mut tx = connection.begin_with("begin immediate").await.map_err(not_migrated)?;
    sqlx::raw_sql(named(upgrade::META)).execute(&mut *tx).await.map_err(not_migrated)?;
    let facts = sqlx::query_as::<_, (Option<i64>, Option<i64>, Option<i64>)>(named(upgrade::FACTS));
    let facts = facts.persistent(false).fetch_one(&mut *tx).await.map_err(not_migrated)?;
    let script = upgrade::script(&outbox.prefix, facts.into(), outbox.lanes)?;
    sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut *tx).await.map_err(not_migrated)?;
    tx.commit().await.map_err(not_migrated)
}

async fn switch_to_wal(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    let began = Instant::now();
    loop {
        match sqlx::raw_sql(upgrade::WAL).execute(&mut *connection).await {
            Err(refused) if sqlite::is_busy(code(&refused)) && began.elapsed() < upgrade::SWITCH_WITHIN => {
                connection.begin_with("begin immediate").await?.rollback().await?;
                tokio::time::sleep(upgrade::SWITCH_AGAIN).await;
            }
            answer => return answer.map(drop),
        }
    }
}

fn not_migrated(error: sqlx::Error) -> Error {
    sqlite::not_migrated(code(&error)).because(error)
}

fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error().and_then(|told| told.code()?.parse().ok())
}
