//! sqlx with MySQL and MariaDB.

use postrider_core::Error;
use postrider_stores::mysql::Names;
use postrider_stores::mysql::enqueue::{Fields, ROWS_PER_STATEMENT, enqueue};
use postrider_stores::mysql::upgrade::{self, AS_BEFORE, Facts, NO_SUCH_TABLE, STRICT};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, MySqlPool, Transaction};

use super::{Answering, mysql};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;

impl<'t> Enqueue for &'t mut Transaction<'_, MySql> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let names = mysql::names(outbox);
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            let names = names?;
            for rows in messages.chunks(ROWS_PER_STATEMENT) {
                // Cached for one message only: a statement per number of messages would fill the cache with long ones.
                let mut insert = sqlx::query(AssertSqlSafe(enqueue(&names, rows.len()))).persistent(rows.len() == 1);
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
                insert.execute(&mut **self).await.map_err(|error| refused(&names, &error))?;
            }
            Ok(ids)
        })
    }
}

fn refused(names: &Names, error: &sqlx::Error) -> Error {
    let number = number(error);
    mysql::told(mysql::refused(names, number), number, error)
}

impl<'t> MigrateTarget for &'t MySqlPool {
    type Answer = Answering<'t, (), Error>;

    fn migrate(self, outbox: &Outbox) -> Self::Answer {
        let outbox = outbox.clone();
        Box::pin(async move {
            let mut connection = self.acquire().await.map_err(not_migrated)?;
            run(&mut connection, &outbox).await
        })
    }
}

impl<'t> MigrateTarget for &'t mut MySqlConnection {
    type Answer = Answering<'t, (), Error>;

    fn migrate(self, outbox: &Outbox) -> Self::Answer {
        let outbox = outbox.clone();
        Box::pin(async move { run(self, &outbox).await })
    }
}

async fn run(connection: &mut MySqlConnection, outbox: &Outbox) -> Result<(), Error> {
    let names = mysql::names(outbox)?;
    let turn = sqlx::query_scalar::<_, Option<i64>>(AssertSqlSafe(upgrade::take_turn(&names)));
    if turn.persistent(false).fetch_one(&mut *connection).await.map_err(not_migrated)? != Some(1) {
        return Err(mysql::not_my_turn());
    }
    let done = steps(connection, &names, outbox).await;
    // The connection goes back to the application as it was, whatever became of the steps.
    let ended = sqlx::raw_sql(AssertSqlSafe(upgrade::end_turn(&names))).execute(connection).await;
    done.and_then(|()| ended.map(drop).map_err(not_migrated))
}

async fn steps(connection: &mut MySqlConnection, names: &Names, outbox: &Outbox) -> Result<(), Error> {
    let facts = sqlx::query_as::<_, (i32, i32, Option<i32>)>(AssertSqlSafe(upgrade::facts(names)));
    let found = match facts.persistent(false).fetch_optional(&mut *connection).await {
        Err(error) if number(&error) == Some(NO_SUCH_TABLE) => None,
        answer => answer.map_err(not_migrated)?.map(Facts::from),
    };
    let script = upgrade::script(names, found, outbox.lanes)?;
    if script.is_empty() {
        return Ok(());
    }
    sqlx::raw_sql(STRICT).execute(&mut *connection).await.map_err(not_migrated)?;
    let mut ran = Ok(());
    for statement in script {
        ran = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *connection).await.map(drop);
        if ran.is_err() {
            break;
        }
    }
    let restored = sqlx::raw_sql(AS_BEFORE).execute(connection).await;
    ran.and(restored.map(drop)).map_err(not_migrated)
}

fn not_migrated(error: sqlx::Error) -> Error {
    mysql::not_migrated(number(&error)).because(error)
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let told = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(told.number())
}
