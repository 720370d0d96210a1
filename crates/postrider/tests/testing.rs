//! What an application's own tests read back: every part of a message, through every driver, also before the commit.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use postrider::testing::{delivered, enqueued};
use postrider::{ErrorKind, Message, Outbox, RetryOverride, Timestamp, stores};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::postgres::shared;
use rusqlite::{Connection, TransactionBehavior};
use sqlx::{PgPool, SqlitePool};

/// Messages of which every part says something, and the plainest one.
fn messages() -> Vec<Message> {
    let mut full = Message::json("orders.placed", &serde_json::json!({ "order": 7 })).unwrap().key("ann \u{1F4D6}");
    full = full.header("tenant", "blue").header("a", "b").attribute("http.path", "orders/7");
    full.deliver_at = Some(Timestamp(1_800_000_000_123_456));
    full.expires_at = Some(Timestamp(1_900_000_000_654_321));
    full.retry = Some(RetryOverride::from_json(r#"{"max_attempts": 3}"#).unwrap());
    let mut never = Message::new("orders.placed", vec![0, 0xff]);
    never.expires_at = Some(Timestamp::NEVER);
    vec![full, Message::new("a", ""), never]
}

#[test]
fn what_rusqlite_wrote_is_read_back_in_its_order_before_the_commit_too() {
    let mut connection = Connection::open_in_memory().unwrap();
    let outbox = Outbox::new().prefix("shop_").unwrap();
    let missing = enqueued(&outbox, &connection).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Config);
    assert!(missing.to_string().contains("postrider::migrate"), "{missing}");
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

#[tokio::test]
async fn what_both_drivers_wrote_to_postgresql_is_read_back() {
    let Some(server) = installed("what is read back from PostgreSQL", shared().await) else { return };
    let url = server.fresh_database().await.unwrap();
    let pool = PgPool::connect(&url).await.unwrap();
    let outbox = Outbox::new();
    outbox.migrate(&pool).await.unwrap();
    let messages = messages();
    let mut tx = pool.begin().await.unwrap();
    outbox.enqueue_all(&mut tx, messages.clone()).await.unwrap();
    assert_eq!(enqueued(&outbox, &mut *tx).await.unwrap(), messages);
    tx.commit().await.unwrap();

    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let more = vec![Message::new("b", "more")];
    let both = [messages, more.clone()].concat();
    let tx = client.transaction().await.unwrap();
    outbox.enqueue_all(&tx, more).await.unwrap();
    assert_eq!(enqueued(&outbox, &tx).await.unwrap(), both);
    tx.commit().await.unwrap();
    assert_eq!(enqueued(&outbox, &client).await.unwrap(), both);
    assert_eq!(enqueued(&outbox, &pool).await.unwrap(), both);
}
