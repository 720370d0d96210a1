//! A message as a consumer got it.

use postrider_core::{Message, MessageId, SourcePosition, TOKEN_HEADER};
use uuid::Uuid;

use crate::token::Token;

/// One delivery of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The message, with the id that it has at every delivery: the header `postrider-id`.
    pub message: Message,
    /// Where it stands in a source that gives out each part in order, as [the cursor](crate::Inbox::advance_rising) wants it: from a
    /// consumer of partitions. None elsewhere.
    pub position: Option<SourcePosition>,
}

impl Delivery {
    /// A delivery of this message, from a source that has no order.
    pub const fn new(message: Message) -> Self {
        Self { message, position: None }
    }

    /// The same from where it stands.
    #[must_use]
    pub fn at(self, position: SourcePosition) -> Self {
        Self { position: Some(position), ..self }
    }

    /// The id of the message.
    pub const fn id(&self) -> MessageId {
        self.message.id
    }

    /// The token that it came with, in [`TOKEN_HEADER`].
    pub fn token(&self) -> Option<Token> {
        let text = self.message.headers.get(TOKEN_HEADER)?;
        Uuid::parse_str(text).ok().map(Token)
    }
}

impl From<Message> for Delivery {
    fn from(message: Message) -> Self {
        Self::new(message)
    }
}
