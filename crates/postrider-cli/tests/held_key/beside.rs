//! Other keys beside ten million rows behind one held key, a poison on one key, and a destination that rejects a topic.
//!
//! Two outboxes are relayed to one JetStream, with the trouble and without, by turns and for a minute each: what the
//! machine does meanwhile happens to both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use postrider_brokers::BrokerConfig;
use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{Broker, DestinationName, DestinationTemplate, ErrorKind, OnDead, TopicPattern};
use postrider_relay::{Relay, RelayHandle};
use postrider_stores::StoreOptions;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::nats::NatsServer;
use postrider_testkit::servers::postgres::{Postgres, shared};
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use super::is_full;

/// 100 MB, two windows of 32 MiB, and what this test itself takes.
const MOST_MEMORY: u64 = 100_000_000 + 2 * (32 << 20);
const PATIENCE: Duration = Duration::from_secs(600);
/// Where the messages of the other keys go.
const OUT: &str = "out";
/// No NATS server of the tests takes a message of so many bytes.
const TOO_LARGE: u64 = 9 << 20;
/// What more of the trouble may add, beside a tenth, to the memory of a relay that meets one of each: the poison once more as
/// the database sends it, as a message, and as the client gets it. Were the rows kept that wait, it would be gigabytes.
const SOME_MEMORY: u64 = 3 * TOO_LARGE;

/// How much of everything.
#[derive(Clone, Copy)]
struct Sizes {
    behind: u64,
    others: u64,
    rejected: u64,
    poisoned: u64,
    turns: usize,
    turn: Duration,
}

fn sizes() -> Sizes {
    if is_full() {
        let turn = Duration::from_secs(60);
        Sizes { behind: 10_000_000, others: 16_000_000, rejected: 100_000, poisoned: 10_000, turns: 5, turn }
    } else {
        let turn = Duration::from_millis(500);
        Sizes { behind: 100_000, others: 60_000, rejected: 1_000, poisoned: 100, turns: 2, turn }
    }
}

fn rejecting() -> Arc<dyn Broker> {
    Arc::new(MemoryBroker::counting().with_script(|_, _| Answer::Fail(ErrorKind::Rejected)))
}

