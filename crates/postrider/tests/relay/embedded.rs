//! Enqueued by this crate, relayed by this crate, in one process.

use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::MemoryBroker;
use postrider::stores::{self, StoreOptions};
use postrider::{CancellationToken, DestinationName, DestinationTemplate, Message, Outbox, Relay};
use postrider_testkit::servers::postgres::shared;
use rusqlite::{Connection, TransactionBehavior};
use sqlx::PgPool;

use super::{Got, migrated, relayed};

fn messages() -> Vec<Message> {
    (0..100).map(|n| Message::new("t", n.to_string()).key(n % 7).correlation_id(n)).collect()
}

fn expected(messages: &[Message]) -> Vec<Got> {
    let got = |message: &Message| Got {
        id: message.id.to_string(),
        key: message.key.as_ref().map(ToString::to_string),
        payload: String::from_utf8(message.payload.to_vec()).unwrap(),
        content_type: None,
        correlation_id: message.headers.get("correlation-id").map(str::to_owned),
    };
    messages.iter().map(got).collect()
}

/// The messages of each key in the order of that key; how keys lie between each other is not promised.
fn by_key(mut got: Vec<Got>) -> Vec<Got> {
    got.sort_by(|a, b| a.key.cmp(&b.key));
    got
}

#[tokio::test]
async fn what_is_committed_in_sqlite_is_delivered_and_what_is_rolled_back_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/app.db", folder.path().display());
    migrated(&url).await;
    let mut connection = Connection::open(folder.path().join("app.db")).unwrap();
    let committed = messages();
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    Outbox::new().enqueue_all(&tx, committed.clone()).unwrap();
    tx.commit().unwrap();
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    Outbox::new().enqueue_all(&tx, messages()).unwrap();
    tx.rollback().unwrap();
    assert_eq!(by_key(relayed(&url).await), by_key(expected(&committed)));
}

#[tokio::test]
async fn what_is_committed_in_postgresql_is_delivered_and_what_is_rolled_back_is_not() {
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    migrated(&url).await;
    let pool = PgPool::connect(&url).await.unwrap();
    let committed = messages();
    let mut tx = pool.begin().await.unwrap();
    Outbox::new().enqueue_all(&mut tx, committed.clone()).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    Outbox::new().enqueue_all(&mut tx, messages()).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(by_key(relayed(&url).await), by_key(expected(&committed)));
}

#[tokio::test]
async fn a_running_relay_delivers_what_the_same_process_commits_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/app.db", folder.path().display());
    let mut connection = Connection::open(folder.path().join("app.db")).unwrap();
    postrider::migrate(&connection).unwrap();
    let broker = Arc::new(MemoryBroker::recording());
    let relay = Relay::builder(stores::open(&url, &StoreOptions::default()).await.unwrap())
        .destination(DestinationName::new("memory"), Arc::clone(&broker) as _, DestinationTemplate::topic())
        .build()
        .unwrap();
    let (hints, stop) = (relay.handle(), CancellationToken::new());
    let relaying = tokio::spawn(relay.run(stop.clone()));
    for n in 1..=3 {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        Outbox::new().enqueue(&tx, Message::new("t", "x")).unwrap();
        tx.commit().unwrap();
        hints.hint();
        let delivered = async {
            while broker.accepted() < n {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), delivered).await.unwrap();
    }
    stop.cancel();
    let summary = tokio::time::timeout(Duration::from_secs(30), relaying).await.unwrap().unwrap().unwrap();
    assert_eq!(summary.delivered, 3);
    let left: i64 = connection.query_row("select count(*) from postrider_outbox", (), |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}
