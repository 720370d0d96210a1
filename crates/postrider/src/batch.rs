//! The messages of one call, checked before any of them is written.

use postrider_core::{Message, MessageId};

use crate::error::EnqueueError;

/// What a driver has to write, and what it answers when it did: one id, or the ids of all.
///
/// Only this crate can make one, which is what seals [`Enqueue`](crate::Enqueue).
#[derive(Debug)]
pub struct Batch<R> {
    /// What to write, in this order.
    pub messages: Vec<Message>,
    /// The answer when it is written.
    pub ids: R,
}

/// Nobody else's type.
#[cfg(feature = "_diesel")]
pub trait Sealed {}

impl Batch<MessageId> {
    pub(crate) fn one(message: Message) -> Result<Self, EnqueueError> {
        Ok(Self { ids: message.id, messages: checked(vec![message])? })
    }
}

impl Batch<Vec<MessageId>> {
    pub(crate) fn many(messages: impl IntoIterator<Item = Message>) -> Result<Self, EnqueueError> {
        let messages: Vec<_> = messages.into_iter().collect();
        Ok(Self { ids: messages.iter().map(|message| message.id).collect(), messages: checked(messages)? })
    }
}

fn checked(mut messages: Vec<Message>) -> Result<Vec<Message>, EnqueueError> {
    for (place, message) in messages.iter().enumerate() {
        message.validate().map_err(|reason| EnqueueError::Invalid { place: place + 1, id: message.id, reason })?;
    }
    crate::trace::capture(&mut messages);
    Ok(messages)
}