/// A stream that keeps the last messages only, or the disk would be full of them.
async fn stream(nats: &NatsServer) {
    let client = async_nats::connect(nats.url()).await.unwrap();
    let config = jetstream::stream::Config {
        name: "all".to_owned(),
        subjects: ["other", "held", "poisoned"].map(str::to_owned).to_vec(),
        max_messages: 100_000,
        duplicate_window: Duration::from_secs(1),
        ..Default::default()
    };
    jetstream::new(client).create_stream(config).await.unwrap();
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
async fn trouble(client: &Client, sizes: &Sizes) {
    let head = "insert into postrider_outbox (topic, key, payload, state, attempts, dead_at, dead_reason) \
                values ('held', 'held', 'x', 3, 10, clock_timestamp(), 1)";
    client.batch_execute(head).await.unwrap();
    let payload = "convert_to(repeat('x', 200), 'UTF8')";
    fill(client, "topic, key, payload, state", &format!("'held', 'held', {payload}, 2"), sizes.behind).await;
    fill(
        client,
        "topic, key, payload",
        &format!(
            "'poisoned', 'poison', convert_to(repeat('x', case when g = 1 then {TOO_LARGE} else 200 end), 'UTF8')"
        ),
        sizes.poisoned,
    )
    .await;
    fill(client, "topic, key, payload", &format!("'refused.all', 'r' || g, {payload}"), sizes.rejected).await;
}

/// One turn of a relay.
struct Turn {
    /// Messages accepted a second.
    rate: f64,
    /// The most resident memory meanwhile.
    memory: u64,
}

fn accepted(handle: &RelayHandle) -> u64 {
    let out = |name: &DestinationName| name.as_str() == OUT;
    handle.snapshot().destinations.iter().find(|destination| out(&destination.name)).map_or(0, |found| found.accepted)
}

/// Relays for so long from the first message on.
async fn turn(url: &str, nats: &NatsServer, length: Duration) -> Turn {
    let store = postrider_stores::open(url, &StoreOptions::default()).await.unwrap();
    let out = postrider_brokers::open(&BrokerConfig::new(nats.url())).unwrap();
    let (to_out, refusing) = (DestinationName::new(OUT), DestinationName::new("refusing"));
    let pattern = |text: &str| TopicPattern::parse(text).unwrap();
    let relay = Relay::builder(store)
        .destination(to_out.clone(), out, DestinationTemplate::topic())
        .destination(refusing.clone(), rejecting(), DestinationTemplate::topic())
        .route(pattern("*"), to_out)
        .route(pattern("refused.#"), refusing)
        .on_dead(TopicPattern::every(), OnDead::Hold)
        .lease(Duration::from_secs(2))
        .build()
        .unwrap();
    let (handle, stop) = (relay.handle(), CancellationToken::new());
    let running = tokio::spawn(relay.run(stop.clone()));
    let asked = Instant::now();
    while accepted(&handle) == 0 {
        assert!(asked.elapsed() < PATIENCE && !running.is_finished(), "nothing is delivered");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (begun, before, mut memory) = (Instant::now(), accepted(&handle), 0);
    while begun.elapsed() < length {
        assert!(!running.is_finished(), "the relay ended");
        memory = memory.max(resident());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (count, took) = (accepted(&handle) - before, begun.elapsed());
    stop.cancel();
    running.await.unwrap().unwrap();
    Turn { rate: f64::from(u32::try_from(count).unwrap()) / took.as_secs_f64(), memory }
}

/// The resident set of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_keys_flow_beside_a_held_key_a_poison_and_a_rejecting_destination() {
    let what = "a held key over PostgreSQL to NATS";
    let Some(server) = installed(what, shared().await) else { return };
    let Some(nats) = installed(what, NatsServer::start().await) else { return };
    stream(&nats).await;
    let sizes = sizes();
    let (few, client) = outbox(server).await;
    trouble(&client, &Sizes { behind: 1, rejected: 1, poisoned: 1, ..sizes }).await;
    others(&client, sizes.others / 50).await;
    let (plain, client) = outbox(server).await;
    others(&client, sizes.others).await;
    let (troubled, client) = outbox(server).await;
    trouble(&client, &sizes).await;
    others(&client, sizes.others).await;
    // All turns are in this process, which keeps what it once took: first the one that the others are judged by.
    let memory_of_few = turn(&few, &nats, sizes.turn).await.memory;
    let (mut ratios, mut memory) = (Vec::new(), 0);
    for _ in 0..sizes.turns {
        let without = turn(&plain, &nats, sizes.turn).await;
        let with = turn(&troubled, &nats, sizes.turn).await;
        ratios.push(with.rate / without.rate);
        memory = memory.max(with.memory);
        println!(
            "{:?} each: {:.0} messages/s of other keys beside the trouble, {:.0} without it: {:.1}%; resident memory {} MB \
             and {} MB, {} MB beside one row of each trouble",
            sizes.turn,
            with.rate,
            without.rate,
            with.rate / without.rate * 100.0,
            with.memory / 1_000_000,
            without.memory / 1_000_000,
            memory_of_few / 1_000_000,
        );
    }
    ratios.sort_by(f64::total_cmp);
    // A miniature runs beside other tests: its best window shows that the others flow, not how fast.
    let (what, ratio, least) = if is_full() {
        ("the median window", ratios[(ratios.len() - 1) / 2], 0.95)
    } else {
        ("the best window", ratios[ratios.len() - 1], 0.2)
    };
    println!(
        "beside {} rows behind a held key, a poison with {} rows of its key and {} rows for a destination that rejects \
         everything: {:.1}% of the rate without them, {what}; resident memory at most {} MB, beside one row of each {} MB",
        sizes.behind,
        sizes.poisoned,
        sizes.rejected,
        ratio * 100.0,
        memory / 1_000_000,
        memory_of_few / 1_000_000,
    );
    let held = "select count(*) from postrider_outbox where topic = 'held' and state in (2, 3)";
    let held: i64 = client.query_one(held, &[]).await.unwrap().get(0);
    assert_eq!(u64::try_from(held).unwrap(), sizes.behind + 1, "nothing behind the held key has moved");
    assert!(memory < MOST_MEMORY, "{memory} bytes of resident memory, {MOST_MEMORY} are allowed");
    // The turns of a miniature end before a relay has all the memory that it takes.
    let most = if is_full() { memory_of_few + memory_of_few / 10 + SOME_MEMORY } else { MOST_MEMORY };
    assert!(
        memory <= most,
        "{memory} bytes of resident memory, {most} are allowed, {memory_of_few} beside one row of each"
    );
    assert!(ratio >= least, "{ratio}");
}
