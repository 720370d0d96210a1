//! Every kind of transaction is taken, as the owner or the borrower of it has it. That it compiles is the test.

use diesel::{Connection, SqliteConnection};
use postrider::{Diesel, DieselAsync, EnqueueError, Message, Outbox};

#[expect(dead_code, clippy::too_many_arguments, reason = "compiled, never called")]
async fn every_driver(
    postgres: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    mysql: &mut sqlx::Transaction<'_, sqlx::MySql>,
    sqlite: &mut sqlx::Transaction<'_, sqlx::Sqlite>,
    shared: &tokio_postgres::Transaction<'_>,
    exclusive: &mut tokio_postgres::Transaction<'_>,
    mysql_async: &mut mysql_async::Transaction<'_>,
    rusqlite: &rusqlite::Transaction<'_>,
    sea_orm: &sea_orm::DatabaseTransaction,
    diesel: &mut SqliteConnection,
    diesel_async: &mut diesel_async::AsyncPgConnection,
) -> Result<(), EnqueueError> {
    let outbox = Outbox::new();
    let message = || Message::new("t", "");
    outbox.enqueue(&mut *postgres, message()).await?;
    outbox.enqueue_all(&mut *postgres, [message()]).await?;
    outbox.enqueue(&mut *mysql, message()).await?;
    outbox.enqueue(&mut *sqlite, message()).await?;
    outbox.enqueue(shared, message()).await?;
    outbox.enqueue(exclusive, message()).await?;
    outbox.enqueue(mysql_async, message()).await?;
    outbox.enqueue(rusqlite, message())?;
    outbox.enqueue(sea_orm, message()).await?;
    outbox.enqueue(Diesel(diesel), message())?;
    outbox.enqueue(DieselAsync(diesel_async), message()).await?;
    Ok(())
}

fn spawnable<T: Send>(_: T) {}

#[expect(dead_code, reason = "compiled, never called")]
fn handlers(pool: sqlx::PgPool, mut connection: diesel_async::AsyncPgConnection) {
    spawnable(async move {
        let mut tx = pool.begin().await.unwrap();
        Outbox::new().enqueue(&mut tx, Message::new("t", "")).await.unwrap();
        tx.commit().await.unwrap();
    });
    spawnable(async move {
        let outbox = Outbox::new();
        let placed = diesel_async::AsyncConnection::transaction(&mut connection, async |tx| {
            outbox.enqueue(DieselAsync(tx), Message::new("t", "")).await.unwrap();
            Ok::<_, diesel::result::Error>(())
        });
        placed.await.unwrap();
    });
}

#[test]
fn an_error_of_the_outbox_ends_a_transaction_of_diesel() {
    #[derive(Debug)]
    enum Failure {
        Outbox(#[expect(dead_code, reason = "shown when the test fails")] EnqueueError),
        Database(#[expect(dead_code, reason = "shown when the test fails")] diesel::result::Error),
    }
    impl From<diesel::result::Error> for Failure {
        fn from(error: diesel::result::Error) -> Self {
            Self::Database(error)
        }
    }
    let mut connection = SqliteConnection::establish(":memory:").unwrap();
    let ended = connection.transaction::<(), Failure, _>(|tx| {
        diesel::RunQueryDsl::execute(diesel::sql_query("create table mine (a integer)"), tx)?;
        Outbox::new().enqueue(Diesel(tx), Message::new("not a topic", "")).map(drop).map_err(Failure::Outbox)
    });
    assert!(matches!(ended, Err(Failure::Outbox(_))), "{ended:?}");
    let mine = diesel::RunQueryDsl::execute(diesel::sql_query("select a from mine"), &mut connection);
    assert!(mine.is_err(), "the transaction was rolled back");
}
