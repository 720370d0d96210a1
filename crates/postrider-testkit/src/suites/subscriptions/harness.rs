//! What the suite needs to know about a broker that messages are taken from.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{Broker, Destination, Message, Result, Subscription};

use crate::suites::Exclusion;

/// A message of another producer, which knows nothing of Postrider: without a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The payload.
    pub payload: Bytes,
}

impl Foreign {
    /// A message without headers.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { headers: Vec::new(), payload: payload.into() }
    }

    /// The same message with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// One broker with a place of its own in it, there and empty when it is made. Nobody has read there yet.
#[async_trait]
pub trait SubscriptionHarness: Send + Sync {
    /// Our own broker, which the suite publishes to as a relay does.
    fn broker(&self) -> Arc<dyn Broker>;

    /// The place: what the suite publishes to, and what every subscription of this harness reads. It is not named
    /// `orders.placed`, which is the topic of the suite's messages.
    fn destination(&self) -> Destination;

    /// Publishes to the place with the broker's own client, one message after another, and returns when the broker has them.
    async fn publish_foreign(&self, messages: Vec<Foreign>);

    /// A consumer's subscription to the place: each call gives another client, as another process would have it. Dropped, it
    /// is gone as a process that died is.
    ///
    /// Nothing is asked of the broker by it, which may be away.
    fn subscribe(&self, consumer: &str) -> Arc<dyn Subscription>;

    /// A subscription to a place that does not exist.
    fn missing(&self) -> Arc<dyn Subscription>;

    /// What comes of subscribing with a name of a consumer that this broker can't have, and to a place that it can't have:
    /// each with what is wrong about it.
    fn misnamed(&self) -> Vec<(&'static str, Result<Arc<dyn Subscription>>)>;

    /// Returns when so many subscriptions of a consumer share its messages, and who gets what does not change any more. The
    /// suite takes from each of them while it waits.
    async fn settled(&self, _consumer: &str, _subscriptions: usize) {}

    /// Takes the broker away.
    async fn stop(&self);

    /// Brings it back, with what it had.
    async fn start(&self);

    /// Cuts every connection that a subscription has now; the broker goes on, and they can come back at once.
    async fn cut(&self);

    /// How long a call may take at most, whatever happens: the backend's own deadline and a little more.
    fn deadline(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// How long a message may take at most to come, first or again, whatever happened: the time for which a message stays with
    /// a member that died, and what the broker and the client need to find each other again.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// A text that stands in the credentials and must never be shown, if there are any.
    fn secret(&self) -> Option<String> {
        None
    }

    /// The cases that this broker can't pass by its nature.
    fn exclusions(&self) -> &'static [Exclusion] {
        &[]
    }
}

/// A message of the suite.
pub fn message(payload: impl Into<Bytes>) -> Message {
    Message::new("orders.placed", payload)
}
