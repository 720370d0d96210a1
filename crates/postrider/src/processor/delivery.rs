//! A message as a consumer got it.

use postrider_core::{Message, MessageId};

/// One delivery of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The message, with the id that it has at every delivery: the header `postrider-id`.
    pub message: Message,
}

impl Delivery {
    /// A delivery of this message.
    pub const fn new(message: Message) -> Self {
        Self { message }
    }

    /// The id of the message.
    pub const fn id(&self) -> MessageId {
        self.message.id
    }
}

impl From<Message> for Delivery {
    fn from(message: Message) -> Self {
        Self::new(message)
    }
}
