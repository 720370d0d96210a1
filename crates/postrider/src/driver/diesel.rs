//! diesel: a connection inside `connection.transaction(..)`.
//!
//! diesel has no type for a transaction: inside its closure there is the connection again. So what a type says of the
//! other drivers, this asks the connection when it is called.

use std::num::NonZeroU32;

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::connection::{Connection, LoadConnection, TransactionManager};
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
use diesel::result::Error as Failed;
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
use diesel::{
    deserialize::{self, FromSql, QueryableByName},
    query_builder::{BoxedSqlQuery, SqlQuery},
    row::NamedRow,
    serialize::ToSql,
    sql_types::{BigInt, Binary, HasSqlType, Nullable, Text},
};
use postrider_core::{Error, ErrorKind, Message};
#[cfg(any(feature = "diesel-mysql", feature = "diesel-sqlite"))]
use postrider_stores::Fields;
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
use postrider_stores::dialog::{Statement, Value};
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
use postrider_stores::keys::FoundKey;

use crate::batch::Batch;
use crate::enqueue::Enqueue;
use crate::error::EnqueueError;
use crate::inbox::{Inbox, InboxError};
use crate::outbox::Outbox;
use crate::question::Question;
use crate::receive::Receive;

/// A connection of diesel inside `connection.transaction(..)`, to enqueue in.
///
/// Any connection whose backend is PostgreSQL, MySQL or SQLite, pooled ones too. That a transaction is open is looked at
/// when a message is enqueued: without one the answer is [`EnqueueError::OutsideTransaction`], and nothing is written.
///
#[cfg_attr(feature = "diesel-sqlite", doc = "```")]
#[cfg_attr(not(feature = "diesel-sqlite"), doc = "```ignore")]
/// use diesel::{Connection, RunQueryDsl, SqliteConnection};
/// use postrider::{Diesel, EnqueueError, Message, Outbox};
///
/// # fn place(connection: &mut SqliteConnection, outbox: &Outbox) -> Result<(), Box<dyn std::error::Error>> {
/// connection.immediate_transaction(|tx| {
///     diesel::sql_query("insert into orders values (7, 'book')").execute(tx)?;
///     outbox.enqueue(Diesel(tx), Message::new("orders.placed", "book").key(7))?;
///     Ok(())
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct Diesel<'c, C>(pub &'c mut C);

/// A database of diesel's in which an outbox can be: `Pg`, `Mysql` or `Sqlite`, each with its feature.
///
/// Sealed: what it does is not for callers.
pub trait DieselBackend: Backend + crate::batch::Sealed {
    /// How many messages one statement takes.
    #[doc(hidden)]
    const ROWS: usize;

    #[doc(hidden)]
    fn insert<C: Connection<Backend = Self>>(
        connection: &mut C,
        outbox: &Outbox,
        rows: &[Message],
    ) -> Result<(), Error>;

    #[cfg(feature = "diesel-async")]
    #[doc(hidden)]
    fn insert_async<C: diesel_async::AsyncConnection<Backend = Self>>(
        connection: &mut C,
        outbox: &Outbox,
        rows: &[Message],
    ) -> impl Future<Output = Result<(), Error>> + Send;

    #[doc(hidden)]
    fn ask<C: LoadConnection<Backend = Self>, Q: Question>(
        connection: &mut C,
        inbox: &Inbox,
        question: Q,
    ) -> Result<Q::Answer, InboxError>;

    #[cfg(feature = "diesel-async")]
    #[doc(hidden)]
    fn ask_async<C: diesel_async::AsyncConnection<Backend = Self>, Q: Question>(
        connection: &mut C,
        inbox: &Inbox,
        question: Q,
    ) -> impl Future<Output = Result<Q::Answer, InboxError>> + Send;
}

impl<C> Receive for Diesel<'_, C>
where
    C: LoadConnection,
    C::Backend: DieselBackend,
{
    type Received<R: Send + 'static> = Result<R, InboxError>;

    fn ask<Q: Question>(self, inbox: &Inbox, question: Result<Q, InboxError>) -> Self::Received<Q::Answer> {
        let question = question?;
        let status = <C::TransactionManager as TransactionManager<C>>::transaction_manager_status_mut(self.0);
        inside(status.transaction_depth(), InboxError::OutsideTransaction)?;
        C::Backend::ask(self.0, inbox, question)
    }
}

