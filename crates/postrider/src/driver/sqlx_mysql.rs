//! sqlx with MySQL and MariaDB.

use postrider_core::Error;
use postrider_stores::keys::{FoundKey, KeyColumns};
use postrider_stores::mysql::Names;
use postrider_stores::mysql::enqueue::{ROWS_PER_STATEMENT, enqueue};
use postrider_stores::mysql::upgrade::Facts;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, FromRow as _, MySql, MySqlConnection, MySqlPool, Transaction};

use super::mysql_migration::{Session, not_migrated, run};
use super::sqlx_rows::{asked, insert, receive_in};
use super::{Answering, mysql};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::migrate::MigrateTarget;
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

impl<'t> Enqueue for &'t mut Transaction<'_, MySql> {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let names = mysql::names(outbox);
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            let names = names?;
            for rows in messages.chunks(ROWS_PER_STATEMENT) {
                let insert = insert(enqueue(&names, rows.len()), rows);
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

receive_in!(MySql, mysql::names, mysql, not_received);

fn not_received(error: sqlx::Error) -> InboxError {
    mysql::not_received(number(&error), error)
}

migrate_on!(MySqlPool, acquire, MySqlConnection, run, not_migrated::<MySqlConnection>);

impl Session for MySqlConnection {
    type Failed = sqlx::Error;

    fn number(error: &Self::Failed) -> Option<u16> {
        number(error)
    }

    async fn turn(&mut self, sql: String) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar(AssertSqlSafe(sql)).persistent(false).fetch_one(self).await
    }

    async fn facts(&mut self, sql: String) -> sqlx::Result<Option<Facts>> {
        let facts = sqlx::query_as::<_, (i32, i32, Option<i32>)>(AssertSqlSafe(sql));
        Ok(facts.persistent(false).fetch_optional(self).await?.map(Facts::from))
    }

    async fn run(&mut self, sql: String) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self).await.map(drop)
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let told = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(told.number())
}
