//! One receiver, as a process of its own: the consumer that the product has, over hands that make its life hard.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::Config;
use clap::ValueEnum;
use futures_util::future::try_join_all;
use postrider::brokers::{self, BrokerConfig, SubscriptionConfig};
use postrider::consume::{Consumer, Order, Setback};
use postrider::{CancellationToken, Delivery, RetryPolicy, Subscription};
use tokio::time::{sleep, timeout};

use super::hands::{Counter, Done, Hands, connect};
use super::stage::Stage;
use super::{ConsumerKind, Place};
use crate::Fallible;
use crate::place::kafka::TOPICS;
use crate::place::kafka_log;
use crate::random::Random;

/// The first word of a receiver's command line.
pub const VERB: &str = "receive";

/// How many messages a receiver handles at a time, in each stage.
const AT_A_TIME: usize = 3;
/// How many it has in hand: they wait for [`HOLD`] when it is killed.
const IN_HAND: usize = 16;
/// An unacknowledged message of a receiver that was killed comes again after this time.
const HOLD: &str = "2s";
/// The session of a member of a group: the shortest that the server allows.
const SESSION: &str = "6s";
/// How many may be in the hands of all receivers, the killed ones included.
const OUTSTANDING: u64 = 512;
/// One of so many that were handled is said to be not over, and comes again.
const LEFT: u64 = 16;
/// One of so many is handled twice at the same time.
const TWICE: u64 = 16;
/// What could not be handled comes again after this time.
const AGAIN: Duration = Duration::from_millis(50);
/// How often processors keep up.
const KEEPS_UP: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// What is read of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// All of it, by all receivers together.
    Once,
    /// All of it once more, when everything is over.
    Again,
}

impl Reads {
    /// The name of its durable consumer, which is also its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Again => "again",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Once, Self::Again].into_iter().find(|reads| reads.word() == word)
    }
}

type Work = Pin<Box<dyn Future<Output = Fallible<()>>>>;

/// Receives until it is killed; an error ends it, and another one is started.
///
/// # Errors
/// When its words make no sense, or the broker or the database is away at its start.
pub async fn receive(words: &[String]) -> Fallible<()> {
    let [kind, url, broker, reads, seed] = words else { return Err("receive KIND DATABASE BROKER READS SEED".into()) };
    let place = Place { kind: ConsumerKind::from_str(kind, false)?, url: url.to_owned(), broker: broker.to_owned() };
    let reads = Reads::parse(reads).ok_or("once or again")?;
    let seed = seed.parse()?;
    let mut works: Vec<Work> = Vec::new();
    for (number, stage) in (0..).zip(place.kind.stages()) {
        let counter = match place.kind {
            ConsumerKind::Inbox | ConsumerKind::Cursor => None,
            ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Token => {
                Some(Arc::new(Counter::open(&place, *stage).await?))
            }
        };
        // Each message has two hands at the most.
        let mut free = Vec::new();
        for _ in 0..2 * AT_A_TIME {
            free.push(hands(&place, counter.as_ref()).await?);
        }
        let desk = Arc::new(Desk { free: Mutex::new(free), random: Mutex::new(Random::new(seed, number)), reads });
        let handle = move |delivery: Delivery| {
            let desk = Arc::clone(&desk);
            async move { desk.handle(delivery).await }
        };
        let consumer = Consumer::builder(subscription(&place, *stage, reads)?, handle)
            .order(if place.kind == ConsumerKind::Cursor { Order::Part } else { Order::Key })
            .concurrency(AT_A_TIME)
            .window(IN_HAND)
            .retry(RetryPolicy { initial: AGAIN, maximum: AGAIN, ..RetryPolicy::default() })
            .build()?;
        works.push(Box::pin(async move { Ok(consumer.run(CancellationToken::new()).await.map(drop)?) }));
        works.extend(counter.map(|counter| Box::pin(keep_up(counter)) as Work));
    }
    try_join_all(works).await.map(drop)
}

fn subscription(place: &Place, stage: Stage, reads: Reads) -> Fallible<Arc<dyn Subscription>> {
    if place.kind == ConsumerKind::Cursor {
        let broker = BrokerConfig::new(place.broker.as_str()).option("session_timeout", SESSION);
        let [first, rest @ ..] = TOPICS;
        let config = SubscriptionConfig::new(broker, reads.word(), first);
        return Ok(brokers::subscribe(&rest.into_iter().fold(config, SubscriptionConfig::and_from))?);
    }
    let broker = BrokerConfig::new(place.broker.as_str())
        .option("stream", stage.stream())
        .option("ack_wait", HOLD)
        .option("max_ack_pending", OUTSTANDING);
    Ok(brokers::subscribe(&SubscriptionConfig::new(broker, reads.word(), stage.subject()))?)
}

async fn hands(place: &Place, counter: Option<&Arc<Counter>>) -> Fallible<Hands> {
    Ok(match counter {
        Some(counter) => Hands::Processor(Arc::clone(counter)),
        None if place.kind == ConsumerKind::Cursor => Hands::Cursor(Box::new(connect(&place.url).await?)),
        None => Hands::Inbox(Box::new(connect(&place.url).await?)),
    })
}

/// The hands of one stage, and how they are used.
struct Desk {
    free: Mutex<Vec<Hands>>,
    random: Mutex<Random>,
    reads: Reads,
}

impl Desk {
    async fn handle(&self, delivery: Delivery) -> Fallible<()> {
        let (twice, left) = self.chance();
        let done = if twice {
            let both = tokio::join!(self.with_hands(delivery.clone()), self.with_hands(delivery));
            if (both.0?, both.1?) == (Done::Over, Done::Over) { Done::Over } else { Done::Again }
        } else {
            self.with_hands(delivery).await?
        };
        match done {
            Done::Over if left && self.reads == Reads::Once => Err(Setback::again("it was handled").into()),
            Done::Over => Ok(()),
            Done::Again => Err(Setback::again("it is not over").into()),
        }
    }

    fn chance(&self) -> (bool, bool) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        (random.below(TWICE) == 0, random.below(LEFT) == 0)
    }

    async fn with_hands(&self, delivery: Delivery) -> Fallible<Done> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut hands = free.ok_or("more messages at a time than hands")?;
        let done = hands.handle(delivery).await;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(hands);
        done
    }
}

/// What one round could not do the next one does.
async fn keep_up(counter: Arc<Counter>) -> Fallible<()> {
    loop {
        sleep(KEEPS_UP).await;
        drop(counter.processor.keep_up().await);
    }
}

/// Whether every message of a stage is acknowledged.
///
/// # Errors
/// When the broker cannot be reached.
pub(super) async fn is_at_the_end(place: &Place, stage: Stage, reads: Reads) -> Fallible<bool> {
    if place.kind == ConsumerKind::Cursor {
        let (url, group) = (place.broker.clone(), reads.word());
        return tokio::task::spawn_blocking(move || kafka_log::is_at_the_end(&url, group)).await?;
    }
    let options = ConnectOptions::new().max_reconnects(None).request_timeout(Some(PATIENCE));
    let client = options.connect(&place.broker).await?;
    let stream = jetstream::new(client).get_stream(stage.stream()).await?;
    // The receivers make it.
    let Ok(mut consumer) = stream.get_consumer::<Config>(reads.word()).await else { return Ok(false) };
    let info = timeout(PATIENCE, consumer.info()).await;
    Ok(matches!(info, Ok(Ok(info)) if info.num_pending == 0 && info.num_ack_pending == 0))
}
