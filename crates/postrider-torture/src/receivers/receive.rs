//! One receiver, as a process of its own.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{self, AckKind};
use async_nats::{ConnectOptions, HeaderMap};
use clap::ValueEnum;
use futures_util::StreamExt;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::ConsumerKind;
use super::hands::{Done, Hands};
use crate::Fallible;
use crate::place::nats::STREAM;
use crate::random::Random;

/// The first word of a receiver's command line.
pub const VERB: &str = "receive";

/// An unacknowledged message comes again after this time.
const ACK_WAIT: Duration = Duration::from_secs(2);
/// One of so many that were handled is left unacknowledged.
const LEFT: u64 = 16;
/// What could not be handled comes again after this time.
const AGAIN: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(5);

/// What is read of the stream.
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

/// Receives until it is killed; an error ends it, and another one is started.
///
/// # Errors
/// When its words make no sense, or the broker or the database is away.
pub async fn receive(words: &[String]) -> Fallible<()> {
    let [kind, url, broker, reads, seed] = words else { return Err("receive KIND DATABASE BROKER READS SEED".into()) };
    let kind = ConsumerKind::from_str(kind, false)?;
    let reads = Reads::parse(reads).ok_or("once or again")?;
    let (mut hands, mut random) = (Hands::open(kind, url).await?, Random::new(seed.parse()?, 0));
    let mut messages = consumer(broker, reads).await?.messages().await?;
    while let Some(message) = messages.next().await {
        let message = message?;
        let id = id(message.headers.as_ref()).ok_or("a message without an id")?;
        match hands.handle(id, &message.payload).await? {
            Done::Over if reads == Reads::Once && random.below(LEFT) == 0 => {}
            Done::Over => message.ack().await?,
            Done::Again => message.ack_with(AckKind::Nak(Some(AGAIN))).await?,
        }
    }
    Ok(())
}

fn id(headers: Option<&HeaderMap>) -> Option<Uuid> {
    headers?.get("postrider-id")?.as_str().parse().ok()
}

async fn consumer(broker: &str, reads: Reads) -> Fallible<PullConsumer> {
    let client = ConnectOptions::new().max_reconnects(None).request_timeout(Some(PATIENCE)).connect(broker).await?;
    let stream = jetstream::new(client).get_stream(STREAM).await?;
    let config = Config {
        durable_name: Some(reads.word().to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: 512,
        ..Config::default()
    };
    Ok(stream.get_or_create_consumer(reads.word(), config).await?)
}

/// Waits until every message of the stream is acknowledged; whether it came to that.
///
/// # Errors
/// When the broker cannot be reached.
pub async fn comes_to_its_end(broker: &str, reads: Reads, within: Duration) -> Fallible<bool> {
    let (mut consumer, until) = (consumer(broker, reads).await?, Instant::now() + within);
    while Instant::now() < until {
        if let Ok(Ok(info)) = timeout(PATIENCE, consumer.info()).await
            && info.num_pending == 0
            && info.num_ack_pending == 0
        {
            return Ok(true);
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(false)
}
