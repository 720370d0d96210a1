//! SeaORM with PostgreSQL, MySQL and MariaDB, and SQLite.

use postrider_core::{Error, ErrorKind, Message};
use postrider_stores::Fields;
use postrider_stores::dialog::{self, Value};
use postrider_stores::keys::{FoundKey, KeyColumns};
use postrider_stores::{mysql as mysql_sql, postgres as postgres_sql, sqlite as sqlite_sql};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, RuntimeErr, Statement};

use super::{Answering, mysql, postgres, sqlite};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

impl<'t> Enqueue for &'t DatabaseTransaction {
    type Answer<R: Send + 'static> = Answering<'t, R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let outbox = outbox.clone();
        Box::pin(async move {
            let Batch { messages, ids } = batch?;
            let backend = self.get_database_backend();
            for rows in messages.chunks(rows_per_statement(backend)) {
                let sql = statement(&outbox, backend, rows)?;
                let values = rows.iter().map(Fields::of).flat_map(Fields::values);
                let ran = self.execute_raw(Statement::from_sql_and_values(backend, sql, values)).await;
                ran.map_err(|error| refused(&outbox, backend, error))?;
            }
            Ok(ids)
        })
    }
}

impl<'t> Receive for &'t DatabaseTransaction {
    type Received<R: Send + 'static> = Answering<'t, R, InboxError>;

    fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
        let tables = inbox.tables.clone();
        Box::pin(async move {
            let (backend, question) = (self.get_database_backend(), question?);
            let turn = match backend {
                DbBackend::Postgres => question.postgres(&postgres::names(&tables)?),
                DbBackend::MySql => question.mysql(&mysql::names(&tables)?),
                DbBackend::Sqlite => question.sqlite(&sqlite::prefix(&tables)?),
                other => return Err(not_here("an inbox", other).into()),
            };
            let failed = |error| not_received(backend, error);
            let outcome = carry_out!(
                turn,
                |statement| self.execute_raw(asked(backend, statement)).await.map_err(failed)?.rows_affected(),
                match self.query_one_raw(asked(backend, statement)).await.map_err(failed)? {
                    Some(row) => row.try_get_by_index(0).map_err(failed)?,
                    None => None,
                },
                match self.query_one_raw(asked(backend, statement)).await.map_err(failed)? {
                    Some(row) => Some(key(&row).map_err(failed)?),
                    None => None,
                },
            );
            Q::answer(outcome)
        })
    }
}

fn key(row: &QueryResult) -> Result<FoundKey, DbErr> {
    let columns: KeyColumns = (
        row.try_get_by_index(0)?,
        row.try_get_by_index(1)?,
        row.try_get_by_index(2)?,
        row.try_get_by_index(3)?,
        row.try_get_by_index(4)?,
        row.try_get_by_index(5)?,
        row.try_get_by_index(6)?,
    );
    Ok(FoundKey::from(columns))
}

fn asked(backend: DbBackend, statement: dialog::Statement) -> Statement {
    let value = |value| match value {
        Value::Text(text) => text.into(),
        Value::Maybe(text) => text.into(),
        Value::Number(number) => number.into(),
        Value::Bytes(bytes) => bytes.into(),
    };
    let values: Vec<sea_orm::Value> = statement.values.into_iter().map(value).collect();
    Statement::from_sql_and_values(backend, statement.sql, values)
}

fn not_received(backend: DbBackend, error: DbErr) -> InboxError {
    let Told { code, number, said } = told(&error);
    match backend {
        DbBackend::MySql => mysql::not_received(number, error),
        DbBackend::Sqlite => sqlite::not_received(code.and_then(|code| code.parse().ok()), said),
        _ => postgres::not_received(code.as_deref(), said),
    }
}

fn rows_per_statement(backend: DbBackend) -> usize {
    match backend {
        DbBackend::Sqlite => sqlite_sql::enqueue::ROWS_PER_STATEMENT,
        DbBackend::MySql => mysql_sql::enqueue::ROWS_PER_STATEMENT,
        _ => postgres_sql::enqueue::ROWS_PER_STATEMENT,
    }
}

fn statement(outbox: &Outbox, backend: DbBackend, rows: &[Message]) -> Result<String, Error> {
    match backend {
        DbBackend::Postgres => Ok(postgres_sql::enqueue::rows(&outbox.postgres_table(), rows.len())),
        DbBackend::MySql => Ok(mysql_sql::enqueue::enqueue(&mysql::names(outbox)?, rows.len())),
        DbBackend::Sqlite => Ok(sqlite_sql::enqueue::enqueue(&outbox.sqlite_table(), rows.len())),
        other => Err(not_here("an outbox", other)),
    }
}

fn not_here(what: &str, backend: DbBackend) -> Error {
    let what = format!("{what} on {backend:?}: it can be in PostgreSQL, MySQL, MariaDB and SQLite");
    Error::new(ErrorKind::Config, what)
}

/// Whether it could not even be asked; what it answered is told by sqlx's error beneath.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(error: &(dyn std::error::Error + 'static)) -> bool {
    let of_the_connection = |error: &DbErr| matches!(error, DbErr::ConnectionAcquire(_) | DbErr::Conn(_));
    error.is::<sea_orm::error::ConnAcquireErr>() || error.downcast_ref().is_some_and(of_the_connection)
}

/// What a database said of an error.
struct Told {
    /// Its code, unless the connection failed.
    code: Option<String>,
    /// The number of an error of MySQL's. Its SQLSTATE stands for many: for a lock that somebody else holds as for nearly
    /// everything else.
    number: Option<u16>,
    said: String,
}

fn told(error: &DbErr) -> Told {
    let told = match error {
        DbErr::Exec(RuntimeErr::SqlxError(told)) | DbErr::Query(RuntimeErr::SqlxError(told)) => {
            told.as_database_error()
        }
        _ => None,
    };
    Told {
        code: told.and_then(|told| told.code()).map(Into::into),
        number: told.map(|told| mysql::number_shown(&told.to_string()).unwrap_or(0)),
        said: told.map_or_else(|| error.to_string(), |told| told.message().to_owned()),
    }
}

fn refused(outbox: &Outbox, backend: DbBackend, error: DbErr) -> Error {
    let Told { code, number, said } = told(&error);
    match backend {
        DbBackend::MySql => match mysql::names(outbox) {
            Ok(names) => mysql::told(mysql::refused(&names, number), number, &error),
            Err(error) => error,
        },
        DbBackend::Sqlite => {
            let code = code.and_then(|code| code.parse().ok());
            sqlite::refused(&outbox.sqlite_table(), code, &said).because(error)
        }
        _ => postgres::refused(&outbox.postgres_table(), code.as_deref()).because(error),
    }
}
