//! Creating the tables through the connection that the application has.

#[cfg(doc)]
use postrider_core::Error;

use crate::outbox::Outbox;

/// What [`migrate`] can run on.
///
/// | feature | accepted | answer |
/// |---|---|---|
/// | `sqlx-postgres` | `&PgPool`, `&mut PgConnection` | a future |
/// | `sqlx-mysql` | `&MySqlPool`, `&mut MySqlConnection` | a future |
/// | `sqlx-sqlite` | `&SqlitePool`, `&mut SqliteConnection` | a future |
/// | `tokio-postgres` | `&tokio_postgres::Client` | a future |
/// | `mysql_async` | `&mysql_async::Pool`, `&mut mysql_async::Conn` | a future |
/// | `rusqlite` | `&rusqlite::Connection`, `&mut` likewise | the result itself |
///
/// Not a transaction: a migration has one of its own. With diesel and SeaORM run `postrider migrate`, or make a migration of
/// theirs from what `postrider migrate --print` prints.
#[diagnostic::on_unimplemented(
    message = "the tables are created through a pool or a connection, and `{Self}` is neither",
    note = "hand in `&pool` of sqlx or mysql_async, `&client` of tokio-postgres or `&connection` of rusqlite; the driver's \
            feature of `postrider` must be on (such as `sqlx-postgres`, `tokio-postgres`, `mysql_async` or `rusqlite`)"
)]
pub trait MigrateTarget: Sized {
    /// `Result<(), `[`Error`](postrider_core::Error)`>`, or a future of it where the driver is asynchronous.
    type Answer;

    #[doc(hidden)]
    fn migrate(self, outbox: &Outbox) -> Self::Answer;
}

/// Creates the tables of the outbox with the default names, or brings them up to date: [`Outbox::migrate`].
///
/// # Errors
/// As [`Outbox::migrate`].
pub fn migrate<T: MigrateTarget>(target: T) -> T::Answer {
    Outbox::new().migrate(target)
}
