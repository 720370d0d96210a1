//! Who is told of messages that are given up.

use std::fmt::Debug;

use postrider_core::{DeadReason, Key, MessageId, RowId, Topic};

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GaveUp {
    /// Its id; none for a row whose id could not be read.
    pub id: Option<MessageId>,
    /// Its row.
    pub row: RowId,
    /// Its topic; none for a row that is no message.
    pub topic: Option<Topic>,
    /// Its key, if it has one.
    pub key: Option<Key>,
    /// Why.
    pub reason: DeadReason,
    /// What was said last.
    pub error: String,
}

/// Is told of every message that the relay gives up, when it decides so: a crash before that is recorded tells it again.
///
/// It is called within the relay's loop, so it must not block.
pub trait DeadWatch: Send + Sync + Debug {
    /// A message was given up.
    fn gave_up(&self, dead: GaveUp);
}