/// The dialog of an inbox in a backend: `$turn` begins it on its names, `$refused` says what an error means.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
macro_rules! ask_by {
    ($names:expr, $turn:ident, $refused:ident) => {
        fn ask<C: diesel::connection::LoadConnection<Backend = Self>, Q: $crate::question::Question>(
            connection: &mut C,
            inbox: &$crate::inbox::Inbox,
            question: Q,
        ) -> Result<Q::Answer, $crate::inbox::InboxError> {
            let turn = question.$turn(&$names(&inbox.tables)?);
            let outcome = carry_out!(
                turn,
                |statement| changed(
                    diesel::RunQueryDsl::execute(asked::<Self>(statement), connection).map_err($refused)?
                ),
                found(diesel::RunQueryDsl::load(asked::<Self>(statement), connection).map_err($refused)?),
                key(diesel::RunQueryDsl::load(asked::<Self>(statement), connection).map_err($refused)?),
            );
            Q::answer(outcome)
        }

        #[cfg(feature = "diesel-async")]
        async fn ask_async<C: diesel_async::AsyncConnection<Backend = Self>, Q: $crate::question::Question>(
            connection: &mut C,
            inbox: &$crate::inbox::Inbox,
            question: Q,
        ) -> Result<Q::Answer, $crate::inbox::InboxError> {
            let turn = question.$turn(&$names(&inbox.tables)?);
            let outcome = carry_out!(
                turn,
                |statement| changed(
                    diesel_async::RunQueryDsl::execute(asked::<Self>(statement), connection).await.map_err($refused)?
                ),
                found(diesel_async::RunQueryDsl::load(asked::<Self>(statement), connection).await.map_err($refused)?),
                key(diesel_async::RunQueryDsl::load(asked::<Self>(statement), connection).await.map_err($refused)?),
            );
            Q::answer(outcome)
        }
    };
}
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) use ask_by;

/// A statement of a dialog with its values.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) fn asked<DB>(statement: Statement) -> BoxedSqlQuery<'static, DB, SqlQuery>
where
    DB: Backend + HasSqlType<Text> + HasSqlType<Binary> + HasSqlType<BigInt>,
    str: ToSql<Text, DB>,
    [u8]: ToSql<Binary, DB>,
    i64: ToSql<BigInt, DB>,
{
    let query = diesel::sql_query(statement.sql).into_boxed();
    statement.values.into_iter().fold(query, |query, value| match value {
        Value::Text(text) => query.bind::<Text, _>(text),
        Value::Maybe(text) => query.bind::<Nullable<Text>, _>(text),
        Value::Number(number) => query.bind::<BigInt, _>(number),
        Value::Bytes(bytes) => query.bind::<Binary, _>(bytes),
    })
}

/// The column `answer` of a row.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) struct Found(Option<i64>);

#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
impl<DB: Backend> QueryableByName<DB> for Found
where
    i64: FromSql<BigInt, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> deserialize::Result<Self> {
        NamedRow::get::<Nullable<BigInt>, _>(row, "answer").map(Self)
    }
}

/// The row of a key.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) struct KeyRow(FoundKey);

#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
impl<DB: Backend> QueryableByName<DB> for KeyRow
where
    i64: FromSql<BigInt, DB>,
    String: FromSql<Text, DB>,
    Vec<u8>: FromSql<Binary, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> deserialize::Result<Self> {
        let number = |name| NamedRow::get::<BigInt, i64>(row, name);
        let columns = (
            NamedRow::get::<Binary, _>(row, "fingerprint")?,
            number("epoch")?,
            number("leased_until")?,
            number("now")?,
            NamedRow::get::<Nullable<BigInt>, _>(row, "status")?,
            NamedRow::get::<Nullable<Text>, _>(row, "headers")?,
            NamedRow::get::<Nullable<Binary>, _>(row, "body")?,
        );
        Ok(Self(FoundKey::from(columns)))
    }
}

/// What the first row says of a key.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) fn key(rows: Vec<KeyRow>) -> Option<FoundKey> {
    rows.into_iter().next().map(|KeyRow(found)| found)
}

