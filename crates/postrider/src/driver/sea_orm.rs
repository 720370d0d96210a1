//! SeaORM with PostgreSQL, MySQL and MariaDB, and SQLite.

use postrider_core::{Error, ErrorKind, Message};
use postrider_stores::Fields;
use postrider_stores::{mysql as mysql_sql, postgres as postgres_sql, sqlite as sqlite_sql};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, RuntimeErr, Statement};

use super::{Answering, mysql, postgres, sqlite};
use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::outbox::Outbox;

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
        other => {
            let what = format!("enqueueing on {other:?}: an outbox can be in PostgreSQL, MySQL, MariaDB and SQLite");
            Err(Error::new(ErrorKind::Config, what))
        }
    }
}

fn refused(outbox: &Outbox, backend: DbBackend, error: DbErr) -> Error {
    let told = match &error {
        DbErr::Exec(RuntimeErr::SqlxError(told)) | DbErr::Query(RuntimeErr::SqlxError(told)) => {
            told.as_database_error()
        }
        _ => None,
    };
    let code = told.and_then(|told| told.code());
    let said = told.map(|told| told.message().to_owned()).unwrap_or_default();
    match backend {
        DbBackend::MySql => match mysql::names(outbox) {
            Ok(names) => {
                let number = code.as_deref().map(mysql::number_of_state);
                mysql::told(mysql::refused(&names, number), number, &error)
            }
            Err(error) => error,
        },
        DbBackend::Sqlite => {
            let code = code.and_then(|code| code.parse().ok());
            sqlite::refused(&outbox.sqlite_table(), code, &said).because(error)
        }
        _ => postgres::refused(&outbox.postgres_table(), code.as_deref()).because(error),
    }
}
