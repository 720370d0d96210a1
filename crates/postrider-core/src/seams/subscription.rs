//! Where messages come from: what a broker gives to a consumer.

use std::fmt::{self, Debug};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageId};
use crate::seams::Finding;

/// The namespace of the ids of messages that came without one.
const PLACES: Uuid = Uuid::from_u128(0x6f1d_6f4e_5c0b_4e0e_9a0e_7c1b_52f3_83d1);

/// Where in the broker a message lies, in the broker's own words: `ORDERS/17`, `orders[3]@17`. No other message ever lies
/// there. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Arc<str>);

impl Place {
    /// The place of this name.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(name.as_ref().into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a message stands in a source that gives out each of its parts in order: in which partition of a topic, at which offset.
/// The numbers of a part rise, and may leave some out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// The source: a topic.
    pub source: Arc<str>,
    /// Which part of it: a partition.
    pub part: u32,
    /// Where in the part: an offset.
    pub number: u64,
}

/// What tells a broker that a message is over.
///
/// Dropped without a word, the message is not over: it comes again, to whoever takes it then.
#[async_trait]
pub trait Receipt: Send + Sync + Debug {
    /// Says that the message is over. It is when this returns: the broker has recorded it.
    ///
    /// A broker that keeps one position per partition records it when everything before it there is over too.
    /// Where something is not, this returns when it is noted, and the death of this process makes it a repeat until then.
    ///
    /// # Errors
    /// `Unknown` or `Unavailable` where the broker did not say so, `Fenced` where the message is another consumer's by now:
    /// in each case it may come again, and then it is a repeat.
    async fn acknowledge(self: Box<Self>) -> Result<()>;

    /// Says that the message is being worked on, so that nobody else gets it for another [`Subscription::hold`].
    ///
    /// # Errors
    /// `Fenced` where the message is another consumer's by now; else as [`acknowledge`](Self::acknowledge).
    async fn extend(&self) -> Result<()>;

    /// Gives the message back: whoever takes next may get it, at once.
    ///
    /// # Errors
    /// As [`acknowledge`](Self::acknowledge); it comes back later then.
    async fn release(self: Box<Self>) -> Result<()>;
}

/// A message as it came.
#[derive(Debug)]
pub struct Incoming {
    /// The message, or why there is none in what came: `Rejected`, which it will be at every delivery.
    pub message: Result<Message>,
    /// Its bytes as they came, which a message that can't be read is kept by.
    pub payload: Bytes,
    /// Where it lies.
    pub place: Place,
    /// Where it stands, from a subscription that [keeps the order](Subscription::keeps_order) of each part; none otherwise.
    pub position: Option<SourcePosition>,
    /// How often the broker has delivered it, this time included; none where it does not count.
    pub deliveries: Option<u32>,
    /// What ends it.
    pub receipt: Box<dyn Receipt>,
}

/// What lies on the wire of any broker, to be read back as a message.
#[derive(Debug, Clone)]
pub struct Wire<'w> {
    /// Names and values, in their order; the names in any case.
    pub headers: Vec<(&'w str, &'w str)>,
    /// The payload; none where the broker has none, such as for a tombstone.
    pub payload: Option<Bytes>,
    /// What the broker itself calls the topic.
    pub topic: &'w str,
    /// What the broker itself has as the key.
    pub key: Option<&'w str>,
    /// Where it lies.
    pub place: &'w Place,
    /// When it was stored, as the broker writes it; none where it does not say. What was emptied and filled again has other
    /// messages at the same places, and at other times.
    pub stored: Option<&'w str>,
}

impl Wire<'_> {
    /// The message as its sender enqueued it: `postrider-id`, `postrider-topic` and `postrider-key` are its identity, its topic
    /// and its key, `content-type` is its media type, and its other headers are its own. What only the relay says is left out.
    ///
    /// A message of another producer has the broker's topic and key, and an id that is made of its place and its time: the
    /// same at every delivery of it, another one where its producer sent it twice.
    ///
    /// # Errors
    /// `Rejected` where `postrider-id` is no UUID, or where the message breaks a limit of [`Message`].
    pub fn read(self) -> Result<Message> {
        let mut message = Message::new(self.topic, self.payload.unwrap_or_default());
        let mut id = None;
        if let Some(key) = self.key {
            message = message.key(key);
        }
        for (name, value) in self.headers {
            message = match name.to_ascii_lowercase().as_str() {
                "postrider-id" => {
                    id = Some(identity(value, self.place)?);
                    message
                }
                "postrider-topic" => Message { topic: crate::Topic::unchecked(value), ..message },
                "postrider-key" => message.key(value),
                "content-type" => message.content_type(value),
                crate::TOKEN_HEADER => message.header(crate::TOKEN_HEADER, value),
                other if other.starts_with("postrider-") => message,
                _ => message.header(name, value),
            };
        }
        message.id = MessageId(id.unwrap_or_else(|| of_its_place(self.place, self.stored)));
        let unfit = |invalid| {
            let text = format!("what lies at {} is no message that can be handled: {invalid}", self.place);
            Error::new(ErrorKind::Rejected, text)
        };
        message.validate().map_err(unfit)?;
        Ok(message)
    }
}