/// What the first row has.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) fn found(rows: Vec<Found>) -> Option<i64> {
    rows.first().and_then(|Found(answer)| *answer)
}

#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) fn changed(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

impl<C> Enqueue for Diesel<'_, C>
where
    C: Connection,
    C::Backend: DieselBackend,
{
    type Answer<R: Send + 'static> = Result<R, EnqueueError>;

    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R> {
        let Batch { messages, ids } = batch?;
        let status = <C::TransactionManager as TransactionManager<C>>::transaction_manager_status_mut(self.0);
        inside(status.transaction_depth(), EnqueueError::OutsideTransaction)?;
        for rows in messages.chunks(C::Backend::ROWS) {
            C::Backend::insert(self.0, outbox, rows)?;
        }
        Ok(ids)
    }
}

/// That a transaction is open, by how deep they are nested; `outside` where none is.
pub(super) fn inside<E: From<Error>>(depth: QueryResult<Option<NonZeroU32>>, outside: E) -> Result<(), E> {
    match depth {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(outside),
        Err(error) => {
            let what = "a transaction of this connection could not be rolled back: close the connection";
            Err(Error::new(ErrorKind::Unavailable, what).because(error).into())
        }
    }
}

/// Whether it says nothing of what was asked: by what diesel tells, and by the words of each of the databases.
#[cfg(feature = "consume")]
pub(super) fn is_trouble(error: &(dyn std::error::Error + 'static)) -> bool {
    let Some(failed) = error.downcast_ref::<Failed>() else { return error.is::<diesel::ConnectionError>() };
    let judged = [
        #[cfg(feature = "diesel-postgres")]
        super::diesel_postgres::sqlstate(failed).is_none_or(super::postgres::is_trouble),
        #[cfg(feature = "diesel-mysql")]
        super::diesel_mysql::number(failed).is_none_or(super::mysql::is_trouble),
        #[cfg(feature = "diesel-sqlite")]
        super::diesel_sqlite::code(failed).is_none_or(super::sqlite::is_trouble),
    ];
    judged.contains(&true)
}

/// Whether the connection is gone.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql"))]
pub(super) fn is_lost(error: &Failed) -> bool {
    use diesel::result::DatabaseErrorKind::{ClosedConnection, UnableToSendCommand};
    matches!(error, Failed::DatabaseError(ClosedConnection | UnableToSendCommand, _) | Failed::BrokenTransactionManager)
}

/// Whether the server refused to write at all.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql"))]
pub(super) fn is_read_only(error: &Failed) -> bool {
    matches!(error, Failed::DatabaseError(diesel::result::DatabaseErrorKind::ReadOnlyTransaction, _))
}

/// What the database said, which is all that diesel tells of most errors.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) fn said(error: &Failed) -> &str {
    match error {
        Failed::DatabaseError(_, told) => told.message(),
        _ => "",
    }
}

/// The statement with the values of these messages, for a database that takes them as parameters of their own.
#[cfg(any(feature = "diesel-mysql", feature = "diesel-sqlite"))]
pub(super) fn bound<DB>(sql: String, rows: &[Message]) -> BoxedSqlQuery<'_, DB, SqlQuery>
where
    DB: Backend + HasSqlType<Text> + HasSqlType<Binary> + HasSqlType<BigInt>,
    str: ToSql<Text, DB>,
    [u8]: ToSql<Binary, DB>,
    i64: ToSql<BigInt, DB>,
{
    rows.iter().map(Fields::of).fold(diesel::sql_query(sql).into_boxed(), |insert, row| {
        insert
            .bind::<Text, _>(row.message_id)
            .bind::<Text, _>(row.topic)
            .bind::<Nullable<Text>, _>(row.key)
            .bind::<Binary, _>(row.payload)
            .bind::<Nullable<Text>, _>(row.content_type)
            .bind::<Nullable<Text>, _>(row.headers)
            .bind::<Nullable<Text>, _>(row.attributes)
            .bind::<Nullable<BigInt>, _>(row.deliver_at)
            .bind::<Nullable<BigInt>, _>(row.expires_at)
            .bind::<Nullable<Text>, _>(row.retry)
    })
}
