//! What a message can be written into: a transaction, and nothing else.

use crate::batch::Batch;
use crate::error::EnqueueError;
use crate::outbox::Outbox;

/// A transaction of one of the supported drivers.
///
/// Implemented for references to transactions only: with a pool or a plain connection the message would be committed
/// on its own, before the data that it tells about or without it, so that does not compile. Sealed: a new driver is a
/// new feature of this crate.
///
/// | feature | accepted | answer |
/// |---|---|---|
/// | `sqlx-postgres` | `&mut sqlx::Transaction<'_, Postgres>` | a future |
/// | `sqlx-mysql` | `&mut sqlx::Transaction<'_, MySql>` | a future |
/// | `sqlx-sqlite` | `&mut sqlx::Transaction<'_, Sqlite>` | a future |
/// | `tokio-postgres` | `&tokio_postgres::Transaction<'_>`, `&mut` likewise | a future |
/// | `mysql_async` | `&mut mysql_async::Transaction<'_>` | a future |
/// | `rusqlite` | `&rusqlite::Transaction<'_>`, `&rusqlite::Savepoint<'_>`, `&mut` likewise | the result itself |
/// | `sea-orm` | `&sea_orm::DatabaseTransaction` | a future |
/// | `diesel-postgres`, `diesel-mysql`, `diesel-sqlite` | `Diesel(connection)` inside `connection.transaction(..)` | the result itself |
/// | `diesel-async` beside one of these | `DieselAsync(connection)` inside `connection.transaction(..)` | a future |
///
/// diesel has no type for a transaction: there it is asked for when a message is enqueued.
///
/// A transaction of a pool that wraps one of these, such as deadpool's, is handed in as `&*tx`.
#[diagnostic::on_unimplemented(
    message = "messages are enqueued inside a transaction, and `{Self}` is not one",
    label = "not a reference to a transaction of an enabled driver",
    note = "begin a transaction, write your data and the message through it, then commit it; the driver's feature of \
            `postrider` must be on (such as `sqlx-postgres`, `tokio-postgres`, `mysql_async`, `rusqlite` or `sea-orm`; with \
            diesel hand in `Diesel(connection)` or `DieselAsync(connection)`)"
)]
pub trait Enqueue: Sized {
    /// What the driver answers with: a future of the result where it is asynchronous, the result where it is not.
    type Answer<R: Send + 'static>;

    #[doc(hidden)]
    fn write<R: Send + 'static>(self, outbox: &Outbox, batch: Result<Batch<R>, EnqueueError>) -> Self::Answer<R>;
}