/// The identity of a message that has none of its own.
fn of_its_place(place: &Place, stored: Option<&str>) -> Uuid {
    match stored {
        Some(stored) => Uuid::new_v5(&PLACES, format!("{place}@{stored}").as_bytes()),
        None => Uuid::new_v5(&PLACES, place.as_str().as_bytes()),
    }
}

fn identity(text: &str, place: &Place) -> Result<Uuid> {
    let shown: String = text.chars().take(60).collect();
    text.parse().map_err(|_| {
        let text = format!("the header postrider-id of what lies at {place} is {shown:?}: expected a UUID");
        Error::new(ErrorKind::Rejected, text)
    })
}

/// A consumer's place at a broker: what it takes messages from.
///
/// Several of one consumer, in any number of processes, share what there is. An implementation promises:
///
/// * every message that is not over is given to somebody, sooner or later, and again until it is over;
/// * messages that the broker keeps in one order are taken in that order, where none of them came back;
/// * what is taken is not more than was asked for, and what is not taken stays with the broker;
/// * a broker that is away makes [`take`](Self::take) fail for a while and harms nothing: the connection comes back by itself.
#[async_trait]
pub trait Subscription: Send + Sync + Debug {
    /// The name of the backend, such as `nats`.
    fn name(&self) -> &'static str;

    /// How long a message stays with whoever took it, without a word of theirs; none where it stays as long as they live.
    fn hold(&self) -> Option<Duration>;

    /// Whether each part of the source is read by one consumer at a time, in its order, and whoever gets a part next begins with the
    /// first message of it that is not over. Every message has a [`SourcePosition`] then, and stays with its taker as long as that
    /// one lives: [`hold`](Self::hold) is none. Without a word it is not so.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Takes messages: as many as there are, at most so many, waiting a moment for the first. Nothing when none came.
    ///
    /// Dropped, it loses nothing: what it took comes again.
    ///
    /// # Errors
    /// `Unavailable`, `Config` or `Throttled`, with what to do. Asking again after a while is right.
    async fn take(&self, at_most: NonZeroUsize) -> Result<Vec<Incoming>>;

    /// Whether the broker is there and has what the consumer reads, and what to know about it.
    ///
    /// # Errors
    /// `Unavailable` or `Config`, with what to do.
    async fn check(&self) -> Result<Vec<Finding>>;

    /// Leaves: what was taken and is not over goes to others, and acknowledging it may fail. Dropping it leaves too.
    async fn close(&self);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attempt, Destination, Lane, Outgoing, Term};

    fn wire<'w>(headers: Vec<(&'w str, &'w str)>, place: &'w Place) -> Wire<'w> {
        Wire { headers, payload: Some(Bytes::from_static(b"{}")), topic: "shop.orders", key: None, place, stored: None }
    }

    #[test]
    fn what_the_relay_sent_is_read_back_as_it_was_enqueued() {
        let token = "0193e0a4-7d5e-7cc3-b3ae-4d2a5e5f7a10";
        let sent = Message::new("orders.placed", "{}")
            .key("order-7")
            .content_type("application/json")
            .header("Tenant", "blue")
            .header(crate::TOKEN_HEADER, token);
        let outgoing = Outgoing {
            message: Arc::new(sent.clone()),
            destination: Destination::new("shop.orders"),
            attempt: Attempt(3),
            lane: Lane(4),
            term: Term(5),
            given_up: None,
        };
        let ours = outgoing.wire_headers();
        let mut headers: Vec<(&str, &str)> = ours.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend([("Tenant", "blue"), ("Content-Type", "application/json"), (crate::TOKEN_HEADER, token)]);
        let place = Place::new("ORDERS/17");
        assert_eq!(wire(headers, &place).read().unwrap(), sent);
    }

    #[test]
    fn a_message_of_another_producer_has_an_id_of_its_place() {
        let (here, there) = (Place::new("orders[3]@17"), Place::new("orders[3]@18"));
        let read = |place| Wire { key: Some("7"), ..wire(vec![("a", "b")], place) }.read().unwrap();
        let message = read(&here);
        assert_eq!((message.id, message.topic.as_str()), (read(&here).id, "shop.orders"));
        assert_eq!(message.key.as_ref().map(crate::Key::as_str), Some("7"));
        assert_ne!(message.id, read(&there).id);
        let at = |stored| Wire { stored, ..wire(Vec::new(), &here) }.read().unwrap().id;
        assert!(at(Some("1")) == at(Some("1")) && at(Some("1")) != at(Some("2")) && at(Some("1")) != at(None));
    }

    #[test]
    fn what_is_no_message_is_rejected_with_where_it_lies() {
        let place = Place::new("ORDERS/17");
        for headers in [vec![("Postrider-Id", "7")], vec![("postrider-topic", "")]] {
            let error = wire(headers, &place).read().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected);
            assert!(error.to_string().contains("ORDERS/17"), "{error}");
        }
    }
}
