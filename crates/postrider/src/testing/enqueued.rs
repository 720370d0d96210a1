//! Reading back what was enqueued.

#[cfg(doc)]
use postrider_core::Error;

use crate::outbox::Outbox;

/// What [`enqueued`] can read through.
///
/// | feature | accepted | answer |
/// |---|---|---|
/// | `sqlx-postgres` | `&PgPool`, `&mut PgConnection` (of a transaction: `&mut *tx`) | a future |
/// | `sqlx-mysql` | `&MySqlPool`, `&mut MySqlConnection` (of a transaction: `&mut *tx`) | a future |
/// | `sqlx-sqlite` | `&SqlitePool`, `&mut SqliteConnection` (of a transaction: `&mut *tx`) | a future |
/// | `tokio-postgres` | `&tokio_postgres::Client`, `&tokio_postgres::Transaction` | a future |
/// | `mysql_async` | `&mysql_async::Pool`, `&mut mysql_async::Conn`, `&mut mysql_async::Transaction` | a future |
/// | `rusqlite` | `&rusqlite::Connection`, `&rusqlite::Transaction`, `&rusqlite::Savepoint` | the result itself |
/// | `sea-orm` | `&sea_orm::DatabaseConnection`, `&sea_orm::DatabaseTransaction` | a future |
/// | `diesel-postgres`, `diesel-mysql`, `diesel-sqlite` | `Diesel(connection)`, in a transaction or not | the result itself |
/// | `diesel-async` beside one of these | `DieselAsync(connection)`, in a transaction or not | a future |
#[diagnostic::on_unimplemented(
    message = "messages are read through a pool, a connection or a transaction, and `{Self}` is none of these",
    note = "the driver's feature of `postrider` must be on (such as `sqlx-postgres`, `tokio-postgres`, `mysql_async`, \
            `rusqlite` or `sea-orm`; with diesel hand in `Diesel(connection)` or `DieselAsync(connection)`)"
)]
pub trait Enqueued: Sized {
    /// `Result<Vec<`[`Message`](postrider_core::Message)`>, `[`Error`](postrider_core::Error)`>`, or a future of it where the
    /// driver is asynchronous.
    type Answer;

    #[doc(hidden)]
    fn enqueued(self, outbox: &Outbox) -> Self::Answer;
}

/// Every message that stands in an outbox, in the order in which they were written, whatever became of them since.
///
/// Through a transaction it sees what that transaction wrote, committed or not. A message compares equal to the one that was
/// enqueued: [`created_at`](postrider_core::Message::created_at), which the database sets, is left out. What a relay has
/// delivered is gone from the table, so no relay should run over the outbox of such a test.
///
/// # Errors
/// `Config` when the table is not there or cannot be read, `Rejected` for a row that is no message, `Unavailable` when the
/// connection failed.
pub fn enqueued<T: Enqueued>(outbox: &Outbox, from: T) -> T::Answer {
    from.enqueued(outbox)
}
