//! The application's own transactions: without an outbox, with it, with the relay at work, and with the limit in its place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use postrider_bench::figure::{Demand, Figure};
use postrider_bench::load::Load;
use postrider_bench::spread::percentile;
use postrider_bench::verdict::Verdict;
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
/// The limit reads as often as the relay does where it finds something each time.
const LIMIT_PAUSE: Duration = Duration::from_millis(4);
/// Each run takes so many turns with each of them, and each turn is a figure of its own: a machine that is slow for
/// some seconds is so for all of them, and the median does not see it.
const TURNS: u32 = 4;
/// Of so many parts of a turn the first is warm-up, when connections are new and the relay begins.
const WARM_UP: u32 = 5;
/// No turn has more messages.
const MOST: u64 = 1 << 22;
/// How long the last messages of a turn may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum With {
    Nothing,
    Outbox,
    /// The minimal pipeline reads and deletes: what anything costs that does this beside the application.
    Limit,
    Relay,
}

const EVERY: [With; 4] = [With::Nothing, With::Outbox, With::Limit, With::Relay];

/// One turn.
struct Turn {
    p50: f64,
    p99: f64,
    /// Transactions a second, as fast as the hands can.
    most: f64,
    /// What arrived, where somebody delivers.
    verdict: Option<Verdict>,
}

/// Who delivers meanwhile.
enum Deliverer {
    Nobody,
    Limit { stop: CancellationToken, book: Arc<Book>, pipeline: JoinHandle<()> },
    Relay(RelayProcess),
}

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let Some(postrider) = &plan.postrider else {
        notes.push("it needs --postrider PROGRAM".to_owned());
        return Vec::new();
    };
    let database = Database::start().await;
    notes.push(database.note().await);
    database.client.batch_execute("create table orders (id bigint primary key, note text)").await.unwrap();
    let mut turns = EVERY.map(|_| Vec::new());
    for run in 0..plan.runs {
        eprintln!("transactions: run {} of {}", run + 1, plan.runs);
        for _ in 0..TURNS {
            for (of, with) in turns.iter_mut().zip(EVERY) {
                of.push(turn(&database, postrider, with, plan.steady / TURNS).await);
            }
        }
    }
    figures(&turns)
}

async fn turn(database: &Database, postrider: &Path, with: With, length: Duration) -> Turn {
    database.empty().await;
    database.client.batch_execute("truncate orders").await.unwrap();
    let deliverer = Deliverer::start(database, postrider, with).await;
    let numbers = Arc::new(AtomicU64::new(0));
    let mut paced = write(database, with, length, Some(RATE), &numbers).await;
    let length = length / 2;
    let free = write(database, with, length, None, &numbers).await;
    #[allow(clippy::cast_precision_loss, reason = "a count")]
    let most = free.len() as f64 / (length - length / WARM_UP).as_secs_f64();
    let verdict = deliverer.verdict(database, numbers.load(Ordering::Relaxed)).await;
    Turn { p50: percentile(&mut paced, 0.5), p99: percentile(&mut paced, 0.99), most, verdict }
}

impl Deliverer {
    async fn start(database: &Database, postrider: &Path, with: With) -> Self {
        match with {
            With::Nothing | With::Outbox => Self::Nobody,
            With::Limit => {
                let (stop, book) = (CancellationToken::new(), Arc::new(Book::new(MOST, Moments::NotKept)));
                let url = database.url.clone();
                let pipeline =
                    limit::steadily(url, None, limit::Pace::Even(LIMIT_PAUSE), Arc::clone(&book), stop.clone());
                Self::Limit { stop, book, pipeline: tokio::spawn(pipeline) }
            }
            With::Relay => {
                let relay = RelayProcess::start(postrider, &database.url, "memory:", &[]);
                database.lanes_are_shared_by(1).await;
                Self::Relay(relay)
            }
        }
    }

