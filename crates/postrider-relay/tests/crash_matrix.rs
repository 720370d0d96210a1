//! The relay dies at every call that it makes; a second one takes over; nothing is lost, doubled without reason, or
//! out of order.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Attempts, Broker, DestinationName, DestinationTemplate, ErrorKind, LaneCount, Message, RetryPolicy, Store,
    TopicPattern,
};
use postrider_relay::{Relay, RelayBuilder};
use postrider_stores::memory::MemoryStore;
use postrider_stores::{History, MigrateOptions, StoreOptions};
use postrider_testkit::crash_matrix::{self, Matrix, Outcome};
use postrider_testkit::dying::{DyingBroker, DyingStore, Fuse, Moment};
use postrider_testkit::servers::installed;
use tokio_util::sync::CancellationToken;

/// Two keys with three messages each; the head of one is refused twice, so that its successors are set aside; and one
/// message without a key.
fn messages() -> Vec<Message> {
    let mut messages: Vec<_> = (0..6).map(|n| Message::new("t", n.to_string()).key(format!("k{}", n % 2))).collect();
    messages.push(Message::new("t", "alone").header("h", "v"));
    messages
}

fn broker() -> Arc<MemoryBroker> {
    let refused: Mutex<HashMap<Vec<u8>, u32>> = Mutex::default();
    Arc::new(MemoryBroker::recording().with_script(move |outgoing, _| {
        let mut refused = refused.lock().unwrap();
        let times = refused.entry(outgoing.message.payload.to_vec()).or_insert(0);
        *times += 1;
        if outgoing.message.payload == "0" && *times <= 2 { Answer::Fail(ErrorKind::Rejected) } else { Answer::Accept }
    }))
}

fn relay(store: Arc<dyn Store>, broker: Arc<dyn Broker>) -> RelayBuilder {
    let policy = RetryPolicy {
        initial: Duration::from_millis(2),
        maximum: Duration::from_millis(5),
        attempts: Attempts::Unlimited,
        ..RetryPolicy::default()
    };
    Relay::builder(store)
        .destination(DestinationName::new("out"), broker, DestinationTemplate::topic())
        .retry(TopicPattern::every(), policy)
        .lease(Duration::from_secs(1))
        .until_empty()
}

async fn enqueue(store: &Arc<dyn Store>, messages: &[Message]) {
    store.operator().await.unwrap().enqueue(messages).await.unwrap();
}

async fn crash(store: Arc<dyn Store>, call: usize, moment: Moment) -> Outcome {
    let (committed, broker) = (messages(), broker());
    enqueue(&store, &committed).await;
    let fuse = Fuse::new(call, moment);
    let dying = relay(
        DyingStore::wrap(Arc::clone(&store), Arc::clone(&fuse)),
        DyingBroker::wrap(Arc::clone(&broker) as Arc<dyn Broker>, Arc::clone(&fuse)),
    );
    let died_in = tokio::select! {
        done = dying.build().unwrap().run(CancellationToken::new()) => { done.unwrap(); None }
        name = fuse.blown() => Some(name),
    };
    let witness = Fuse::new(usize::MAX, Moment::Before);
    let second =
        relay(DyingStore::wrap(Arc::clone(&store), Arc::clone(&witness)), Arc::clone(&broker) as Arc<dyn Broker>);
    let second = second.build().unwrap();
    let handle = second.handle();
    let done = tokio::time::timeout(Duration::from_secs(60), second.run(CancellationToken::new())).await;
    let Ok(done) = done else {
        let (calls, snapshot) = (witness.calls(), handle.snapshot());
        let last = &calls[calls.len().saturating_sub(40)..];
        let status = store.operator().await.unwrap().status(1_000).await.unwrap();
        panic!(
            "call {call}, {moment:?}: the second relay does not end after {} calls, last {last:?}; {snapshot:?}; {status:?}",
            calls.len()
        );
    };
    done.unwrap();
    let status = store.operator().await.unwrap().status(1_000).await.unwrap();
    let left = usize::try_from(status.pending.value() + status.dead.value()).unwrap();
    Outcome { died_in, committed, delivered: broker.messages(), left }
}

fn every_call_was_fatal_once(store: &str, matrix: &Matrix) {
    println!("{store}: crash points: {} in {:?}; repeats: {}", matrix.hit(), matrix.points, matrix.repeats);
    for call in ["read", "due", "key", "exceptional_keys", "settle", "join", "evict", "acquire", "publish"] {
        assert!(matrix.points.keys().any(|(name, _)| *name == call), "no crash in {call}");
    }
}

/// Lets the store's clock run, so that retries become due and leases run out.
fn tick(store: MemoryStore) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            store.advance(Duration::from_millis(1));
        }
    })
}

#[tokio::test]
async fn a_relay_over_memory_may_die_in_any_call() {
    let matrix = crash_matrix::run(1, async |call, moment| {
        let store = MemoryStore::new(LaneCount::new(2).unwrap(), History::Off);
        let ticking = tick(store.clone());
        let outcome = crash(Arc::new(store), call, moment).await;
        ticking.abort();
        outcome
    })
    .await;
    every_call_was_fatal_once("memory", &matrix);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_over_sqlite_may_die_in_any_call() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = crash_matrix::run(1, async |call, moment| {
        let url = format!("sqlite://{}/{call}-{moment:?}.db", folder.path().display());
        crash(fresh(&url).await, call, moment).await
    })
    .await;
    every_call_was_fatal_once("sqlite", &matrix);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_over_postgresql_may_die_in_any_call() {
    let Some(server) = installed("crash matrix over PostgreSQL", postrider_testkit::servers::postgres::shared().await)
    else {
        return;
    };
    let matrix = crash_matrix::run(stride(), async |call, moment| {
        let url = server.fresh_database().await.unwrap();
        crash(fresh(&url).await, call, moment).await
    })
    .await;
    many_calls_were_fatal("postgres", &matrix);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_over_mariadb_may_die_in_any_call() {
    let Some(server) = installed("crash matrix over MariaDB", postrider_testkit::servers::mariadb::shared().await)
    else {
        return;
    };
    let matrix = crash_matrix::run(stride(), async |call, moment| {
        let database = server.create_database().await.unwrap();
        crash(fresh(&server.url_for(&database)).await, call, moment).await
    })
    .await;
    many_calls_were_fatal("mariadb", &matrix);
}

/// Each of these crashes costs a server eight connections; the miniature plays every third.
fn stride() -> usize {
    if std::env::var_os("POSTRIDER_FULL").is_some() { 1 } else { 3 }
}

fn many_calls_were_fatal(store: &str, matrix: &Matrix) {
    println!("{store}: crash points: {} in {:?}; repeats: {}", matrix.hit(), matrix.points, matrix.repeats);
    assert!(matrix.hit() >= 20, "only {} crash points", matrix.hit());
}

async fn fresh(url: &str) -> Arc<dyn Store> {
    let migrate = MigrateOptions { lanes: LaneCount::new(2), ..MigrateOptions::default() };
    postrider_stores::migrate(url, &migrate).await.unwrap();
    postrider_stores::open(url, &StoreOptions::default()).await.unwrap()
}
