//! MariaDB and Kafka: a drained backlog, a steady rate, and the application's own transactions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use postrider_bench::drain::{Drained, drain};
use postrider_bench::figure::{Demand, Figure};
use postrider_bench::limit::limit;
use postrider_bench::load::Load;
use postrider_bench::spread::percentile;
use postrider_bench::steady::{Pace, steady};
use postrider_bench::verdict::Verdict;
use postrider_brokers::memory::MemoryBroker;
use postrider_core::{Broker, Store};

use super::database::Database;
use super::kafka::Kafka;
use super::latency::figures_of;
use super::mariadb::{MariadbOutbox, MariadbServer, connect};
use super::plan::{Plan, TOPIC};
use super::relay::RelayProcess;
use super::runs::Runs;

const PART: &str = "mysql-kafka";
const KEYS: u32 = 10_000;
/// Messages a second of the steady runs.
const STEADY: u32 = 1_000;
/// Connections of the application, its transactions a second, and turns of each run, as where PostgreSQL's are measured.
const HANDS: u32 = 4;
const RATE: u32 = 500;
const TURNS: u32 = 4;
/// Of so many parts of a turn the first is warm-up.
const WARM_UP: u32 = 5;
/// How long the last messages of a turn may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let Some(postrider) = &plan.postrider else {
        notes.push("it needs --postrider PROGRAM".to_owned());
        return Vec::new();
    };
    let (server, kafka, database) = (MariadbServer::start().await, Kafka::start().await, Database::start().await);
    notes.extend([server.note().await, kafka.note(), database.note().await]);
    let mut figures = drained(plan, &server, &kafka, &database).await;
    drop(database);
    figures.extend(at_a_steady_rate(plan, &server, &kafka).await);
    drop(kafka);
    figures.extend(transactions(plan, &server, postrider).await);
    figures
}

async fn drained(plan: &Plan, server: &MariadbServer, kafka: &Kafka, database: &Database) -> Vec<Figure> {
    let (any_keys, hot_key) = (plan.load(plan.backlog, KEYS), plan.load(plan.backlog, 1));
    let (mut to_kafka, mut to_memory, mut from_postgres) = (Runs::default(), Runs::default(), Runs::default());
    let mut one_key = Runs::default();
    for run in 0..plan.runs {
        eprintln!("mysql-kafka: drain, run {} of {}", run + 1, plan.runs);
        let memory = || Arc::new(MemoryBroker::counting());
        let outbox = server.filled(&any_keys).await;
        to_memory.limit.push(at_the_limit(outbox.store().await, memory(), &any_keys).await);
        let outbox = server.filled(&any_keys).await;
        to_memory.ours.push(ours(outbox, memory(), &any_keys).await);

        let load = kafka.onto_a_fresh_topic(&any_keys).await;
        let outbox = server.filled(&load).await;
        to_kafka.limit.push(at_the_limit(outbox.store().await, kafka.broker(), &load).await);
        let load = kafka.onto_a_fresh_topic(&any_keys).await;
        let outbox = server.filled(&load).await;
        to_kafka.ours.push(ours(outbox, kafka.broker(), &load).await);
        kafka.is_complete(&load);
        let load = kafka.onto_a_fresh_topic(&hot_key).await;
        one_key.ours.push(ours(server.filled(&load).await, kafka.broker(), &load).await);
        kafka.is_complete(&load);

        let load = kafka.onto_a_fresh_topic(&any_keys).await;
        let url = database.another_filled(&load).await;
        from_postgres.limit.push(at_the_limit(Database::store_at(&url).await, kafka.broker(), &load).await);
        let load = kafka.onto_a_fresh_topic(&any_keys).await;
        let url = database.another_filled(&load).await;
        from_postgres.ours.push(drain(Database::store_at(&url).await, kafka.broker(), &load, |_| {}).await.unwrap());
        kafka.is_complete(&load);
    }
    one_key.limit.clone_from(&to_kafka.limit);
    let beside = "limit, the same drivers";
    vec![
        to_kafka.figure(PART, "MariaDB to Kafka, 10,000 keys", beside).demand(Demand::RatioAtLeast(0.6)),
        one_key.figure(PART, "MariaDB to Kafka, one hot key", "limit, any keys"),
        to_memory.figure(PART, "MariaDB to memory, 10,000 keys", beside),
        from_postgres.figure(PART, "PostgreSQL to Kafka, 10,000 keys", beside).demand(Demand::RatioAtLeast(0.6)),
    ]
}

async fn ours(mut outbox: MariadbOutbox, broker: Arc<dyn Broker>, load: &Load) -> Drained {
    let drained = drain(outbox.store().await, broker, load, |_| {}).await.unwrap();
    assert_eq!(outbox.left().await, 0, "settled is gone");
    drained
}

