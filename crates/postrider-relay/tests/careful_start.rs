//! A message on which its relay dies: real processes that abort, one after another, until it is found.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Accepted, Broker, BrokerProfile, DeadFilter, DeadReason, Destination, DestinationName, DestinationTemplate,
    Durability, Finding, Isolation, Message, OrderInBatch, Outgoing, Position, Published, Result, RowId,
};
use postrider_relay::Relay;
use postrider_stores::{MigrateOptions, StoreOptions};
use postrider_testkit::command::command;
use postrider_testkit::servers::postgres::shared;
use tokio_util::sync::CancellationToken;

/// Where the process that dies finds its store and its record of deliveries.
const STORE: &str = "CAREFUL_START_STORE";
const RECORD: &str = "CAREFUL_START_RECORD";
const DEADLY: &str = "deadly";
/// The deaths that it takes: the first of a relay that did not suspect anything, and three of careful ones.
const DEATHS: usize = 4;

/// Writes each payload down, and takes the process with it when one is deadly.
#[derive(Debug)]
struct Deadly(Mutex<File>);

#[async_trait]
impl Broker for Deadly {
    fn profile(&self) -> BrokerProfile {
        BrokerProfile {
            name: "deadly",
            order: OrderInBatch::Kept,
            isolation: Isolation::PerMessage,
            durability: Durability::Durable,
            max_batch: 16,
            max_concurrent: 2,
        }
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        let mut file = self.0.lock().unwrap();
        let publish = |outgoing: &Outgoing| {
            if outgoing.message.payload.starts_with(DEADLY.as_bytes()) {
                std::process::abort();
            }
            let line = [outgoing.message.payload.as_ref(), b"\n"].concat();
            file.write_all(&line).unwrap();
            Published::Accepted(Accepted::FRESH)
        };
        batch.iter().map(publish).collect()
    }

    async fn check(&self, _: &[Destination]) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

#[tokio::test]
#[ignore = "the process that the tests below start"]
async fn a_relay_that_may_die() {
    let (store, record) = (std::env::var(STORE).unwrap(), std::env::var(RECORD).unwrap());
    let file = OpenOptions::new().append(true).create(true).open(record).unwrap();
    let relay = Relay::builder(postrider_stores::open(&store, &StoreOptions::default()).await.unwrap())
        .destination(DestinationName::new("out"), Arc::new(Deadly(Mutex::new(file))), DestinationTemplate::topic())
        .lease(Duration::from_secs(2))
        .until_empty();
    relay.build().unwrap().run(CancellationToken::new()).await.unwrap();
}

fn relay(store: &str, record: &Path) -> ExitStatus {
    let program = std::env::current_exe().unwrap();
    let mut relay = command(program.to_str().unwrap());
    relay.args(["--exact", "a_relay_that_may_die", "--ignored", "--nocapture"]);
    relay.env(STORE, store).env(RECORD, record).stdout(Stdio::null()).stderr(Stdio::null());
    relay.status().unwrap()
}

/// Three hundred messages of six keys and of none; one of them is deadly.
fn messages() -> Vec<Message> {
    let message = |n: usize| {
        let payload = if n == 100 { DEADLY.to_owned() } else { n.to_string() };
        let message = Message::new("t", payload);
        if n.is_multiple_of(7) { message } else { message.key(format!("k{}", n % 6)) }
    };
    (0..300).map(message).collect()
}

async fn only_the_deadly_message_is_given_up(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let migrate = MigrateOptions::default();
    postrider_stores::migrate(url, &migrate).await.unwrap();
    let store = postrider_stores::open(url, &StoreOptions::default()).await.unwrap();
    let mut operator = store.operator().await.unwrap();
    operator.enqueue(&messages()).await.unwrap();
    let mut deaths = 0;
    loop {
        let (url, record) = (url.to_owned(), record.clone());
        let ended = tokio::task::spawn_blocking(move || relay(&url, &record)).await.unwrap();
        if ended.success() {
            break;
        }
        deaths += 1;
        assert!(deaths <= 10, "the relay dies again and again");
    }
    assert_eq!(deaths, DEATHS);
    let dead = operator.dead(&DeadFilter::default(), Position { after: RowId(i64::MIN), limit: 10 }).await.unwrap();
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!((&dead[0].message.payload[..], dead[0].dead_reason), (DEADLY.as_bytes(), Some(DeadReason::RelayDied)));
    assert!(dead[0].errors.as_ref().unwrap().contains("died"), "{dead:?}");
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(&record).unwrap().lines() {
        let n: usize = line.parse().unwrap();
        if seen.insert(n) && !n.is_multiple_of(7) {
            assert!(last.insert(n % 6, n) < Some(n), "{n} is late");
        }
    }
    assert_eq!(seen.len(), 299, "the others flow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_crashes_its_relay_is_found_and_the_others_flow_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    only_the_deadly_message_is_given_up(&format!("sqlite://{}/app.db", folder.path().display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_crashes_its_relay_is_found_and_the_others_flow_on_postgresql() {
    let url = shared().await.unwrap().fresh_database().await.unwrap();
    only_the_deadly_message_is_given_up(&url).await;
}
