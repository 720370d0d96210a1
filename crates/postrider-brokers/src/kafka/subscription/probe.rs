//! Whether the topics are there, asked when nothing comes: a reader of what is not there would only hear silence.

use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind, Result};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;

use super::super::line::CONNECT;
use super::super::listener::Listener;
use super::super::place;
use super::refusals;
use super::settings::Settings;

/// How long one question waits, so that a refusal is heard between two of them.
const QUESTION: Duration = Duration::from_secs(1);

/// A topic that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) name: String,
    /// The numbers of its partitions.
    pub(super) partitions: Vec<i32>,
    /// How many of them have nobody to read from now.
    pub(super) leaderless: usize,
    /// A server of the cluster.
    pub(super) server: Option<i32>,
}

/// What the cluster said of the topics of a consumer.
pub(super) struct Answers<'s> {
    settings: &'s Settings,
    metadata: Vec<Metadata>,
}

/// Asks for the topics of a consumer; `hear` lets the client tell what is wrong. It blocks.
///
/// # Errors
/// `Config` where the cluster refuses us; `Unavailable` where it does not answer.
pub(super) fn ask_for_topics<'s, C: ConsumerContext>(
    settings: &'s Settings,
    consumer: &BaseConsumer<C>,
    listener: &Listener,
    hear: impl Fn(),
) -> Result<Answers<'s>> {
    let ask = |name: &String| ask(settings, consumer, name, listener, &hear);
    Ok(Answers { settings, metadata: settings.topics.iter().map(ask).collect::<Result<_>>()? })
}

impl Answers<'_> {
    /// The topics, each of which is there and can be read.
    ///
    /// # Errors
    /// `Config` for a topic that is missing or forbidden.
    pub(super) fn topics(&self) -> Result<Vec<Topic>> {
        let names = self.settings.topics.iter();
        names.zip(&self.metadata).map(|(name, metadata)| topic(self.settings, name, metadata)).collect()
    }
}

fn ask<C: ConsumerContext>(
    settings: &Settings,
    consumer: &BaseConsumer<C>,
    topic: &str,
    listener: &Listener,
    hear: &impl Fn(),
) -> Result<Metadata> {
    let began = Instant::now();
    loop {
        let error = match consumer.fetch_metadata(Some(topic), QUESTION) {
            // A server that is just starting may name none, itself not either: that is no answer.
            Ok(metadata) if metadata.brokers().is_empty() => {
                KafkaError::MetadataFetch(RDKafkaErrorCode::BrokerNotAvailable)
            }
            Ok(metadata) => {
                listener.well();
                return Ok(metadata);
            }
            Err(error) => error,
        };
        hear();
        let trouble = listener.trouble();
        let is_refused = matches!(trouble, Some((ErrorKind::Config, _)));
        if is_refused || began.elapsed() >= CONNECT {
            return Err(away(settings, trouble, &error));
        }
        // Some failures come at once.
        std::thread::sleep(QUESTION / 10);
    }
}

/// What a cluster that does not answer means.
pub(super) fn away(settings: &Settings, trouble: Option<(ErrorKind, String)>, error: &KafkaError) -> Error {
    let (kind, why) = trouble.unwrap_or_else(|| (ErrorKind::Unavailable, format!("{error}; is the server running?")));
    Error::new(kind, format!("receiving from {}: {why}", settings.shown))
}

fn topic(settings: &Settings, name: &str, metadata: &Metadata) -> Result<Topic> {
    let shown = &settings.shown;
    let missing = || place::no_topic(shown, name);
    let found = metadata.topics().iter().find(|found| found.name() == name).ok_or_else(missing)?;
    match found.error().map(RDKafkaErrorCode::from) {
        None if found.partitions().is_empty() => Err(missing()),
        None => Ok(Topic {
            name: name.to_owned(),
            partitions: found.partitions().iter().map(|partition| partition.id()).collect(),
            leaderless: found.partitions().iter().filter(|partition| partition.leader() < 0).count(),
            server: metadata.brokers().first().map(|server| server.id()),
        }),
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => Err(missing()),
        Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
            Err(Error::new(ErrorKind::Config, refusals::forbidden_topics(settings, &[name.to_owned()])))
        }
        Some(code) => Err(Error::new(ErrorKind::Unavailable, format!("the topic {name:?} at {shown}: {code}"))),
    }
}
