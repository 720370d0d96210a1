//! SeaORM with PostgreSQL, MySQL and MariaDB, and SQLite.

use postrider_core::{Error, ErrorKind, Message};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, QueryResult, Statement};

use super::parts::{self, Parts};
use super::reading::Reading;
use crate::driver::Answering;
use crate::outbox::Outbox;
use crate::testing::Enqueued;

impl<'t> Enqueued for &'t DatabaseConnection {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        Box::pin(read(self, outbox.clone()))
    }
}

impl<'t> Enqueued for &'t DatabaseTransaction {
    type Answer = Answering<'t, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        Box::pin(read(self, outbox.clone()))
    }
}

async fn read(from: &impl ConnectionTrait, outbox: Outbox) -> Result<Vec<Message>, Error> {
    let backend = from.get_database_backend();
    let reading = match backend {
        DbBackend::MySql => Reading::mysql(&outbox),
        DbBackend::Sqlite => Reading::sqlite(&outbox),
        _ => Reading::postgres(&outbox),
    };
    let failed = |error: DbErr| reading.failed(kind(&error)).because(error);
    let rows = from.query_all_raw(Statement::from_string(backend, reading.sql.clone())).await.map_err(failed)?;
    rows.iter().map(|row| parts::message(columns(row).map_err(failed)?)).collect()
}

fn kind(error: &DbErr) -> ErrorKind {
    match error {
        DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => ErrorKind::Unavailable,
        _ => ErrorKind::Config,
    }
}

fn columns(row: &QueryResult) -> Result<Parts, DbErr> {
    Ok((
        row.try_get_by_index(0)?,
        row.try_get_by_index(1)?,
        row.try_get_by_index(2)?,
        row.try_get_by_index(3)?,
        row.try_get_by_index(4)?,
        row.try_get_by_index(5)?,
        row.try_get_by_index(6)?,
        row.try_get_by_index(7)?,
        row.try_get_by_index(8)?,
        row.try_get_by_index(9)?,
    ))
}
