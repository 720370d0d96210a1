//! Where messages go.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;

use crate::address::Destination;
use crate::error::{Error, Result};
use crate::lane::{Lane, Term};
use crate::message::Message;
use crate::retry::TopicPattern;
use crate::row::GivenUp;
use crate::seams::Finding;
use crate::template::DestinationTemplate;

/// The most characters of an error in a header.
const LONGEST_ERROR: usize = 1_000;

/// Whether a broker keeps the order of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderInBatch {
    /// Several messages of a key may travel in one batch: after the first that fails, the later ones of its key come
    /// back [`Published::NotSent`] or failed, never accepted before it.
    Kept,
    /// One message of a key at a time.
    NotKept,
}

/// Whether one message's failure can take others with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Messages share a connection: one that breaks it makes the others fail too.
    SharedConnection,
    /// Each message stands alone.
    PerMessage,
}

/// What an acknowledgement is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The message is in somebody's memory, or in a pipe.
    None,
    /// The receiver said that it took responsibility.
    Receiver,
    /// The message is on disk, or with a quorum.
    Durable,
}

/// What a broker can do, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerProfile {
    /// The name of the backend, such as `nats`.
    pub name: &'static str,
    /// Whether a batch keeps its order.
    pub order: OrderInBatch,
    /// Whether one message's failure can take others with it.
    pub isolation: Isolation,
    /// What an acknowledgement is worth.
    pub durability: Durability,
    /// The most messages of one call.
    pub max_batch: usize,
    /// The most calls at once.
    pub max_concurrent: usize,
}

/// Which attempt this is, counted from 1, charged or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u32);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A message on its way: what a broker publishes.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The message.
    pub message: Arc<Message>,
    /// Where in the broker it goes.
    pub destination: Destination,
    /// Which attempt this is.
    pub attempt: Attempt,
    /// The lane it belongs to.
    pub lane: Lane,
    /// The term under which the relay owns that lane.
    pub term: Term,
    /// Why it was given up, when it is forwarded as a dead letter.
    pub given_up: Option<Arc<GivenUp>>,
}

impl Outgoing {
    /// The wire headers that every broker carries beside the user's own, lower case, in this order: `postrider-id`,
    /// `postrider-topic`, `postrider-key` (where there is one), `postrider-attempt`, `postrider-lane`,
    /// `postrider-term`; of a forwarded dead letter also `postrider-dead-reason`, `postrider-dead-attempts` and
    /// `postrider-dead-error` (printable ASCII, at most 1,000 characters). They are a promise (docs/compatibility.md).
    pub fn wire_headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::with_capacity(9);
        headers.push(("postrider-id", self.message.id.to_string()));
        headers.push(("postrider-topic", self.message.topic.as_str().to_owned()));
        if let Some(key) = &self.message.key {
            headers.push(("postrider-key", key.as_str().to_owned()));
        }
        headers.push(("postrider-attempt", self.attempt.0.to_string()));
        headers.push(("postrider-lane", self.lane.0.to_string()));
        headers.push(("postrider-term", self.term.0.to_string()));
        if let Some(given_up) = &self.given_up {
            headers.push(("postrider-dead-reason", given_up.reason.to_string()));
            headers.push(("postrider-dead-attempts", given_up.attempts.to_string()));
            headers.push(("postrider-dead-error", printable(&given_up.error)));
        }
        headers
    }
}

/// A text that every broker takes as the value of a header.
fn printable(text: &str) -> String {
    let one = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    text.trim().chars().take(LONGEST_ERROR).map(one).collect()
}

/// Whether the broker had the message already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// It is new there.
    Fresh,
    /// The broker recognised its id and dropped the repeat.
    Duplicate,
}

/// A durable acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Whether the broker had it already.
    pub confirmation: Confirmation,
}

impl Accepted {
    /// An acknowledgement of a new message.
    pub const FRESH: Self = Self { confirmation: Confirmation::Fresh };
}

/// What became of one message of a batch.
#[derive(Debug)]
pub enum Published {
    /// The broker has it.
    Accepted(Accepted),
    /// It failed; the kind says how.
    Failed(Error),
    /// It was not sent, because an earlier one of its key in the batch failed.
    NotSent,
}

/// A broker, connected or able to connect by itself.
#[async_trait]
pub trait Broker: Send + Sync + Debug {
    /// What this broker can do.
    fn profile(&self) -> BrokerProfile;

    /// Publishes a batch: one result per message, same order and length. A shorter or longer answer is treated as
    /// `Unknown` for all of it.
    ///
    /// [`Published::Accepted`] only after the broker's durable acknowledgement. The call ends by itself within the
    /// broker's own deadline; what was sent and not answered is [`Unknown`](crate::ErrorKind::Unknown). Where no
    /// connection stood, so that the attempt certainly never left this process, the error says so
    /// ([`Error::unsent`]).
    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published>;

    /// Whether the broker is reachable and the destinations exist; what to know about its durability.
    ///
    /// # Errors
    /// `Unavailable` or `Config`, with what to do.
    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>>;

    /// The same for a route whose destination depends on the topic: fails when no message of these topics has a place
    /// there. Nothing is said where that cannot be known.
    ///
    /// # Errors
    /// `Unavailable` or `Config`, with what to do.
    async fn check_route(&self, topics: &TopicPattern, destination: &DestinationTemplate) -> Result<Vec<Finding>> {
        let _ = (topics, destination);
        Ok(Vec::new())
    }

    /// Flushes and disconnects.
    async fn close(&self);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seams::DeadReason;

    fn outgoing(message: Message, given_up: Option<GivenUp>) -> Outgoing {
        Outgoing {
            message: Arc::new(message),
            destination: Destination::new("somewhere"),
            attempt: Attempt(3),
            lane: Lane(4),
            term: Term(5),
            given_up: given_up.map(Arc::new),
        }
    }

    #[test]
    fn the_wire_headers_are_those_that_are_promised_in_their_order() {
        let message = Message::new("orders.placed", "").key("order-7");
        let id = message.id.to_string();
        let pairs = |headers: &[(&'static str, String)]| -> Vec<String> {
            headers.iter().map(|(name, value)| format!("{name}: {value}")).collect()
        };
        let plain = outgoing(message.clone(), None).wire_headers();
        let first = [
            format!("postrider-id: {id}"),
            "postrider-topic: orders.placed".to_owned(),
            "postrider-key: order-7".to_owned(),
            "postrider-attempt: 3".to_owned(),
            "postrider-lane: 4".to_owned(),
            "postrider-term: 5".to_owned(),
        ];
        assert_eq!(pairs(&plain), first);
        let error = format!(" no\r\nwhere, caf\u{e9} {}", "x".repeat(2_000));
        let given_up = GivenUp { reason: DeadReason::Attempts, attempts: 9, error };
        let dead = pairs(&outgoing(message, Some(given_up)).wire_headers());
        assert_eq!(dead[..6], first);
        assert_eq!(dead[6..8], ["postrider-dead-reason: attempts", "postrider-dead-attempts: 9"]);
        let told = dead[8].strip_prefix("postrider-dead-error: ").unwrap();
        assert!(told.starts_with("no??where, caf? xxx") && told.len() == LONGEST_ERROR, "{told}");
    }

    #[test]
    fn an_attempt_is_written_as_its_number() {
        assert_eq!(format!("{} {:>3}", Attempt(3), Attempt(12)), "3  12");
    }
}
