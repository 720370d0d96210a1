//! How long a message takes from its commit to the broker's acknowledgement, at a rate that is given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Broker, DestinationName, DestinationTemplate, Error, ErrorKind, Result, Store};
use postrider_relay::Relay;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::load::Load;
use crate::running::Running;
use crate::spread::percentile;
use crate::verdict::Verdict;
use crate::witness::{Book, Moments, Witness};

/// Transactions a second of one writer; more need more writers.
const PER_WRITER: u32 = 250;
/// The most writers, which is the most connections.
const MOST_WRITERS: u32 = 24;
/// How long the last messages may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first part of a run is not measured: connections are made, caches are cold.
const WARM_UP: Duration = Duration::from_secs(2);

/// What is written, and how fast.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Transactions a second, each of which writes one message.
    pub rate: u32,
    /// How long, the warm-up of two seconds included.
    pub length: Duration,
    /// Bytes of each payload.
    pub payload: usize,
    /// Keys.
    pub keys: u32,
    /// The topic.
    pub topic: String,
}

impl Pace {
    /// What is written in all.
    pub fn load(&self) -> Load {
        let writers = self.rate.div_ceil(PER_WRITER).clamp(1, MOST_WRITERS);
        let messages = (self.length.as_secs_f64() * f64::from(self.rate)).ceil();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of messages")]
        let messages = messages as u64;
        Load { messages, keys: self.keys, payload: self.payload, writers, topic: self.topic.clone() }
    }
}

/// A steady run.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    /// Transactions a second that were reached.
    pub rate: f64,
    /// Milliseconds from commit to acknowledgement that half of the messages stayed below.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// What arrived.
    pub verdict: Verdict,
}

/// Writes at a pace while one relay at its defaults delivers.
///
/// # Errors
/// What ended a writer or the relay; `Unavailable` when messages are still on their way after 30 s.
pub async fn steady(store: Arc<dyn Store>, broker: Arc<dyn Broker>, pace: &Pace) -> Result<Steady> {
    let book = book(pace);
    let witness = Arc::new(Witness::new(broker, Arc::clone(&book)));
    let relay = Relay::builder(Arc::clone(&store))
        .name("bench")
        .destination(DestinationName::new("bench"), witness, DestinationTemplate::topic())
        .build()?;
    let stop = CancellationToken::new();
    let running = Running::start(relay, stop.clone());
    let measured = measured(&store, pace, &book).await;
    stop.cancel();
    running.ended().await?;
    measured
}

/// An empty book for what is written at a pace.
pub fn book(pace: &Pace) -> Arc<Book> {
    Arc::new(Book::new(pace.load().messages, Moments::Kept))
}

/// Writes at a pace while somebody delivers who keeps this book.
///
/// # Errors
/// What ended a writer; `Unavailable` when messages are still on their way after 30 s.
pub async fn measured(store: &Arc<dyn Store>, pace: &Pace, book: &Book) -> Result<Steady> {
    let written = write(store, pace, &pace.load(), book.began()).await?;
    arrived(book, written.committed.len()).await?;
    Ok(judge(&written, book))
}

/// What the writers did.
#[derive(Debug)]
pub struct Written {
    /// When each message's commit was answered, counted from the beginning, by number.
    pub committed: Vec<Duration>,
    /// How long each transaction took, by number.
    pub took: Vec<Duration>,
    /// From the first to the last.
    pub length: Duration,
}

/// Writes the messages of a load at a pace, each in a transaction of its own.
///
/// # Errors
/// The store's.
pub async fn write(store: &Arc<dyn Store>, pace: &Pace, load: &Load, began: Instant) -> Result<Written> {
    let start = Instant::now() + Duration::from_millis(100);
    let mut writers = JoinSet::new();
    for writer in 0..load.writers {
        let operator = store.operator().await?;
        writers.spawn(one_writer(operator, pace.rate, load.clone(), writer, start, began));
    }
    let count = usize::try_from(load.messages).unwrap_or(usize::MAX);
    let (mut committed, mut took) = (vec![Duration::ZERO; count], vec![Duration::ZERO; count]);
    while let Some(ended) = writers.join_next().await {
        let commits =
            ended.map_err(|error| Error::new(ErrorKind::Unknown, "a writer ended by a panic").because(error))??;
        for (number, at, long) in commits {
            let place = usize::try_from(number).unwrap_or(usize::MAX);
            if let (Some(commit), Some(time)) = (committed.get_mut(place), took.get_mut(place)) {
                (*commit, *time) = (at, long);
            }
        }
    }
    Ok(Written { committed, took, length: start.elapsed() })
}

async fn one_writer(
    mut operator: Box<dyn postrider_core::Operator>,
    rate: u32,
    load: Load,
    writer: u32,
    start: Instant,
    began: Instant,
) -> Result<Vec<(u64, Duration, Duration)>> {
    let mut commits = Vec::new();
    let mut number = u64::from(writer);
    while number < load.messages {
        let due = start + Duration::from_nanos(number.saturating_mul(1_000_000_000) / u64::from(rate.max(1)));
        tokio::time::sleep_until(due.into()).await;
        let message = [load.message(number)];
        let sent = Instant::now();
        operator.enqueue(&message).await?;
        commits.push((number, began.elapsed(), sent.elapsed()));
        number += u64::from(load.writers);
    }
    Ok(commits)
}

async fn arrived(book: &Book, messages: usize) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    let expected = u64::try_from(messages).unwrap_or(u64::MAX);
    while book.acknowledged() < expected {
        if Instant::now() >= until {
            let text = format!("{} of {expected} messages arrived within {PATIENCE:?}", book.acknowledged());
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn judge(written: &Written, book: &Book) -> Steady {
    let first = written.committed.iter().min().copied().unwrap_or_default();
    let mut waits: Vec<f64> = (0_u64..)
        .zip(&written.committed)
        .filter(|(_, committed)| **committed >= first + WARM_UP)
        .filter_map(|(number, committed)| {
            // The acknowledgement may be noted before the writer has heard of its own commit.
            Some(book.moment(number)?.saturating_sub(*committed).as_secs_f64() * 1_000.0)
        })
        .collect();
    let messages = u64::try_from(written.committed.len()).unwrap_or(u64::MAX);
    #[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
    let rate = messages as f64 / written.length.as_secs_f64();
    Steady {
        rate,
        p50: percentile(&mut waits, 0.5),
        p99: percentile(&mut waits, 0.99),
        p999: percentile(&mut waits, 0.999),
        verdict: book.verdict(messages),
    }
}
