//! Where it is kept which messages were handled.

use postrider_core::receiving::{Known, Protocol};
use postrider_core::{MessageId, Result};
use uuid::Uuid;

use super::known_ids::KnownIds;
use super::tokens::Tokens;

/// Where it is kept which messages were handled.
#[derive(Debug)]
pub(super) enum Memory {
    /// In the document of the entity.
    InDocument,
    /// In a store of ids.
    KnownIds(KnownIds),
    /// Nowhere: a message that was handled has no token any more.
    Tokens(Tokens),
}

/// What is known of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// This.
    Is(Known),
    /// It is older than what is remembered.
    TooOld,
}

impl Memory {
    pub(super) const fn protocol(&self) -> Protocol {
        match self {
            Self::InDocument => Protocol::IN_DOCUMENT,
            Self::KnownIds(_) => Protocol::KNOWN_IDS,
            Self::Tokens(_) => Protocol::TOKENS,
        }
    }

    /// Asks whether a message was handled.
    pub(super) async fn ask(&self, consumer: &str, id: MessageId, token: Option<Uuid>) -> Result<Asked> {
        match (self, token) {
            (Self::KnownIds(known), _) => known.ask(consumer, id).await,
            (Self::Tokens(tokens), Some(token)) => tokens.ask(token).await.map(Asked::Is),
            (Self::InDocument, _) | (Self::Tokens(_), None) => Ok(Asked::Is(Known::New)),
        }
    }
}