/// The same without a relay; all of the load, or it panics.
async fn at_the_limit(store: Arc<dyn Store>, broker: Arc<dyn Broker>, load: &Load) -> Drained {
    limit(store, broker, load).await.unwrap().as_limit().unwrap()
}

async fn at_a_steady_rate(plan: &Plan, server: &MariadbServer, kafka: &Kafka) -> Vec<Figure> {
    let mut runs = Vec::new();
    for run in 0..plan.runs {
        eprintln!("mysql-kafka: {STEADY}/s, run {} of {}", run + 1, plan.runs);
        let topic = kafka.onto_a_fresh_topic(&plan.load(1, KEYS)).await.topic;
        let pace = Pace { rate: STEADY, length: plan.steady, payload: 200, keys: KEYS, topic };
        let outbox = server.outbox().await;
        runs.push(steady(outbox.store().await, kafka.broker(), &pace).await.unwrap());
        kafka.is_complete(&pace.load());
    }
    figures_of(PART, "MariaDB to Kafka, 1,000/s of 200 B", &runs, &[], false)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum With {
    Outbox,
    Relay,
}

/// One turn of the application.
struct Turn {
    p50: f64,
    p99: f64,
    verdict: Option<Verdict>,
}

async fn transactions(plan: &Plan, server: &MariadbServer, postrider: &Path) -> Vec<Figure> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for run in 0..plan.runs {
        eprintln!("mysql-kafka: transactions, run {} of {}", run + 1, plan.runs);
        for _ in 0..TURNS {
            without.push(turn(server, postrider, With::Outbox, plan.steady / TURNS).await);
            with.push(turn(server, postrider, With::Relay, plan.steady / TURNS).await);
        }
    }
    let column = |turns: &[Turn], of: fn(&Turn) -> f64| turns.iter().map(of).collect::<Vec<f64>>();
    let verdicts: Vec<Verdict> = with.iter().filter_map(|turn| turn.verdict).collect();
    let figure = |percent: &str, of: fn(&Turn) -> f64| {
        let what = format!("MariaDB, the application's transactions at {RATE}/s, relay at work: {percent}");
        Figure::new(PART, what, "ms", column(&with, of)).beside("no relay", column(&without, of)).verdict(&verdicts)
    };
    vec![figure("p50", |turn| turn.p50), figure("p99", |turn| turn.p99)]
}

/// Four connections write an order with a message each, while a relay of its own process delivers to memory, or none does.
async fn turn(server: &MariadbServer, postrider: &Path, with: With, length: Duration) -> Turn {
    let mut outbox = server.outbox().await;
    outbox.run("create table orders (id bigint primary key, note text) engine = InnoDB").await;
    let relay = match with {
        With::Outbox => None,
        With::Relay => {
            let relay = RelayProcess::start(postrider, &outbox.url, "memory:", &[]);
            outbox.lanes_are_held().await;
            Some(relay)
        }
    };
    let (start, numbers) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut hands = Vec::new();
    for _ in 0..HANDS {
        hands.push(tokio::spawn(one_hand(connect(&outbox.url).await, start, length, Arc::clone(&numbers))));
    }
    let mut took = Vec::new();
    for hand in hands {
        took.extend(hand.await.unwrap());
    }
    let verdict = match relay {
        None => None,
        Some(relay) => {
            let left = outbox.left_after(PATIENCE).await;
            Some(Verdict::counted(numbers.load(Ordering::Relaxed), relay.stopped().await.delivered, left))
        }
    };
    Turn { p50: percentile(&mut took, 0.5), p99: percentile(&mut took, 0.99), verdict }
}

/// Milliseconds of each transaction after the warm-up.
async fn one_hand(mut connection: Conn, start: Instant, length: Duration, numbers: Arc<AtomicU64>) -> Vec<f64> {
    let load = Load { messages: u64::MAX, keys: KEYS, payload: 200, writers: HANDS, topic: TOPIC.into() };
    let order = connection.prep("insert into orders values (?, 'an order')").await.unwrap();
    let outbox =
        connection.prep("insert into postrider_outbox (topic, `key`, payload) values (?, ?, ?)").await.unwrap();
    let mut times = Vec::new();
    while start.elapsed() < length {
        // Each that is taken is committed, so that what arrives can be compared with all of them.
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let due = start + Duration::from_nanos(number * 1_000_000_000 / u64::from(RATE));
        tokio::time::sleep_until(due.into()).await;
        let message = load.message(number);
        let key = message.key.as_ref().unwrap().as_str();
        let began = Instant::now();
        connection.query_drop("start transaction").await.unwrap();
        connection.exec_drop(&order, (number,)).await.unwrap();
        connection.exec_drop(&outbox, (message.topic.as_str(), key, message.payload.to_vec())).await.unwrap();
        connection.query_drop("commit").await.unwrap();
        if began - start >= length / WARM_UP {
            times.push(began.elapsed().as_secs_f64() * 1_000.0);
        }
    }
    times
}
