//! Keys and topics.

use std::fmt;
use std::sync::Arc;

/// The ordering group of a message, at most [`MAX_KEY`](crate::MAX_KEY) bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// A key as it stands; [`Message::validate`](crate::Message::validate) checks it.
    pub fn unchecked(key: impl AsRef<str>) -> Self {
        Self(Arc::from(key.as_ref()))
    }

    /// Stands for all messages of an outbox in which they have one order, with a key and without. No message has this
    /// key, because a key is not empty.
    pub fn everything() -> Self {
        Self::unchecked("")
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a message goes, before routing: dot-separated words, at most [`MAX_TOPIC`](crate::MAX_TOPIC) bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// A topic as it stands; [`Message::validate`](crate::Message::validate) checks it.
    pub fn unchecked(topic: impl AsRef<str>) -> Self {
        Self(Arc::from(topic.as_ref()))
    }

    /// The topic.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
