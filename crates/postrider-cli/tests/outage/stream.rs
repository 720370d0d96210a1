//! A JetStream stream on file storage, and everything that is in it.

use std::time::Duration;

use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::{Client, HeaderMap, jetstream};
use futures_util::StreamExt;

/// The name of the stream.
pub const STREAM: &str = "ORDERS";
/// What it stores.
pub const SUBJECTS: &str = "orders.>";
/// How long a consumer waits for one message.
const PATIENCE: Duration = Duration::from_secs(20);

/// A message as a consumer gets it.
#[derive(Debug, Clone)]
pub struct Received {
    pub subject: String,
    pub headers: HeaderMap,
    pub payload: Vec<u8>,
    /// When the stream stored it, in milliseconds since 1970.
    pub stored_at: u64,
}

impl Received {
    /// The value of a header; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.as_str())
    }

    /// The message id.
    pub fn id(&self) -> &str {
        self.header("Nats-Msg-Id")
    }
}

/// Creates the stream.
pub async fn create(client: &Client) {
    let config = Config {
        name: STREAM.to_owned(),
        subjects: vec![SUBJECTS.to_owned()],
        storage: StorageType::File,
        ..Config::default()
    };
    jetstream::new(client.clone()).create_stream(config).await.unwrap();
}

/// How many messages are in it.
pub async fn length(client: &Client) -> u64 {
    let stream = jetstream::new(client.clone()).get_stream(STREAM).await.unwrap();
    stream.cached_info().state.messages
}

/// Reads the stream from its beginning to what is now its end, in order, with a consumer.
pub async fn read(client: &Client) -> Vec<Received> {
    let stream = jetstream::new(client.clone()).get_stream(STREAM).await.unwrap();
    let length = usize::try_from(stream.cached_info().state.messages).unwrap();
    let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    let mut received = Vec::with_capacity(length);
    while received.len() < length {
        let message = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap().unwrap();
        let stored_at = message.info().unwrap().published.unix_timestamp_nanos() / 1_000_000;
        received.push(Received {
            stored_at: u64::try_from(stored_at).unwrap(),
            subject: message.subject.to_string(),
            headers: message.headers.clone().unwrap_or_default(),
            payload: message.payload.to_vec(),
        });
    }
    received
}
