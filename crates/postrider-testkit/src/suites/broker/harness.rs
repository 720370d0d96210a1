//! What the suite needs to know about a broker.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{Attempt, Broker, Destination, Lane, Message, Outgoing, Published, Term};

use crate::suites::Exclusion;

/// A message as the receiving side found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Every header, names in lower case, the `postrider-*` ones included.
    pub headers: Vec<(String, String)>,
    /// The media type.
    pub content_type: Option<String>,
    /// The payload.
    pub payload: Bytes,
}

impl Received {
    /// The first value of a header, named in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Whether the receiving side drops a repeated id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduplication {
    /// It does, and the broker reports it.
    ById,
    /// It does not.
    None,
}

/// One broker with a receiving side of its own, working when it is made.
#[async_trait]
pub trait BrokerHarness: Send + Sync {
    /// The broker under test.
    fn broker(&self) -> Arc<dyn Broker>;

    /// A place that exists.
    fn destination(&self) -> Destination;

    /// Everything that arrived, in order.
    async fn received(&self) -> Vec<Received>;

    /// Whether the receiving side drops repeats.
    fn deduplication(&self) -> Deduplication;

    /// How long a call may take at most, whatever happens: the broker's own deadline and a little more.
    fn deadline(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// A text that stands in the credentials and must never be shown, if there are any.
    fn secret(&self) -> Option<String> {
        None
    }

    /// A message larger than the receiving side takes.
    fn oversize(&self) -> Message;

    /// The message as the receiving side refuses it, and no other: marked there, or changed so that it passes a limit.
    async fn refused(&self, message: Message) -> Message;

    /// A broker and a place in it that does not exist.
    async fn missing(&self) -> (Arc<dyn Broker>, Destination);

    /// Takes the receiving side away.
    async fn stop(&self);

    /// Brings it back, with what had arrived.
    async fn start(&self);

    /// The cases that this broker can't pass by its nature.
    fn exclusions(&self) -> &'static [Exclusion] {
        &[]
    }
}

/// A message of the suite.
pub fn message(payload: impl Into<Bytes>) -> Message {
    Message::new("orders.placed", payload)
}

/// How each result reads: `ok`, the kind of the failure, or `-` where it was not sent.
pub fn told(results: &[Published]) -> Vec<&'static str> {
    let one = |result: &Published| match result {
        Published::Accepted(_) => "ok",
        Published::Failed(error) => error.kind().as_str(),
        Published::NotSent => "-",
    };
    results.iter().map(one).collect()
}

/// A message on its way to a place.
pub fn outgoing(message: Message, destination: &Destination) -> Outgoing {
    Outgoing {
        message: Arc::new(message),
        destination: destination.clone(),
        attempt: Attempt(3),
        lane: Lane(17),
        term: Term(42),
        given_up: None,
    }
}
