//! The application's own transactions: without an outbox, with it, with the relay at work, and with the limit in its place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_bench::figure::{Demand, Figure};
use postrider_bench::load::Load;
use postrider_bench::spread::percentile;
use postrider_bench::witness::{Book, Moments};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use super::database::{Database, connect};
use super::limit;
use super::plan::{Plan, TOPIC};
use super::relay::RelayProcess;

const PART: &str = "transactions";
/// Connections of the application.
const HANDS: u32 = 4;
/// Transactions a second where the rate is given.
const RATE: u32 = 500;
/// The limit looks again as soon as the relay does.
const LIMIT_PAUSE: Duration = Duration::from_millis(4);
/// Each run takes so many turns with each of them, and each turn is a figure of its own: a machine that is slow for
/// some seconds is so for all of them, and the median does not see it.
const TURNS: u32 = 4;
/// Of so many parts of a turn the first is warm-up, when connections are new and the relay begins.
const WARM_UP: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum With {
    Nothing,
    Outbox,
    /// The minimal pipeline reads and deletes: what anything costs that does this beside the application.
    Limit,
    Relay,
}

const EVERY: [With; 4] = [With::Nothing, With::Outbox, With::Limit, With::Relay];

#[derive(Default)]
struct Runs {
    most: [Vec<f64>; 4],
    p50: [Vec<f64>; 4],
    p99: [Vec<f64>; 4],
}

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let Some(postrider) = &plan.postrider else {
        notes.push("it needs --postrider PROGRAM".to_owned());
        return Vec::new();
    };
    let database = Database::start().await;
    notes.push(database.note().await);
    database.client.batch_execute("create table orders (id bigint primary key, note text)").await.unwrap();
    let mut runs = Runs::default();
    for run in 0..plan.runs {
        eprintln!("transactions: run {} of {}", run + 1, plan.runs);
        for _ in 0..TURNS {
            for (place, with) in EVERY.into_iter().enumerate() {
                database.empty().await;
                database.client.batch_execute("truncate orders").await.unwrap();
                let relay =
                    (with == With::Relay).then(|| RelayProcess::start(postrider, &database.url, "memory:", &[]));
                if relay.is_some() {
                    database.lanes_are_shared_by(1).await;
                }
                let limit = (with == With::Limit).then(|| start_limit(&database));
                let mut paced = write(&database, with, plan.steady / TURNS, Some(RATE), 0).await;
                runs.p50[place].push(percentile(&mut paced, 0.5));
                runs.p99[place].push(percentile(&mut paced, 0.99));
                let length = plan.steady / (2 * TURNS);
                let free = write(&database, with, length, None, 1 << 32).await;
                #[allow(clippy::cast_precision_loss, reason = "a count")]
                runs.most[place].push(free.len() as f64 / (length - length / WARM_UP).as_secs_f64());
                if let Some((stop, pipeline)) = limit {
                    stop.cancel();
                    pipeline.await.unwrap();
                }
            }
        }
    }
    let [nothing, outbox, limit, relay] = runs.most;
    let [p50_nothing, p50_outbox, p50_limit, p50_relay] = runs.p50;
    let [p99_nothing, p99_outbox, p99_limit, p99_relay] = runs.p99;
    let rate =
        |what: &str, runs| Figure::new(PART, format!("as fast as {HANDS} connections can, {what}"), "tx/s", runs);
    let paced = |what: &str, runs| Figure::new(PART, format!("at {RATE} tx/s, {what}"), "ms", runs);
    vec![
        rate("no outbox", nothing.clone()),
        rate("one message each", outbox.clone()).beside("no outbox", nothing),
        rate("one message each, the limit at work", limit).beside("no relay", outbox.clone()),
        rate("one message each, relay at work", relay).beside("no relay", outbox),
        paced("no outbox: p50", p50_nothing),
        paced("one message each: p50", p50_outbox.clone()),
        paced("one message each, the limit at work: p50", p50_limit).beside("no relay", p50_outbox.clone()),
        paced("one message each, relay at work: p50", p50_relay).beside("no relay", p50_outbox),
        paced("no outbox: p99", p99_nothing),
        paced("one message each: p99", p99_outbox.clone()),
        paced("one message each, the limit at work: p99", p99_limit).beside("no relay", p99_outbox.clone()),
        paced("one message each, relay at work: p99", p99_relay)
            .beside("no relay", p99_outbox)
            .demand(Demand::RatioAtMost(1.2)),
    ]
}

fn start_limit(database: &Database) -> (CancellationToken, JoinHandle<()>) {
    // Nobody judges what the limit passes on: it is here for what it costs.
    let (stop, book) = (CancellationToken::new(), Arc::new(Book::new(0, Moments::NotKept)));
    let pipeline = limit::steadily(database.url.clone(), None, LIMIT_PAUSE, book, stop.clone());
    (stop, tokio::spawn(pipeline))
}

/// Milliseconds of each transaction after the warm-up; at a rate, or as fast as the hands can.
async fn write(database: &Database, with: With, length: Duration, rate: Option<u32>, from: u64) -> Vec<f64> {
    let start = Instant::now();
    let mut hands = Vec::new();
    for hand in 0..HANDS {
        let client = connect(&database.url).await;
        hands.push(tokio::spawn(one_hand(client, with, start, length, rate, from + u64::from(hand), from)));
    }
    let mut all = Vec::new();
    for hand in hands {
        all.extend(hand.await.unwrap());
    }
    all
}

async fn one_hand(
    mut client: Client,
    with: With,
    start: Instant,
    length: Duration,
    rate: Option<u32>,
    first: u64,
    base: u64,
) -> Vec<f64> {
    let load = Load { messages: u64::MAX, keys: 10_000, payload: 200, writers: HANDS, topic: TOPIC.into() };
    let order = client.prepare("insert into orders values ($1, 'an order')").await.unwrap();
    let outbox =
        client.prepare("insert into postrider_outbox (topic, key, payload) values ($1, $2, $3)").await.unwrap();
    let (mut times, mut number) = (Vec::new(), first);
    while start.elapsed() < length {
        if let Some(rate) = rate {
            let due = start + Duration::from_nanos((number - base) * 1_000_000_000 / u64::from(rate));
            tokio::time::sleep_until(due.into()).await;
        }
        let began = Instant::now();
        let transaction = client.transaction().await.unwrap();
        transaction.execute(&order, &[&i64::try_from(number).unwrap()]).await.unwrap();
        if with != With::Nothing {
            let message = load.message(number);
            let key = message.key.as_ref().unwrap().as_str();
            transaction.execute(&outbox, &[&message.topic.as_str(), &key, &&message.payload[..]]).await.unwrap();
        }
        transaction.commit().await.unwrap();
        if began - start >= length / WARM_UP {
            times.push(began.elapsed().as_secs_f64() * 1_000.0);
        }
        number += u64::from(HANDS);
    }
    times
}
