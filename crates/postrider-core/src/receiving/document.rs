//! The document of an entity: its state, and what its messages still have to send.

use std::fmt::Debug;
use std::hash::Hash;

/// What ids, states, outputs, versions and tokens are: bytes and UUIDs in a service, small numbers in a model.
///
/// A family of types and nothing else; the type that implements it has no values that matter.
pub trait Kinds: Debug + Clone + Copy + PartialEq + Eq + Hash {
    /// Which message this is, for which receiver: never a bare message id where several receivers share a store.
    type Id: Debug + Clone + PartialEq + Eq + Hash;
    /// The state of the entity.
    type State: Debug + Clone + PartialEq + Eq + Hash;
    /// What a handler wants sent, as it is kept and as it is published: the same bytes at every attempt.
    type Outputs: Debug + Clone + PartialEq + Eq + Hash;
    /// What the store calls a version of the document. Every write gives a new one, also a write of the same content:
    /// with versions that come back (an S3 ETag is a hash) a late writer would succeed over a state it never saw.
    type Version: Debug + Clone + PartialEq + Eq + Hash;
    /// The right to process one message.
    type Token: Debug + Clone + PartialEq + Eq + Hash;
    /// One run of a handler, to tell whose outputs these are.
    type Attempt: Debug + Clone + PartialEq + Eq + Hash;
}

/// An entity as it is stored: its state, and an entry for every message that is not finished.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Document<K: Kinds> {
    /// The state, none before the first message.
    pub state: Option<K::State>,
    /// What was committed and is not cleaned up, in the order of the commits.
    pub entries: Vec<Entry<K>>,
}

impl<K: Kinds> Document<K> {
    /// The document of an entity that nothing is known of.
    pub const fn new() -> Self {
        Self { state: None, entries: Vec::new() }
    }

    /// The entry of a message.
    pub fn entry(&self, id: &K::Id) -> Option<&Entry<K>> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// The first message in the order of the commits whose outputs are not known to be sent.
    pub fn unfinished(&self) -> Option<&Entry<K>> {
        self.entries.iter().find(|entry| entry.outputs != Outputs::Sent)
    }

    /// Whether a message that is not finished still needs this.
    pub fn names(&self, leftover: &Leftover<K>) -> bool {
        self.entries.iter().any(|entry| match leftover {
            Leftover::Token(token) => entry.tokens.iter().flatten().any(|named| named == token),
            Leftover::Staged(attempt) => entry.attempt == *attempt,
        })
    }

    /// The same document with this entry, in the place of the one of its message if there is one.
    #[must_use]
    pub fn with(mut self, entry: Entry<K>) -> Self {
        match self.entries.iter_mut().find(|known| known.id == entry.id) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
        self
    }

    /// The same document without the entry of this message.
    #[must_use]
    pub fn without(mut self, id: &K::Id) -> Self {
        self.entries.retain(|entry| entry.id != *id);
        self
    }
}

impl<K: Kinds> Default for Document<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// What is known of one message that changed the document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry<K: Kinds> {
    /// Which message.
    pub id: K::Id,
    /// The run of the handler whose state and outputs were committed.
    pub attempt: K::Attempt,
    /// The token that the message came with, where tokens are used: consumed when the outputs are sent.
    pub token: Option<K::Token>,
    /// What there is to send.
    pub outputs: Outputs<K>,
    /// The tokens of the outputs, once they are made.
    pub tokens: Option<Vec<K::Token>>,
}

/// What an attempt made beside the document before it committed, and left behind if it did not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Leftover<K: Kinds> {
    /// A token of an output, not valid yet.
    Token(K::Token),
    /// The outputs.
    Staged(K::Attempt),
}

/// What there is to send.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outputs<K: Kinds> {
    /// These, as far as anybody knows.
    ToSend(K::Outputs),
    /// What was stored beside the document, under the attempt, before the commit. Where nothing is stored any more, it
    /// was sent.
    Staged,
    /// Nothing any more; the entry stays as the record that the message was handled.
    Sent,
}