    /// Ends it once it has delivered what so many transactions wrote, or has had time enough for it.
    async fn verdict(self, database: &Database, committed: u64) -> Option<Verdict> {
        match self {
            Self::Nobody => None,
            Self::Limit { stop, book, pipeline } => {
                let left = database.left_after(PATIENCE).await;
                stop.cancel();
                pipeline.await.unwrap();
                let seen = book.verdict(committed);
                // The limit keeps no order, so it has none to break.
                Some(Verdict { lost: seen.lost.max(left), order: None, ..seen })
            }
            Self::Relay(relay) => {
                let left = database.left_after(PATIENCE).await;
                Some(Verdict::counted(committed, relay.stopped().await.delivered, left))
            }
        }
    }
}

fn figures(turns: &[Vec<Turn>; 4]) -> Vec<Figure> {
    let what = |with: With| match with {
        With::Nothing => "no outbox",
        With::Outbox => "one message each",
        With::Limit => "one message each, the limit at work",
        With::Relay => "one message each, relay at work",
    };
    let column = |with: With, of: fn(&Turn) -> f64| -> Vec<f64> { turns[with as usize].iter().map(of).collect() };
    let judged = |with: With, figure: Figure, of: fn(&Turn) -> f64| {
        let verdicts: Vec<Verdict> = turns[with as usize].iter().filter_map(|turn| turn.verdict).collect();
        let figure = figure.verdict(&verdicts);
        match with {
            With::Nothing => figure,
            With::Outbox => figure.beside(what(With::Nothing), column(With::Nothing, of)),
            With::Limit | With::Relay => figure.beside("no relay", column(With::Outbox, of)),
        }
    };
    let rate = |with: With| {
        let name = format!("as fast as {HANDS} connections can, {}", what(with));
        judged(with, Figure::new(PART, name, "tx/s", column(with, |turn| turn.most)), |turn| turn.most)
    };
    let paced = |with: With, percent: &str, of: fn(&Turn) -> f64| {
        let name = format!("at {RATE} tx/s, {}: {percent}", what(with));
        judged(with, Figure::new(PART, name, "ms", column(with, of)), of)
    };
    let mut figures: Vec<Figure> = EVERY.map(rate).into();
    figures.extend(EVERY.map(|with| paced(with, "p50", |turn| turn.p50)));
    figures.extend(EVERY.map(|with| {
        let figure = paced(with, "p99", |turn| turn.p99);
        if with == With::Relay { figure.demand(Demand::RatioAtMost(1.2)) } else { figure }
    }));
    figures
}

/// Milliseconds of each transaction after the warm-up; at a rate, or as fast as the hands can.
async fn write(
    database: &Database,
    with: With,
    length: Duration,
    rate: Option<u32>,
    numbers: &Arc<AtomicU64>,
) -> Vec<f64> {
    let (start, base) = (Instant::now(), numbers.load(Ordering::Relaxed));
    let due = move |number: u64| {
        rate.map(|rate| start + Duration::from_nanos((number - base) * 1_000_000_000 / u64::from(rate)))
    };
    let mut hands = Vec::new();
    for _ in 0..HANDS {
        let client = connect(&database.url).await;
        hands.push(tokio::spawn(one_hand(client, with, start, length, due, Arc::clone(numbers))));
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
    due: impl Fn(u64) -> Option<Instant>,
    numbers: Arc<AtomicU64>,
) -> Vec<f64> {
    let load = Load { messages: MOST, keys: 10_000, payload: 200, writers: HANDS, topic: TOPIC.into() };
    let order = client.prepare("insert into orders values ($1, 'an order')").await.unwrap();
    let outbox =
        client.prepare("insert into postrider_outbox (topic, key, payload) values ($1, $2, $3)").await.unwrap();
    let mut times = Vec::new();
    while start.elapsed() < length {
        // Each that is taken is committed, so that what arrives can be compared with all of them.
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        if let Some(due) = due(number) {
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
    }
    times
}
