//! A row, as it stands in the journal.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postrider_core::{
    Attempt, Attributes, DeadReason, DestinationName, FailedAttempt, Headers, Key, Message, MessageId, RelayId,
    RetryOverride, RowState, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// Failed attempts that are kept of a row.
const KEPT: usize = 10;
/// Characters of a failure that are kept.
const LONGEST: usize = 1_000;

/// What a writer puts into a row. A foreign hand may write nonsense into any of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// The message id, a UUID.
    pub message_id: String,
    /// The topic.
    pub topic: String,
    /// The key.
    pub key: Option<String>,
    /// The payload, in base64.
    pub payload: String,
    /// The media type.
    pub content_type: Option<String>,
    /// The headers, a JSON object.
    pub headers: Option<String>,
    /// The attributes, a JSON object.
    pub attributes: Option<String>,
    /// Not before, in microseconds since 1970 UTC.
    pub deliver_at: Option<i64>,
    /// Not after.
    pub expires_at: Option<i64>,
    /// What changes in the retry policy, a JSON object.
    pub retry: Option<String>,
}

impl Columns {
    /// The columns of a message.
    pub fn of(message: &Message) -> Self {
        Self {
            message_id: message.id.to_string(),
            topic: message.topic.as_str().to_owned(),
            key: message.key.as_ref().map(ToString::to_string),
            payload: STANDARD.encode(&message.payload),
            content_type: message.content_type.clone(),
            headers: message.headers.to_json(),
            attributes: message.attributes.to_json(),
            deliver_at: message.deliver_at.map(|at| at.0),
            expires_at: message.expires_at.map(|at| at.0),
            retry: message.retry.as_ref().map(RetryOverride::to_json),
        }
    }

    /// The key, as it stands there.
    pub fn key(&self) -> Option<Key> {
        self.key.as_deref().map(Key::unchecked)
    }

    /// The id, where it is one.
    pub fn id(&self) -> Option<MessageId> {
        Uuid::parse_str(&self.message_id).ok().map(MessageId)
    }

    /// The message, or the first thing that keeps it from being one; what cannot be read is empty.
    pub fn message(&self, created_at: i64) -> (Message, Option<String>) {
        let mut problem = None;
        let mut read = |name: &str, found: Result<(), String>| {
            if let Err(reason) = found {
                problem.get_or_insert(format!("{name}: {reason}"));
            }
        };
        let mut message = Message::new(self.topic.clone(), STANDARD.decode(&self.payload).unwrap_or_default());
        message.id = self.id().unwrap_or(MessageId(Uuid::nil()));
        read("message_id", self.id().map(drop).ok_or_else(|| "expected a UUID".to_owned()));
        read("payload", STANDARD.decode(&self.payload).map(drop).map_err(|_| "expected base64".to_owned()));
        message.key = self.key();
        message.content_type.clone_from(&self.content_type);
        read(
            "headers",
            parsed(&self.headers, Headers::from_json).map(|headers| message.headers = headers.unwrap_or_default()),
        );
        let attributes = parsed(&self.attributes, Attributes::from_json);
        read("attributes", attributes.map(|attributes| message.attributes = attributes.unwrap_or_default()));
        read("retry", parsed(&self.retry, RetryOverride::from_json).map(|retry| message.retry = retry));
        message.created_at = Some(Timestamp(created_at));
        message.deliver_at = self.deliver_at.map(Timestamp);
        message.expires_at = self.expires_at.map(Timestamp);
        let problem = problem.or_else(|| message.validate().err().map(|invalid| invalid.to_string()));
        (message, problem)
    }
}

fn parsed<T>(text: &Option<String>, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    text.as_deref().map(read).transpose()
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub columns: Columns,
    pub lane: u16,
    pub created_at: i64,
    pub state: i16,
    pub attempts: u32,
    pub last_attempt_at: Option<i64>,
    pub next_attempt_at: Option<i64>,
    pub waiting_for: Option<Vec<String>>,
    pub progress: BTreeMap<String, u32>,
    pub errors: Vec<Value>,
    pub suspicion: u16,
    pub dead_at: Option<i64>,
    pub dead_reason: Option<i16>,
}

/// A row of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivered {
    pub columns: Columns,
    pub created_at: i64,
    pub attempts: u32,
    pub settled_at: i64,
}

impl Record {
    /// A row that was just written.
    pub fn new(columns: Columns, lane: u16, now: i64) -> Self {
        Self {
            columns,
            lane,
            created_at: now,
            state: RowState::Pending.code(),
            attempts: 0,
            last_attempt_at: None,
            next_attempt_at: None,
            waiting_for: None,
            progress: BTreeMap::new(),
            errors: Vec::new(),
            suspicion: 0,
            dead_at: None,
            dead_reason: None,
        }
    }

    pub fn state(&self) -> RowState {
        RowState::from_code(self.state).unwrap_or(RowState::Pending)
    }

    /// Whether it is to be delivered.
    pub fn is_live(&self) -> bool {
        matches!(self.state(), RowState::Pending | RowState::SetAside)
    }

    /// Whether it is a dead letter.
    pub fn is_dead(&self) -> bool {
        !self.is_live()
    }

    /// Whether it is among the exceptions of its key.
    pub fn is_exceptional(&self) -> bool {
        matches!(self.state(), RowState::SetAside | RowState::Holding) || self.next_attempt_at.is_some()
    }

    /// Whether reading finds it: pending, without a scheduled attempt.
    pub fn is_ordinary(&self) -> bool {
        self.state() == RowState::Pending && self.next_attempt_at.is_none()
    }

    /// When the due query finds it, if it does.
    pub fn due_at(&self) -> Option<i64> {
        (self.state() == RowState::Pending).then_some(self.next_attempt_at.or(self.columns.deliver_at)).flatten()
    }

    pub fn reason(&self) -> Option<DeadReason> {
        self.dead_reason.and_then(DeadReason::from_code)
    }

    pub fn owed(&self) -> Option<Vec<DestinationName>> {
        Some(self.waiting_for.as_ref()?.iter().map(|name| DestinationName::new(name)).collect())
    }

    /// Records failures, each once, and keeps the last ten.
    pub fn failed(&mut self, now: i64, relay: RelayId, attempt: Attempt, failures: &[FailedAttempt]) {
        for failure in failures {
            let text: String = failure.text.chars().take(LONGEST).collect();
            let entry = json!({
                "relay": relay.to_string(), "attempt": attempt.0, "destination": failure.destination.as_str(),
                "kind": failure.kind.as_str(), "text": text, "moment": failure.moment,
            });
            let is_same = |known: &Value| {
                ["relay", "attempt", "destination", "moment"].iter().all(|name| known[*name] == entry[*name])
            };
            if !self.errors.iter().any(is_same) {
                let mut entry = entry;
                entry["at_microseconds"] = now.into();
                self.errors.push(entry);
            }
        }
        let surplus = self.errors.len().saturating_sub(KEPT);
        self.errors.drain(..surplus);
    }

    /// The last failure for people; an empty destination stands for none.
    pub fn last_error(&self) -> Option<(String, String)> {
        let last = self.errors.last()?;
        let field = |name: &str| last[name].as_str().unwrap_or_default().to_owned();
        Some((field("destination"), field("text")))
    }
}
