//! The document of an entity, as JSON.
//!
//! Its names are a promise (docs/compatibility.md). A document of a newer format, or with a name that is not known, is an
//! error and nothing is written over it.

use std::time::Duration;

use bytes::Bytes;
use postrider_core::receiving::{Document, Entry, Kinds, Outputs, made_at};
use postrider_core::{Error, ErrorKind, MessageId, Result, Timestamp, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::{Builder, Uuid};

use super::output::Output;
use super::records::{FORMAT, format_of};

/// What ids, states and versions are in a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Json;

impl Kinds for Json {
    type Id = MessageId;
    type State = State;
    type Outputs = Vec<Output>;
    type Version = Version;
    type Token = Uuid;
    type Attempt = Attempt;
}

/// One run of a handler: a UUIDv7, whose time is that of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Attempt(pub Uuid);

impl Attempt {
    pub(super) fn at(now: Timestamp) -> Self {
        Self(stamped(now))
    }

    pub(super) fn made_at(self) -> Timestamp {
        made_at(MessageId(self.0)).unwrap_or(Timestamp(0))
    }
}

/// A UUIDv7 of this moment that nobody used before.
pub(super) fn stamped(now: Timestamp) -> Uuid {
    let (random, milliseconds) = (Uuid::new_v4(), u64::try_from(now.0 / 1_000).unwrap_or_default());
    let mut bytes = [0; 10];
    // The last ten bytes of a random one: its fixed bits are set again.
    bytes.copy_from_slice(&random.as_bytes()[6..]);
    Builder::from_unix_timestamp_millis(milliseconds, &bytes).into_uuid()
}

/// What is kept of an entity between two messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct State {
    /// The state of the handler's.
    pub state: Value,
    /// What is sent at a time of its own.
    pub later: Vec<Output>,
    /// Ids that were forgotten have this time at most.
    pub floor: Option<Timestamp>,
}

impl State {
    /// Whether nobody can tell any more if a message that the document does not name was handled.
    pub(super) fn has_forgotten(&self, id: MessageId) -> bool {
        made_at(id).is_some_and(|made| self.floor.is_some_and(|floor| made <= floor))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    format: u32,
    consumer: String,
    #[serde(default)]
    state: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entries: Vec<WireEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    later: Vec<Output>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    floor: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEntry {
    message: Uuid,
    attempt: Uuid,
    /// None: they are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outputs: Option<Vec<Output>>,
    /// The token of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Uuid>,
    /// The tokens of its outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Vec<Uuid>>,
}

/// How documents of one consumer are read and written.
#[derive(Debug, Clone)]
pub(super) struct Format {
    /// Whose documents they are.
    pub consumer: String,
    /// For how long ids stay in the document.
    pub keep: Duration,
    /// For how long a message is left to the delivery that commits it, before somebody else finishes it.
    pub resume_after: Duration,
}

/// A document as it is written.
pub(super) struct Written {
    pub json: Bytes,
    /// When somebody is to look at it.
    pub due: Option<Timestamp>,
}

impl Format {
    /// Reads a document.
    ///
    /// # Errors
    /// `Config` for one that this program did not write: of a newer format, another consumer's, or changed by hand.
    pub(super) fn read(&self, json: &[u8]) -> Result<Document<Json>> {
        let refused = |text: String| Error::new(ErrorKind::Config, text);
        let unreadable = |error| refused("the document is no entity of a processor".to_owned()).because(error);
        if format_of(json, "the document", unreadable)? != Some(FORMAT) {
            return Err(refused("the document is no entity of a processor: it has no format".to_owned()));
        }
        let wire: Wire = serde_json::from_slice(json).map_err(unreadable)?;
        if wire.consumer != self.consumer {
            let text = format!(
                "the document belongs to the consumer {:?}, and this one is {:?}: give each its own collection",
                wire.consumer, self.consumer
            );
            return Err(refused(text));
        }
        let entry = |entry: WireEntry| Entry {
            id: MessageId(entry.message),
            attempt: Attempt(entry.attempt),
            token: entry.token,
            outputs: entry.outputs.map_or(Outputs::Sent, Outputs::ToSend),
            tokens: entry.tokens,
        };
        let state = State { state: wire.state, later: wire.later, floor: wire.floor.map(Timestamp) };
        Ok(Document { state: Some(state), entries: wire.entries.into_iter().map(entry).collect() })
    }

    /// How many ids of it are forgotten when it is written now.
    pub(super) fn forgets(&self, document: &Document<Json>, now: Timestamp) -> usize {
        document.entries.iter().filter(|entry| self.is_remembered_until(entry).is_some_and(|end| end <= now)).count()
    }

    /// When the id of a message is forgotten that is done; none for one that is not.
    fn is_remembered_until(&self, entry: &Entry<Json>) -> Option<Timestamp> {
        // An id of a time that has not come is kept until it has, so that the floor never rises above the present.
        let seen = made_at(entry.id).unwrap_or(Timestamp(0)).max(entry.attempt.made_at());
        let keep = i64::try_from(self.keep.as_micros()).unwrap_or(i64::MAX).saturating_add(1);
        (entry.outputs == Outputs::Sent).then(|| Timestamp(seen.0.saturating_add(keep)))
    }

    /// Writes a document, without the ids that are forgotten by now.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub(super) fn write(&self, document: &Document<Json>, now: Timestamp) -> Result<Written> {
        let state = document.state.clone().unwrap_or_default();
        let (mut floor, mut entries) = (state.floor, Vec::with_capacity(document.entries.len()));
        let mut remembers_until = None;
        for entry in &document.entries {
            let end = self.is_remembered_until(entry);
            if end.is_some_and(|end| end <= now) {
                floor = floor.max(made_at(entry.id));
                continue;
            }
            remembers_until = remembers_until.max(end);
            let outputs = match &entry.outputs {
                Outputs::ToSend(outputs) => Some(outputs.clone()),
                Outputs::Staged | Outputs::Sent => None,
            };
            entries.push(WireEntry {
                message: entry.id.0,
                attempt: entry.attempt.0,
                outputs,
                token: entry.token,
                tokens: entry.tokens.clone(),
            });
        }
        let pause = i64::try_from(self.resume_after.as_micros()).unwrap_or(i64::MAX);
        let unfinished = document.unfinished().map(|_| Timestamp(now.0.saturating_add(pause)));
        let later = state.later.iter().filter_map(Output::deliver_at).min();
        // While messages come, each write forgets. Where none comes any more, one look at the end forgets all of them.
        let due = unfinished.into_iter().chain(later).chain(remembers_until).min();
        let wire = Wire {
            format: FORMAT,
            consumer: self.consumer.clone(),
            state: state.state,
            entries,
            later: state.later,
            floor: floor.map(|floor| floor.0),
        };
        let json = serde_json::to_vec(&wire)
            .map_err(|error| Error::new(ErrorKind::Rejected, "the entity cannot be written as JSON").because(error))?;
        Ok(Written { json: json.into(), due })
    }
}
