//! rusqlite and sqlx on SQLite.

use postrider::testing::{delivered, enqueued};
use postrider::{Outbox, stores};
use rusqlite::{Connection, TransactionBehavior};
use sqlx::SqlitePool;

use crate::{messages, says_what_to_do};

#[test]
fn what_rusqlite_wrote_is_read_back_in_its_order_before_the_commit_too() {
    let mut connection = Connection::open_in_memory().unwrap();
    let outbox = Outbox::new().prefix("shop_").unwrap();
    says_what_to_do(enqueued(&outbox, &connection));
    outbox.migrate(&connection).unwrap();
    let messages = messages();
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    outbox.enqueue_all(&tx, messages.clone()).unwrap();
    assert_eq!(enqueued(&outbox, &tx).unwrap(), messages);
    let savepoint = tx.savepoint().unwrap();
    assert_eq!(enqueued(&outbox, &savepoint).unwrap(), messages);
    drop(savepoint);
    tx.commit().unwrap();
    assert_eq!(enqueued(&outbox, &connection).unwrap(), messages);
}

#[tokio::test]
async fn what_sqlx_wrote_to_sqlite_is_read_back_and_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db").display().to_string();
    let pool = SqlitePool::connect(&format!("sqlite://{file}?mode=rwc")).await.unwrap();
    let outbox = Outbox::new();
    outbox.migrate(&pool).await.unwrap();
    let messages = messages();
    let mut tx = pool.begin_with("begin immediate").await.unwrap();
    outbox.enqueue_all(&mut tx, messages.clone()).await.unwrap();
    assert_eq!(enqueued(&outbox, &mut *tx).await.unwrap(), messages);
    assert!(enqueued(&outbox, &pool).await.unwrap().is_empty(), "it is not committed");
    tx.commit().await.unwrap();
    assert_eq!(enqueued(&outbox, &pool).await.unwrap(), messages);
    let store = stores::open(&format!("sqlite:{file}"), &stores::StoreOptions::default()).await.unwrap();
    let got = delivered(store).await.unwrap();
    assert_eq!(got.len(), 2, "the first one is not due yet");
    assert_eq!(enqueued(&outbox, &pool).await.unwrap(), messages[..1]);
}
