//! What is sent.

mod headers;
mod key;
mod limits;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

pub use headers::{Attributes, Headers, TOKEN_HEADER};
pub use key::{Key, Topic};
pub use limits::{
    Invalid, MAX_ATTRIBUTES, MAX_CONTENT_TYPE, MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS, MAX_KEY, MAX_PAYLOAD,
    MAX_TOPIC,
};

use crate::retry::RetryOverride;

/// The stable identity of a message, the same on every delivery.
///
/// UUIDv7 from the SDK or the database; a foreign UUID is accepted as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub Uuid);

impl MessageId {
    /// A fresh UUIDv7.
    pub fn fresh() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment by the database's clock, in microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// A moment that never comes: `infinity` in PostgreSQL, the largest integer in SQLite.
    pub const NEVER: Self = Self(i64::MAX);

    /// How long `earlier` lies before this moment; zero when it does not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(if self.0 > earlier.0 { self.0.abs_diff(earlier.0) } else { 0 })
    }
}

/// A message: what an application writes into its outbox and what a broker receives.
///
/// Build one with [`Message::new`] or [`Message::json`] and the `with`-style methods; nothing is checked until
/// [`Message::validate`], which the SDK and the command line call before they write.
///
/// ```
/// use postrider_core::Message;
/// let order = serde_json::json!({ "order": 7 });
/// let message = Message::json("orders.placed", &order)?.key("customer-42").header("tenant", "blue");
/// message.validate()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its identity.
    pub id: MessageId,
    /// Where it goes, before routing.
    pub topic: Topic,
    /// Its ordering group; none means that no order is asked for.
    pub key: Option<Key>,
    /// The bytes, never re-encoded.
    pub payload: Bytes,
    /// The media type of the payload.
    pub content_type: Option<String>,
    /// Names to strings, order kept.
    pub headers: Headers,
    /// What one broker alone understands, as `prefix.name`.
    pub attributes: Attributes,
    /// Not before this moment.
    pub deliver_at: Option<Timestamp>,
    /// Never sent after this moment: it is given up or dropped then, as the policy of its topic says. With
    /// [`Timestamp::NEVER`] it never expires, whatever that policy says.
    pub expires_at: Option<Timestamp>,
    /// When it was written, by the database's clock; none until it is read back.
    pub created_at: Option<Timestamp>,
    /// What this message changes in the retry policy of its topic.
    pub retry: Option<RetryOverride>,
}

impl Message {
    /// A message with a fresh id and nothing but a topic and a payload.
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            id: MessageId::fresh(),
            topic: Topic::unchecked(Into::<String>::into(topic)),
            key: None,
            payload: payload.into(),
            content_type: None,
            headers: Headers::default(),
            attributes: Attributes::default(),
            deliver_at: None,
            expires_at: None,
            created_at: None,
            retry: None,
        }
    }

    /// A message whose payload is `body` as JSON, with content type `application/json`.
    ///
    /// # Errors
    /// When `body` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(topic: impl Into<String>, body: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::new(topic, serde_json::to_vec(body)?).content_type("application/json"))
    }

    /// The same message with an id of the caller's.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = MessageId(id);
        self
    }

    /// The same message in an ordering group.
    #[must_use]
    pub fn key(mut self, key: impl fmt::Display) -> Self {
        self.key = Some(Key::unchecked(key.to_string()));
        self
    }

    /// The same message with a media type.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// The same message with one more header; a header of that name is replaced.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// The same message with the `correlation-id` header.
    #[must_use]
    pub fn correlation_id(self, id: impl fmt::Display) -> Self {
        self.header("correlation-id", id.to_string())
    }

    /// The same message with the `causation-id` header.
    #[must_use]
    pub fn causation_id(self, id: impl fmt::Display) -> Self {
        self.header("causation-id", id.to_string())
    }

    /// The same message with one more broker attribute, such as `http.path`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.set(name, value);
        self
    }

    /// The same message, to be delivered not before a moment.
    #[must_use]
    pub fn deliver_at(mut self, at: Timestamp) -> Self {
        self.deliver_at = Some(at);
        self
    }

    /// The same message, not to be sent after a moment.
    #[must_use]
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.expires_at = Some(at);
        self
    }

    /// The same message with its own retry settings.
    #[must_use]
    pub fn retry(mut self, retry: RetryOverride) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Checks every limit and every name.
    ///
    /// # Errors
    /// The first limit that is passed, with what was found and what is allowed.
    pub fn validate(&self) -> Result<(), Invalid> {
        limits::validate(self)
    }

    /// What the message weighs in the relay's window, in bytes.
    pub fn weight(&self) -> usize {
        let key = self.key.as_ref().map_or(0, |key| key.as_str().len());
        self.payload.len() + self.topic.as_str().len() + key + self.headers.weight() + self.attributes.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_its_uuid() {
        assert_eq!(MessageId(Uuid::from_u128(7)).to_string(), "00000000-0000-0000-0000-000000000007");
    }

    #[test]
    fn what_lies_after_a_moment_is_no_time_before_it() {
        let (early, late) = (Timestamp(-2), Timestamp(5));
        assert_eq!(late.since(early), Duration::from_micros(7));
        assert_eq!((early.since(late), late.since(late)), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn a_message_weighs_what_is_kept_of_it_in_memory() {
        let bare = Message::new("abc", "12345");
        assert_eq!(bare.weight(), 8);
        let keyed = bare.key("k1");
        assert_eq!(keyed.weight(), 10);
        let with_header = keyed.header("name", "value");
        let header = with_header.headers.weight();
        assert!(header >= 9 && with_header.weight() == 10 + header);
        let whole = with_header.attribute("http.path", "/x");
        let attribute = whole.attributes.weight();
        assert!(attribute >= 11 && whole.weight() == 10 + header + attribute);
    }
}
