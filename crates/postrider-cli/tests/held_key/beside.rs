//! Other keys beside ten million rows behind one held key, a poison on one key, and a destination that rejects a topic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{Broker, DestinationName, DestinationTemplate, ErrorKind, OnDead, TopicPattern};
use postrider_relay::Relay;
use postrider_stores::StoreOptions;
use postrider_testkit::servers::postgres::{Postgres, shared};
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use super::is_full;

/// 100 MB, two windows of 32 MiB, and what this test itself takes.
const MOST_MEMORY: u64 = 100_000_000 + 2 * (32 << 20);
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Rows behind the held key, rows of other keys, rows of the rejected topic, and rows behind the poison.
fn sizes() -> [u64; 4] {
    if is_full() { [10_000_000, 6_000_000, 100_000, 10_000] } else { [100_000, 60_000, 1_000, 100] }
}

/// Accepts everything but what says `poison`, and counts the messages of other keys.
fn accepting(others: &Arc<AtomicU64>) -> Arc<dyn Broker> {
    let others = Arc::clone(others);
    Arc::new(MemoryBroker::counting().with_script(move |outgoing, _| {
        if outgoing.message.payload == "poison" {
            return Answer::Fail(ErrorKind::Rejected);
        }
        others.fetch_add(u64::from(outgoing.message.topic.as_str() == "other"), Ordering::Relaxed);
        Answer::Accept
    }))
}

fn rejecting() -> Arc<dyn Broker> {
    Arc::new(MemoryBroker::counting().with_script(|_, _| Answer::Fail(ErrorKind::Rejected)))
}

async fn outbox(server: &Postgres) -> (String, Client) {
    let url = server.fresh_database().await.unwrap();
    postrider_stores::migrate(&url, &postrider_stores::MigrateOptions::default()).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (url, client)
}

/// Rows by a statement over `g`, in transactions of 100,000.
async fn fill(client: &Client, columns: &str, values: &str, rows: u64) {
    for begin in (0..rows).step_by(100_000) {
        let end = rows.min(begin + 100_000);
        let sql = format!(
            "insert into postrider_outbox ({columns}) select {values} from generate_series({} ::bigint, {end}) g",
            begin + 1
        );
        client.batch_execute(&sql).await.unwrap();
    }
}

async fn others(client: &Client, rows: u64) {
    fill(client, "topic, key, payload", "'other', 'k' || (g % 5000), convert_to(repeat('x', 200), 'UTF8')", rows).await;
}

/// A head that was given up, with rows set aside behind it, as a relay leaves them; a poison with rows behind it; and a
/// topic that only goes where everything is rejected.
async fn trouble(client: &Client, [behind, _, rejected, poisoned]: [u64; 4]) {
    let head = "insert into postrider_outbox (topic, key, payload, state, attempts, dead_at, dead_reason) \
                values ('held', 'held', 'x', 3, 10, clock_timestamp(), 1)";
    client.batch_execute(head).await.unwrap();
    let payload = "convert_to(repeat('x', 200), 'UTF8')";
    fill(client, "topic, key, payload, state", &format!("'held', 'held', {payload}, 2"), behind).await;
    fill(
        client,
        "topic, key, payload",
        "'poisoned', 'poison', case when g = 1 then 'poison' else 'x' end::bytea",
        poisoned,
    )
    .await;
    fill(client, "topic, key, payload", &format!("'refused.all', 'r' || g, {payload}"), rejected).await;
}

/// Relays until every message of the other keys is through; how long that took from the first of them, and the most
/// resident memory meanwhile.
async fn relay(url: &str, rows: u64) -> (Duration, u64) {
    let store = postrider_stores::open(url, &StoreOptions::default()).await.unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let (out, refusing) = (DestinationName::new("out"), DestinationName::new("refusing"));
    let pattern = |text: &str| TopicPattern::parse(text).unwrap();
    let relay = Relay::builder(store)
        .destination(out.clone(), accepting(&done), DestinationTemplate::topic())
        .destination(refusing.clone(), rejecting(), DestinationTemplate::topic())
        .route(pattern("*"), out)
        .route(pattern("refused.#"), refusing)
        .on_dead(TopicPattern::every(), OnDead::Hold)
        .lease(Duration::from_secs(2))
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(relay.run(stop.clone()));
    let count = || done.load(Ordering::Relaxed);
    let begun = Instant::now();
    let mut first = None;
    let mut most = 0;
    while count() < rows {
        assert!(begun.elapsed() < PATIENCE && !running.is_finished(), "{} of {rows} are through", count());
        first = first.or_else(|| (count() > 0).then(Instant::now));
        most = most.max(resident());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = first.unwrap_or(begun).elapsed();
    stop.cancel();
    running.await.unwrap().unwrap();
    (took, most)
}

/// The resident set of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_keys_flow_beside_a_held_key_a_poison_and_a_rejecting_destination() {
    let server = match shared().await {
        Ok(server) => server,
        Err(missing) => {
            println!("NOT RUN: a held key over PostgreSQL: {missing}");
            return;
        }
    };
    let sizes = sizes();
    let [behind, rows, rejected, poisoned] = sizes;
    let (plain, client) = outbox(server).await;
    others(&client, rows).await;
    let (without, most_without) = relay(&plain, rows).await;
    let (troubled, client) = outbox(server).await;
    trouble(&client, sizes).await;
    others(&client, rows).await;
    let (with, most_with) = relay(&troubled, rows).await;
    let rate = |took: Duration| f64::from(u32::try_from(rows).unwrap()) / took.as_secs_f64();
    let ratio = rate(with) / rate(without);
    println!(
        "beside {behind} rows behind a held key, a poison with {poisoned} rows of its key and {rejected} rows for a \
         destination that rejects everything: {rows} messages of other keys at {:.0}/s in {with:.1?}, without them at \
         {:.0}/s in {without:.1?}: {:.1}%; resident memory at most {} MB, without them {} MB",
        rate(with),
        rate(without),
        ratio * 100.0,
        most_with / 1_000_000,
        most_without / 1_000_000,
    );
    let held = "select count(*) from postrider_outbox where topic = 'held' and state in (2, 3)";
    let held: i64 = client.query_one(held, &[]).await.unwrap().get(0);
    assert_eq!(u64::try_from(held).unwrap(), behind + 1, "nothing behind the held key has moved");
    assert!(most_with < MOST_MEMORY, "{most_with} bytes of resident memory, {MOST_MEMORY} are allowed");
    // A miniature runs beside other tests: it shows that the others flow, not how fast.
    let least = if is_full() { 0.95 } else { 0.2 };
    assert!(ratio >= least, "{ratio}");
}
