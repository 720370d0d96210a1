//! One receiver, as a process of its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{self, AckKind};
use async_nats::{ConnectOptions, HeaderMap};
use clap::ValueEnum;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use postrider::{Message, TOKEN_HEADER};
use tokio::time::{sleep, timeout};

use super::hands::{Counter, Done, Hands, connect};
use super::stage::Stage;
use super::{ConsumerKind, Place};
use crate::Fallible;
use crate::random::Random;

/// The first word of a receiver's command line.
pub const VERB: &str = "receive";

/// How many messages a receiver handles at a time, in each stage.
const AT_A_TIME: u64 = 3;
/// How many it asks for ahead: they wait for [`ACK_WAIT`] when it is killed.
const AHEAD: usize = 16;
/// An unacknowledged message comes again after this time.
const ACK_WAIT: Duration = Duration::from_secs(2);
/// One of so many that were handled is left unacknowledged.
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
/// When its words make no sense, or the broker or the database is away.
pub async fn receive(words: &[String]) -> Fallible<()> {
    let [kind, url, broker, reads, seed] = words else { return Err("receive KIND DATABASE BROKER READS SEED".into()) };
    let place = Place { kind: ConsumerKind::from_str(kind, false)?, url: url.to_owned(), broker: broker.to_owned() };
    let reads = Reads::parse(reads).ok_or("once or again")?;
    let seed = seed.parse()?;
    let mut works: Vec<Work> = Vec::new();
    for stage in place.kind.stages() {
        let consumer = consumer(&place, *stage, reads).await?;
        let counter = match place.kind {
            ConsumerKind::Inbox => None,
            ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Token => {
                Some(Arc::new(Counter::open(&place, *stage).await?))
            }
        };
        for number in 0..AT_A_TIME {
            let pair = (hands(&place, counter.as_ref()).await?, hands(&place, counter.as_ref()).await?);
            works.push(Box::pin(read(consumer.clone(), pair, reads, Random::new(seed, number))));
        }
        works.extend(counter.map(|counter| Box::pin(keep_up(counter)) as Work));
    }
    try_join_all(works).await.map(drop)
}

async fn hands(place: &Place, counter: Option<&Arc<Counter>>) -> Fallible<Hands> {
    Ok(match counter {
        Some(counter) => Hands::Processor(Arc::clone(counter)),
        None => Hands::Inbox(Box::new(connect(&place.url).await?)),
    })
}

async fn read(
    consumer: PullConsumer,
    (mut one, mut other): (Hands, Hands),
    reads: Reads,
    mut random: Random,
) -> Fallible<()> {
    let mut messages = consumer.stream().max_messages_per_batch(AHEAD).messages().await?;
    while let Some(delivered) = messages.next().await {
        let delivered = delivered?;
        let message = message(&delivered.message).ok_or("a message without an id")?;
        let done = if random.below(TWICE) == 0 {
            let both = tokio::join!(one.handle(message.clone()), other.handle(message));
            if (both.0?, both.1?) == (Done::Over, Done::Over) { Done::Over } else { Done::Again }
        } else {
            one.handle(message).await?
        };
        match done {
            Done::Over if reads == Reads::Once && random.below(LEFT) == 0 => {}
            Done::Over => delivered.ack().await?,
            Done::Again => delivered.ack_with(AckKind::Nak(Some(AGAIN))).await?,
        }
    }
    Err("there are no more messages".into())
}

/// What one round could not do the next one does.
async fn keep_up(counter: Arc<Counter>) -> Fallible<()> {
    loop {
        sleep(KEEPS_UP).await;
        drop(counter.processor.keep_up().await);
    }
}

/// The message as it was sent, as far as receivers look at it.
fn message(delivered: &async_nats::Message) -> Option<Message> {
    let header = |name: &str| {
        let headers: &HeaderMap = delivered.headers.as_ref()?;
        Some(headers.get(name)?.as_str())
    };
    let mut message = Message::new("received", delivered.payload.clone()).id(header("postrider-id")?.parse().ok()?);
    if let Some(key) = header("postrider-key") {
        message = message.key(key);
    }
    Some(match header(TOKEN_HEADER) {
        Some(token) => message.header(TOKEN_HEADER, token),
        None => message,
    })
}

async fn consumer(place: &Place, stage: Stage, reads: Reads) -> Fallible<PullConsumer> {
    let options = ConnectOptions::new().max_reconnects(None).request_timeout(Some(PATIENCE));
    let client = options.connect(&place.broker).await?;
    let stream = jetstream::new(client).get_stream(stage.stream()).await?;
    let config = Config {
        durable_name: Some(reads.word().to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: 512,
        ..Config::default()
    };
    Ok(stream.get_or_create_consumer(reads.word(), config).await?)
}

/// Whether every message of a stage's stream is acknowledged.
///
/// # Errors
/// When the broker cannot be reached.
pub(super) async fn is_at_the_end(place: &Place, stage: Stage, reads: Reads) -> Fallible<bool> {
    let mut consumer = consumer(place, stage, reads).await?;
    let info = timeout(PATIENCE, consumer.info()).await;
    Ok(matches!(info, Ok(Ok(info)) if info.num_pending == 0 && info.num_ack_pending == 0))
}
