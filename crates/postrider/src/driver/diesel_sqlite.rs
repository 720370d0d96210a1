//! diesel with SQLite.

use diesel::connection::Connection;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::Error as Failed;
use diesel::sqlite::Sqlite;
use diesel::{QueryResult, RunQueryDsl};
use postrider_core::{Error, Message};
use postrider_stores::sqlite::enqueue::{ROWS_PER_STATEMENT, enqueue};

use super::diesel::{DieselBackend, ask_by, asked, bound, changed, found, key, said};
use super::sqlite;
use crate::inbox::InboxError;
use crate::outbox::Outbox;

impl crate::batch::Sealed for Sqlite {}

impl DieselBackend for Sqlite {
    const ROWS: usize = ROWS_PER_STATEMENT;

    fn insert<C: Connection<Backend = Self>>(
        connection: &mut C,
        outbox: &Outbox,
        rows: &[Message],
    ) -> Result<(), Error> {
        recorded(outbox, statement(outbox, rows).execute(connection))
    }

    #[cfg(feature = "diesel-async")]
    async fn insert_async<C: diesel_async::AsyncConnection<Backend = Self>>(
        connection: &mut C,
        outbox: &Outbox,
        rows: &[Message],
    ) -> Result<(), Error> {
        recorded(outbox, diesel_async::RunQueryDsl::execute(statement(outbox, rows), connection).await)
    }

    ask_by!(sqlite::prefix, sqlite, not_received);
}

fn statement<'m>(outbox: &Outbox, rows: &'m [Message]) -> BoxedSqlQuery<'m, Sqlite, SqlQuery> {
    bound(enqueue(&outbox.sqlite_table(), rows.len()), rows)
}

fn recorded(outbox: &Outbox, answer: QueryResult<usize>) -> Result<(), Error> {
    let refused = |error| sqlite::refused(&outbox.sqlite_table(), code(&error), said(&error)).because(error);
    answer.map(drop).map_err(refused)
}

fn not_received(error: Failed) -> InboxError {
    sqlite::not_received(code(&error), error.to_string())
}

/// The result code, which diesel keeps to itself, as far as SQLite's words tell it.
pub(super) fn code(error: &Failed) -> Option<i32> {
    match said(error) {
        "database is locked" => Some(sqlite::BUSY),
        "database table is locked" => Some(sqlite::LOCKED),
        "attempt to write a readonly database" => Some(sqlite::READONLY),
        "disk I/O error" => Some(sqlite::IO),
        "database or disk is full" => Some(sqlite::FULL),
        "out of memory" => Some(sqlite::NO_MEMORY),
        _ => Some(0),
    }
}
