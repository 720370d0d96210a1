//! Keys and topics.

use std::cmp;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

/// The ordering group of a message, at most [`MAX_KEY`](crate::MAX_KEY) bytes.
#[derive(Clone)]
pub struct Key {
    text: Arc<str>,
    /// Made once: the machine looks a key up a dozen times for each of its messages.
    hash: u64,
}

/// Unknown outside of this process, so that nobody chooses keys that share their places in a map.
static HASHING: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Key {
    /// A key as it stands; [`Message::validate`](crate::Message::validate) checks it.
    pub fn unchecked(key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        Self { text: Arc::from(key), hash: HASHING.hash_one(key) }
    }

    /// Stands for all messages of an outbox in which they have one order, with a key and without. No message has this
    /// key, because a key is not empty.
    pub fn everything() -> Self {
        Self::unchecked("")
    }

    /// Where a map of this process looks for it first.
    pub(crate) const fn hash_code(&self) -> u64 {
        self.hash
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.text).finish()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_by_their_text_and_not_by_their_hash() {
        let (a, b) = (Key::unchecked("a"), Key::unchecked("b"));
        assert_eq!((a.hash_code(), &a), (Key::unchecked("a").hash_code(), &Key::unchecked("a")));
        assert_ne!(a.hash_code(), b.hash_code());
        assert_ne!(a, Key { hash: a.hash, ..b.clone() });
        let hashing = RandomState::new();
        assert_ne!(hashing.hash_one(&a), hashing.hash_one(&b));
        assert!(a < b && Key::everything() < a);
    }

    #[test]
    fn keys_and_topics_are_shown_as_they_are() {
        let (key, topic) = (Key::unchecked("order 7"), Topic::unchecked("orders.placed"));
        assert_eq!((key.to_string(), topic.to_string()), ("order 7".to_owned(), "orders.placed".to_owned()));
        assert_eq!(format!("{key:?}"), "Key(\"order 7\")");
    }
}
