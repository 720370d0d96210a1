//! diesel with PostgreSQL.

use diesel::connection::Connection;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as Failed};
use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text, Uuid};
use diesel::{QueryResult, RunQueryDsl};
use postrider_core::{Error, Message};
use postrider_stores::postgres::enqueue::{Columns, ENQUEUE};

use super::diesel::{DieselBackend, ask_by, asked, changed, found, is_lost, is_read_only, key, said};
use super::postgres;
use crate::inbox::InboxError;
use crate::outbox::Outbox;

impl crate::batch::Sealed for Pg {}

impl DieselBackend for Pg {
    // Arrays: any number of messages is one statement.
    const ROWS: usize = usize::MAX;

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

    ask_by!(postgres::names, postgres, not_received);
}

fn recorded(outbox: &Outbox, answer: QueryResult<usize>) -> Result<(), Error> {
    let refused = |error| postgres::refused(&outbox.postgres_table(), sqlstate(&error)).because(error);
    answer.map(drop).map_err(refused)
}

fn statement<'m>(outbox: &Outbox, rows: &'m [Message]) -> BoxedSqlQuery<'m, Pg, SqlQuery> {
    let columns = Columns::of(rows);
    diesel::sql_query(ENQUEUE.replace("{outbox}", &outbox.postgres_table()))
        .into_boxed::<Pg>()
        .bind::<Array<Uuid>, _>(columns.message_ids)
        .bind::<Array<Text>, _>(columns.topics)
        .bind::<Array<Nullable<Text>>, _>(columns.keys)
        .bind::<Array<Binary>, _>(columns.payloads)
        .bind::<Array<Nullable<Text>>, _>(columns.content_types)
        .bind::<Array<Nullable<Text>>, _>(columns.headers)
        .bind::<Array<Nullable<Text>>, _>(columns.attributes)
        .bind::<Array<Nullable<BigInt>>, _>(columns.deliver_at)
        .bind::<Array<Nullable<BigInt>>, _>(columns.expires_at)
        .bind::<Array<Nullable<Text>>, _>(columns.retries)
}

fn not_received(error: Failed) -> InboxError {
    postgres::not_received(sqlstate(&error), error.to_string())
}

/// The SQLSTATE, which diesel keeps to itself, as far as the server's words tell it.
pub(super) fn sqlstate(error: &Failed) -> Option<&'static str> {
    let said = said(error);
    match error {
        _ if is_lost(error) => None,
        _ if is_read_only(error) => Some("25006"),
        Failed::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => Some("40001"),
        Failed::DatabaseError(DatabaseErrorKind::CheckViolation, _) => Some("23514"),
        _ if said.starts_with("deadlock detected") => Some("40P01"),
        _ if said.ends_with("due to lock timeout") => Some("55P03"),
        _ if said.starts_with("message ") && said.ends_with(" is too old") => Some("PR010"),
        _ if said.starts_with("message ") && said.ends_with(" comes from the future") => Some("PR011"),
        _ if said.starts_with("function ") && said.ends_with("does not exist") => Some("42883"),
        _ if said.starts_with("relation ") && said.ends_with("does not exist") => Some("42P01"),
        _ if said.starts_with("column ") && said.ends_with("does not exist") => Some("42703"),
        _ if said.starts_with("permission denied") => Some("42501"),
        _ if said.starts_with("current transaction is aborted") => Some("25P02"),
        _ => Some(""),
    }
}
