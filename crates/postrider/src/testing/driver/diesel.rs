//! diesel and diesel-async with PostgreSQL, MySQL and MariaDB, and SQLite.

use diesel::backend::Backend;
use diesel::connection::LoadConnection;
use diesel::deserialize::{self, FromSql, QueryableByName};
use diesel::result::{DatabaseErrorKind, Error as Failed};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use postrider_core::{Error, ErrorKind, Message};

use super::parts::{self, Parts};
use super::reading::Reading;
use crate::driver::{Diesel, DieselBackend};
use crate::outbox::Outbox;
use crate::testing::Enqueued;

/// A database of diesel's whose outbox can be read back: every [`DieselBackend`].
///
/// Sealed: what it does is not for callers.
pub trait DieselReadable: DieselBackend {
    #[doc(hidden)]
    fn read<C: LoadConnection<Backend = Self>>(connection: &mut C, outbox: &Outbox) -> Result<Vec<Message>, Error>;

    #[cfg(feature = "diesel-async")]
    #[doc(hidden)]
    fn read_async<C: diesel_async::AsyncConnection<Backend = Self>>(
        connection: &mut C,
        outbox: &Outbox,
    ) -> impl Future<Output = Result<Vec<Message>, Error>> + Send;
}

macro_rules! readable {
    ($backend:ty, $reading:ident) => {
        impl DieselReadable for $backend {
            fn read<C: LoadConnection<Backend = Self>>(
                connection: &mut C,
                outbox: &Outbox,
            ) -> Result<Vec<Message>, Error> {
                let reading = Reading::$reading(outbox);
                messages(&reading, diesel::RunQueryDsl::load(diesel::sql_query(&reading.sql), connection))
            }

            #[cfg(feature = "diesel-async")]
            async fn read_async<C: diesel_async::AsyncConnection<Backend = Self>>(
                connection: &mut C,
                outbox: &Outbox,
            ) -> Result<Vec<Message>, Error> {
                let reading = Reading::$reading(outbox);
                let rows = diesel_async::RunQueryDsl::load(diesel::sql_query(&reading.sql), connection).await;
                messages(&reading, rows)
            }
        }
    };
}

#[cfg(feature = "diesel-postgres")]
readable!(diesel::pg::Pg, postgres);
#[cfg(feature = "diesel-mysql")]
readable!(diesel::mysql::Mysql, mysql);
#[cfg(feature = "diesel-sqlite")]
readable!(diesel::sqlite::Sqlite, sqlite);

impl<C> Enqueued for Diesel<'_, C>
where
    C: LoadConnection,
    C::Backend: DieselReadable,
{
    type Answer = Result<Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        C::Backend::read(self.0, outbox)
    }
}

#[cfg(feature = "diesel-async")]
impl<'c, C> Enqueued for crate::driver::DieselAsync<'c, C>
where
    C: diesel_async::AsyncConnection,
    C::Backend: DieselReadable,
{
    type Answer = crate::driver::Answering<'c, Vec<Message>, Error>;

    fn enqueued(self, outbox: &Outbox) -> Self::Answer {
        let outbox = outbox.clone();
        Box::pin(async move { C::Backend::read_async(self.0, &outbox).await })
    }
}

/// The columns of a row, which diesel finds by their names.
struct Columns(Parts);

impl<DB> QueryableByName<DB> for Columns
where
    DB: Backend,
    String: FromSql<Text, DB>,
    Vec<u8>: FromSql<Binary, DB>,
    i64: FromSql<BigInt, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> deserialize::Result<Self> {
        Ok(Self((
            NamedRow::get::<Text, _>(row, "message_id")?,
            NamedRow::get::<Text, _>(row, "topic")?,
            NamedRow::get::<Nullable<Text>, _>(row, "key")?,
            NamedRow::get::<Binary, _>(row, "payload")?,
            NamedRow::get::<Nullable<Text>, _>(row, "content_type")?,
            NamedRow::get::<Nullable<Text>, _>(row, "headers")?,
            NamedRow::get::<Nullable<Text>, _>(row, "attributes")?,
            NamedRow::get::<Nullable<BigInt>, _>(row, "deliver_at")?,
            NamedRow::get::<Nullable<BigInt>, _>(row, "expires_at")?,
            NamedRow::get::<Nullable<Text>, _>(row, "retry")?,
        )))
    }
}

fn messages(reading: &Reading, rows: diesel::QueryResult<Vec<Columns>>) -> Result<Vec<Message>, Error> {
    let rows = rows.map_err(|error| reading.failed(kind(&error)).because(error))?;
    rows.into_iter().map(|Columns(parts)| parts::message(parts)).collect()
}

fn kind(error: &Failed) -> ErrorKind {
    use DatabaseErrorKind::{ClosedConnection, UnableToSendCommand};
    match error {
        Failed::DatabaseError(ClosedConnection | UnableToSendCommand, _) | Failed::BrokenTransactionManager => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Config,
    }
}
