//! diesel and diesel-async, each on a real PostgreSQL, a real MariaDB and a SQLite file.
//!
//! diesel's own connections to the servers need their client libraries. What stands for them is diesel's interface over
//! the connections of diesel-async, which speak the protocols themselves.

use diesel::SqliteConnection;
use diesel::connection::LoadConnection;
use diesel::result::Error as Failed;
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, TransactionManager};
use postrider::testing::{DieselReadable, enqueued};
use postrider::{Diesel, DieselAsync, Outbox};
use postrider_testkit::servers::{installed, mariadb, postgres};

use crate::{messages, says_what_to_do};

/// The outbox at this address is there, and empty.
fn is_read_back<C>(url: &str)
where
    C: LoadConnection,
    C::Backend: DieselReadable,
{
    let mut connection = C::establish(url).unwrap();
    let outbox = Outbox::new();
    says_what_to_do(enqueued(&outbox.clone().prefix("nobody_").unwrap(), Diesel(&mut connection)));
    let messages = messages();
    let ended = connection.transaction::<(), Failed, _>(|tx| {
        outbox.enqueue_all(Diesel(tx), messages.clone()).unwrap();
        assert_eq!(enqueued(&outbox, Diesel(tx)).unwrap(), messages);
        Err(Failed::RollbackTransaction)
    });
    assert!(matches!(ended, Err(Failed::RollbackTransaction)), "{ended:?}");
    assert!(enqueued(&outbox, Diesel(&mut connection)).unwrap().is_empty(), "it was rolled back");
}

/// The same with diesel-async.
async fn is_read_back_async<C>(url: &str)
where
    C: AsyncConnection,
    C::Backend: DieselReadable,
{
    let mut connection = C::establish(url).await.unwrap();
    let outbox = Outbox::new();
    says_what_to_do(enqueued(&outbox.clone().prefix("nobody_").unwrap(), DieselAsync(&mut connection)).await);
    let messages = messages();
    C::TransactionManager::begin_transaction(&mut connection).await.unwrap();
    outbox.enqueue_all(DieselAsync(&mut connection), messages.clone()).await.unwrap();
    assert_eq!(enqueued(&outbox, DieselAsync(&mut connection)).await.unwrap(), messages);
    C::TransactionManager::rollback_transaction(&mut connection).await.unwrap();
    assert!(enqueued(&outbox, DieselAsync(&mut connection)).await.unwrap().is_empty(), "it was rolled back");
}

#[tokio::test]
async fn what_diesel_wrote_to_postgresql_is_read_back_before_the_commit() {
    let Some(server) = installed("what diesel reads back", postgres::shared().await) else { return };
    let url = server.fresh_database().await.unwrap();
    postrider::migrate(&sqlx::PgPool::connect(&url).await.unwrap()).await.unwrap();
    is_read_back_async::<AsyncPgConnection>(&url).await;
    let blocking = move || is_read_back::<AsyncConnectionWrapper<AsyncPgConnection>>(&url);
    tokio::task::spawn_blocking(blocking).await.unwrap();
}

#[tokio::test]
async fn what_diesel_wrote_to_mariadb_is_read_back_before_the_commit() {
    let Some(server) = installed("what diesel reads back", mariadb::shared().await) else { return };
    let url = server.url_for(&server.create_database().await.unwrap());
    postrider::migrate(&sqlx::MySqlPool::connect(&url).await.unwrap()).await.unwrap();
    is_read_back_async::<AsyncMysqlConnection>(&url).await;
    let blocking = move || is_read_back::<AsyncConnectionWrapper<AsyncMysqlConnection>>(&url);
    tokio::task::spawn_blocking(blocking).await.unwrap();
}

#[tokio::test]
async fn what_diesel_wrote_to_sqlite_is_read_back_before_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db").display().to_string();
    postrider::migrate(&rusqlite::Connection::open(&file).unwrap()).unwrap();
    is_read_back_async::<SyncConnectionWrapper<SqliteConnection>>(&file).await;
    is_read_back::<SqliteConnection>(&file);
}
