//! What is done with a message.

use std::error::Error;
use std::fmt;
use std::future::Future;

use postrider_core::receiving::made_at;
use postrider_core::{Invalid, Message, MessageId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use uuid::Builder;

use crate::delivery::Delivery;

/// Which entity a message changes.
///
/// 1 to 255 bytes without control characters; another one fails the message, and the error says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntityKey(String);

impl EntityKey {
    /// The entity of this name.
    pub fn new(name: impl fmt::Display) -> Self {
        Self(name.to_string())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is done with a message: which entity it changes, how, and what is sent then.
///
/// The handler may run more often than once for one message, also at the same time; one of its results is kept. So it
/// changes nothing but the state that it is given, and sends nothing but through `out`.
pub trait Handler: Send + Sync {
    /// The state of an entity. Before its first message it is the default.
    type State: Serialize + DeserializeOwned + Default + Send;
    /// Why a message could not be handled.
    type Error: Into<Box<dyn Error + Send + Sync>> + Send;

    /// Which entity the message changes.
    fn entity(&self, message: &Delivery) -> EntityKey;

    /// Changes the state, and says what is to be sent. After an error nothing of either is kept.
    fn handle(
        &self,
        state: &mut Self::State,
        message: &Delivery,
        out: &mut Outputs,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What a handler wants sent.
#[derive(Debug)]
pub struct Outputs {
    consumer: String,
    cause: MessageId,
    messages: Vec<Message>,
}

impl Outputs {
    pub(super) const fn of(consumer: String, cause: MessageId) -> Self {
        Self { consumer, cause, messages: Vec::new() }
    }

    pub(super) fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// Sends a message when the state is committed, in the order of the calls; with `deliver_at` not before that moment.
    ///
    /// Its id becomes one that is the same whenever the handler runs for the message that it handles: made of the consumer,
    /// that message's id and the number of the call. It has the time of the message that is handled, where that has one, or
    /// the later one of `deliver_at`: a receiver's window counts from there, and is not over before the message can come.
    /// What the message says of retries is the relay's, and not used.
    ///
    /// # Errors
    /// When the message breaks a limit of [`Message`]; nothing was taken then.
    pub fn send(&mut self, message: Message) -> Result<MessageId, Invalid> {
        let id = self.id(self.messages.len(), message.deliver_at);
        let message = message.id(id.0);
        message.validate()?;
        self.messages.push(message);
        Ok(id)
    }

    fn id(&self, number: usize, deliver_at: Option<Timestamp>) -> MessageId {
        let mut hash = Sha256::new();
        hash.update(self.cause.0.as_bytes());
        hash.update(u64::try_from(number).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(self.consumer.as_bytes());
        let hash = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        let Some(at) = made_at(self.cause) else { return MessageId(Builder::from_custom_bytes(bytes).into_uuid()) };
        let mut random = [0; 10];
        random.copy_from_slice(&hash[..10]);
        let at = deliver_at.map_or(at, |leaves| leaves.max(at));
        let milliseconds = u64::try_from(at.0 / 1_000).unwrap_or_default();
        MessageId(Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn ids(consumer: &str, cause: MessageId) -> Vec<MessageId> {
        let mut out = Outputs::of(consumer.to_owned(), cause);
        (0..3).map(|n| out.send(Message::new("t", n.to_string())).unwrap()).collect()
    }

    #[test]
    fn an_output_has_the_same_id_at_every_run_and_no_other_has_it() {
        let cause = MessageId::fresh();
        let first = ids("billing", cause);
        assert_eq!(first, ids("billing", cause));
        let mut all: Vec<_> =
            [first, ids("shipping", cause), ids("billing", MessageId::fresh())].into_iter().flatten().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9);
    }

    #[test]
    fn an_output_has_the_time_of_the_message_it_comes_from_where_that_has_one() {
        let cause = MessageId::fresh();
        assert!(ids("billing", cause).iter().all(|id| made_at(*id) == made_at(cause)));
        let timeless = MessageId(Uuid::from_u128(7));
        assert!(ids("billing", timeless).iter().all(|id| id.0.get_version_num() == 8));
    }

    #[test]
    fn an_output_that_leaves_later_has_that_time() {
        let cause = MessageId::fresh();
        let mut out = Outputs::of("billing".to_owned(), cause);
        let made = made_at(cause).unwrap();
        for (leaves, expected) in [(made.0 + 8_000_000, made.0 + 8_000_000), (made.0 - 8_000_000, made.0)] {
            let id = out.send(Message::new("t", "x").deliver_at(Timestamp(leaves))).unwrap();
            assert_eq!(made_at(id), Some(Timestamp(expected)));
        }
    }

    #[test]
    fn a_message_that_breaks_a_limit_is_refused_and_leaves_nothing() {
        let mut out = Outputs::of("billing".to_owned(), MessageId::fresh());
        assert!(out.send(Message::new("", "x")).is_err());
        assert!(out.into_messages().is_empty());
    }
}
