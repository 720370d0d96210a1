//! What became of a delivery.

use std::error::Error as StdError;
use std::fmt;

use postrider_core::Error;
use postrider_core::receiving::Lapse;

/// What became of a delivery, and so what its consumer says to the broker.
#[derive(Debug)]
#[must_use = "a message that is not over must not be acknowledged"]
pub enum Processed {
    /// The message had its effect now. Acknowledge it.
    Applied,
    /// It had its effect at an earlier delivery, whose outputs were sent now. Acknowledge it.
    Resumed,
    /// It was handled before, and nothing was to do. Acknowledge it.
    Repeat,
    /// It is not over: let it come again after a moment. What happened so far is kept, and nothing is to be undone.
    Again {
        /// Why.
        lapse: Lapse,
        /// What failed, where something did.
        error: Option<Error>,
    },
    /// The handler failed, panicked or took too long, and nothing happened. Count it: a message that fails at every delivery
    /// belongs to the broker's dead letters.
    Failed(Box<dyn StdError + Send + Sync>),
    /// What the handler made is larger than the store takes, and nothing happened. It will be so at every delivery until the
    /// document has room: by ids that are forgotten, outputs that are sent, a smaller state. An entity with so many messages
    /// takes [`KnownIds`](crate::KnownIds), or remembers for a shorter time.
    TooLarge {
        /// The most bytes that the store takes.
        limit: u64,
        /// How many they would be.
        actual: u64,
    },
    /// The message is older than what is remembered: nobody can tell whether it was handled. Keep it for a person.
    TooOld,
}

impl Processed {
    /// Whether the message is over, and to be acknowledged.
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Applied | Self::Resumed | Self::Repeat)
    }
}

impl fmt::Display for Processed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::Resumed => f.write_str("resumed: its outputs are sent"),
            Self::Repeat => f.write_str("a repeat"),
            Self::Again { lapse: Lapse::Conflict, .. } => f.write_str("again: somebody else wrote the entity"),
            Self::Again { lapse: Lapse::TokenPending, .. } => f.write_str("again: its token is not valid yet"),
            Self::Again { error: Some(error), .. } => write!(f, "again: {error}"),
            Self::Again { error: None, .. } => f.write_str("again"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::TooLarge { limit, actual } => write!(
                f,
                "too large: the entity with its outputs and the ids that it remembers would have {actual} bytes, and the store \
                 takes {limit}; send less at once, keep less in the state, or remember ids for a shorter time or in a store of \
                 their own (KnownIds)"
            ),
            Self::TooOld => f.write_str("too old: it may be a repeat of what is forgotten; keep it for a person"),
        }
    }
}
