//! SeaORM on a real PostgreSQL, a real MariaDB and a SQLite file.

use postrider::Outbox;
use postrider::testing::enqueued;
use postrider_testkit::servers::{installed, mariadb, postgres};
use sea_orm::{Database, TransactionTrait};

use crate::{messages, says_what_to_do};

/// The outbox at this address is there, and empty.
async fn is_read_back(url: &str) {
    let connection = Database::connect(url).await.unwrap();
    let outbox = Outbox::new();
    says_what_to_do(enqueued(&outbox.clone().prefix("nobody_").unwrap(), &connection).await);
    let messages = messages();
    let tx = connection.begin().await.unwrap();
    outbox.enqueue_all(&tx, messages.clone()).await.unwrap();
    assert_eq!(enqueued(&outbox, &tx).await.unwrap(), messages);
    tx.rollback().await.unwrap();
    assert!(enqueued(&outbox, &connection).await.unwrap().is_empty(), "it was rolled back");
}

#[tokio::test]
async fn what_sea_orm_wrote_to_postgresql_is_read_back_before_the_commit() {
    let Some(server) = installed("what SeaORM reads back", postgres::shared().await) else { return };
    let url = server.fresh_database().await.unwrap();
    postrider::migrate(&sqlx::PgPool::connect(&url).await.unwrap()).await.unwrap();
    is_read_back(&url).await;
}

#[tokio::test]
async fn what_sea_orm_wrote_to_mariadb_is_read_back_before_the_commit() {
    let Some(server) = installed("what SeaORM reads back", mariadb::shared().await) else { return };
    let url = server.url_for(&server.create_database().await.unwrap());
    postrider::migrate(&sqlx::MySqlPool::connect(&url).await.unwrap()).await.unwrap();
    is_read_back(&url).await;
}

#[tokio::test]
async fn what_sea_orm_wrote_to_sqlite_is_read_back_before_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    postrider::migrate(&rusqlite::Connection::open(&file).unwrap()).unwrap();
    is_read_back(&format!("sqlite:{}", file.display())).await;
}
