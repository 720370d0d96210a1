//! What an inbox is asked, and what it answers, whichever database it is in.

use std::time::Duration;

pub use postrider_core::Forgotten;
use postrider_core::receiving::{Advance, Numbering, Sequence};
use postrider_core::{Error, ErrorKind, Message, MessageId, Result};

use crate::dialog::Value;

/// Whose record a message is asked for: each consumer sees every message once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The consumer, with its tenant where it has one.
    pub consumer: String,
    /// The message.
    pub message: MessageId,
}

impl Claim {
    /// The values of a claim: the id, as hyphenated lower-case text, and the consumer.
    pub fn values(&self) -> Vec<Value> {
        vec![Value::Text(self.message.to_string()), Value::Text(self.consumer.clone())]
    }

    /// The id, as hyphenated lower-case text.
    pub fn id(&self) -> Value {
        Value::Text(self.message.to_string())
    }
}

/// A token to be issued: the consumer is to handle the message once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueToken(pub Claim);

/// A token to be taken: the message is handled in this transaction, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeToken(pub Claim);

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// It is the first: it is recorded, and the effect belongs into the same transaction.
    First,
    /// It was recorded before.
    Repeat,
    /// What was recorded in its time is forgotten, and no record of it is there: it may be a repeat.
    TooOld,
}

/// How far a consumer came in a source that delivers in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The consumer, with its tenant where it has one.
    pub consumer: String,
    /// The source: a stream, a topic.
    pub source: String,
    /// Its part: a lane, a partition.
    pub part: i64,
    /// The number of the message.
    pub sequence: i64,
    /// What the source promises of its numbers.
    pub numbering: Numbering,
}

impl Place {
    /// The consumer, the source and its part.
    pub fn key(&self) -> Vec<Value> {
        vec![Value::Text(self.consumer.clone()), Value::Text(self.source.clone()), Value::Number(self.part)]
    }

    /// The key, and the number.
    pub fn values(&self) -> Vec<Value> {
        let mut values = self.key();
        values.push(Value::Number(self.sequence));
        values
    }

    /// How its message stands to the last one that was handled.
    pub fn after(&self, last: Option<i64>) -> Advance {
        let sequence = |number: i64| Sequence(u64::try_from(number).unwrap_or(0));
        postrider_core::receiving::advance(last.map(sequence), sequence(self.sequence), self.numbering)
    }
}

/// What became of an advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advanced {
    /// How the message stands to what was handled before; the next one is recorded.
    By(Advance),
    /// Somebody else advanced in the same moment.
    Contended,
}

/// A message that was refused because nobody can tell whether it was handled, kept for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// Who refused it.
    pub consumer: String,
    /// The message as it came.
    pub message: Message,
    /// Why.
    pub reason: String,
}

impl Refused {
    /// The id, the consumer, the reason, the topic, the key, the content type, the headers as JSON text, and the payload.
    pub fn values(&self) -> Vec<Value> {
        let message = &self.message;
        vec![
            Value::Text(message.id.to_string()),
            Value::Text(self.consumer.clone()),
            Value::Text(self.reason.clone()),
            Value::Text(message.topic.as_str().to_owned()),
            Value::Maybe(message.key.as_ref().map(|key| key.as_str().to_owned())),
            Value::Maybe(message.content_type.as_deref().map(str::to_owned)),
            Value::Maybe(message.headers.to_json()),
            Value::Bytes(message.payload.to_vec()),
        ]
    }
}

/// What is kept for longer is kept for ever: databases cannot count much further back.
const CENTURY: Duration = Duration::from_secs(36_525 * 86_400);

/// A round of forgetting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forget {
    /// What was handled longer ago than so many milliseconds.
    pub keep_ms: i64,
    /// So many records at most, of either kind, where they are deleted one by one.
    pub at_most: u32,
}

impl Forget {
    /// A round that forgets what was handled longer ago than `keep`, a century at most, and at most so many records of either
    /// kind.
    pub fn after(keep: Duration, at_most: u32) -> Self {
        Self { keep_ms: i64::try_from(keep.min(CENTURY).as_millis()).unwrap_or(i64::MAX), at_most }
    }
}

/// How a round of forgetting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// So much is forgotten.
    Over(Forgotten),
    /// Nothing is, although there is something to forget: claims that are open are in the way.
    HeldUp,
}

impl Round {
    /// What is forgotten.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Throttled`] where claims are in the way: it is to be tried again.
    pub fn forgotten(self) -> Result<Forgotten> {
        match self {
            Self::Over(forgotten) => Ok(forgotten),
            Self::HeldUp => {
                let text =
                    "forgetting what was handled long ago: for a second there was no moment without an open claim";
                let advice = "a claim is open as long as its transaction: look for handlers whose transactions are open for longer \
                              than a second, or stuck";
                Err(Error::new(ErrorKind::Throttled, text).advise(advice))
            }
        }
    }
}
