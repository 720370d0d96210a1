//! Reading a row, whatever a foreign hand wrote into it.
//!
//! SQLite stores any type in any column. What cannot be read makes the row malformed, never the page an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{
    Attributes, Closed, Content, DeadReason, DestinationName, Due, Head, Headers, Key, Lane, LaneCount, Lifetime,
    MAX_PAYLOAD, Message, MessageId, RetryOverride, Retrying, Row, RowId, RowState, RowView, Timestamp, lane_of,
};
use rusqlite::types::ValueRef;
use uuid::Uuid;

use super::link::Done;
use crate::failures::{between, to_be_forwarded};

/// Bytes that no valid message weighs; the text columns have limits of their own far below 4 MiB together.
pub(super) const HEAVIEST: usize = MAX_PAYLOAD + (4 << 20);

/// The columns of [`decode`] and the table they come from.
///
/// `{cut}` columns are not loaded where the row is heavier than any message.
macro_rules! columns {
    ($rest:literal) => {
        concat!(
            r#"select id, message_id, topic, key, payload, content_type, headers, attributes, created_at, deliver_at,
  expires_at, retry, state, attempts, last_attempt_at, next_attempt_at, waiting_for, progress, errors, dead_at,
  dead_reason from "{p}outbox" "#,
            $rest
        )
    };
}
pub(super) use columns;

/// The columns of [`decode_head`], in the places that [`decode`] knows, without what a payload or a long text needs; of a row
/// that is to be forwarded with why it was given up.
macro_rules! columns_of_head {
    ($rest:literal) => {
        concat!(
            r#"select id, message_id, topic, key, x'', null, null, null, created_at, deliver_at, expires_at, null, state,
  attempts, last_attempt_at, next_attempt_at, waiting_for, progress,
  case when dead_reason is not null then errors end, null, dead_reason, suspicion, retry is not null from "{p}outbox" "#,
            $rest
        )
    };
}
pub(super) use columns_of_head;

/// A row as far as it could be read, and the first thing in it that could not.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) id: RowId,
    pub(super) message: Message,
    message_id: Option<MessageId>,
    state: Option<RowState>,
    attempts: u32,
    last_attempt_at: Option<Timestamp>,
    next_attempt_at: Option<Timestamp>,
    scheduled: bool,
    waiting_for: Option<Vec<DestinationName>>,
    progress: BTreeMap<DestinationName, u32>,
    errors: Option<String>,
    dead_at: Option<Timestamp>,
    dead_reason: Option<DeadReason>,
    problem: Option<String>,
    /// Where only the head was read: what the table says of it.
    suspicion: Option<u16>,
    /// Where only the head was read: whether the message changes its retry policy.
    has_retry: bool,
}

/// Reads the columns of [`columns!`].
pub(super) fn decode(row: &rusqlite::Row<'_>) -> Done<Decoded> {
    let id: i64 = row.get(0)?;
    let mut columns = Columns { row, problem: None };
    let message_id = columns.parsed(1, "message_id", |text| {
        Uuid::parse_str(text).map(MessageId).map_err(|_| "expected a UUID as text".to_owned())
    })?;
    if message_id.is_none() {
        columns.complain("message_id", "expected a UUID as text");
    }
    let topic = columns.text(2, "topic")?.unwrap_or_default();
    let key = columns.text(3, "key")?.map(Key::unchecked);
    let payload = columns.payload(4)?;
    let mut message = Message::new(topic, payload);
    message.id = message_id.unwrap_or(MessageId(Uuid::nil()));
    message.key = key;
    message.content_type = columns.text(5, "content_type")?;
    message.headers = columns.parsed(6, "headers", Headers::from_json)?.unwrap_or_default();
    message.attributes = columns.parsed(7, "attributes", Attributes::from_json)?.unwrap_or_default();
    message.created_at = columns.moment(8, "created_at")?;
    message.deliver_at = columns.moment(9, "deliver_at")?;
    message.expires_at = columns.moment(10, "expires_at")?;
    message.retry = columns.parsed(11, "retry", RetryOverride::from_json)?;
    let state = columns.integer(12, "state")?.and_then(|n| i16::try_from(n).ok()).and_then(RowState::from_code);
    let attempts = columns.integer(13, "attempts")?.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let next_attempt_at = columns.moment(15, "next_attempt_at")?;
    let scheduled = !matches!(row.get_ref(15)?, ValueRef::Null);
    let waiting_for = columns.parsed(16, "waiting_for", owed)?;
    let progress = columns.parsed(17, "progress", counts)?.unwrap_or_default();
    let problem = columns.problem.take().or_else(|| message.validate().err().map(|invalid| invalid.to_string()));
    // What follows is only shown to people: nonsense there costs no message.
    Ok(Decoded {
        id: RowId(id),
        message,
        message_id,
        state,
        attempts,
        last_attempt_at: columns.moment(14, "last_attempt_at")?,
        next_attempt_at,
        scheduled,
        waiting_for,
        progress,
        errors: columns.text(18, "errors")?,
        dead_at: columns.moment(19, "dead_at")?,
        dead_reason: columns
            .integer(20, "dead_reason")?
            .and_then(|n| i16::try_from(n).ok())
            .and_then(DeadReason::from_code),
        problem,
        suspicion: None,
        has_retry: false,
    })
}

/// Reads the columns of [`columns_of_head!`].
pub(super) fn decode_head(row: &rusqlite::Row<'_>) -> Done<Decoded> {
    let suspicion = match row.get_ref(21)? {
        ValueRef::Integer(suspicion) => u16::try_from(suspicion).unwrap_or(0),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => 0,
    };
    Ok(Decoded { suspicion: Some(suspicion), has_retry: row.get(22)?, ..decode(row)? })
}

impl Decoded {
    /// The lane of the row.
    pub(super) fn lane(&self, lanes: LaneCount) -> Lane {
        let id = self.message_id.map(|id| id.to_string());
        lane(self.message.key.as_ref().map(Key::as_str), id.as_deref(), self.id, lanes)
    }

    /// The row as a source gives it, open.
    pub(super) fn into_row(self, lanes: LaneCount, weight: usize, now: Timestamp) -> Row {
        let lane = self.lane(lanes);
        let due = match self.next_attempt_at.or(self.message.deliver_at) {
            Some(at) if at > now => Due::In(between(now, at)),
            Some(_) | None => Due::Now,
        };
        let lifetime = Lifetime::at(now, self.message.created_at, self.message.expires_at);
        let state = self.state.unwrap_or(RowState::Pending);
        let given_up = to_be_forwarded(state, self.dead_reason, self.attempts, self.errors.as_deref());
        let content = match (self.problem, self.suspicion) {
            (None, None) => Content::Message(Arc::new(self.message)),
            (None, Some(suspicion)) => Content::Head(Head {
                id: self.message_id,
                topic: self.message.topic,
                key: self.message.key,
                suspicion,
                has_retry: self.has_retry,
            }),
            (Some(reason), _) => Content::Malformed { id: self.message_id, key: self.message.key, reason },
        };
        Row {
            id: self.id,
            lane,
            content,
            weight,
            state,
            due,
            lifetime,
            retrying: if self.scheduled { Retrying::Yes } else { Retrying::No },
            attempts: self.attempts,
            waiting_for: self.waiting_for,
            progress: self.progress,
            closed: Closed::Open,
            given_up,
        }
    }

    /// The row as people look at it.
    pub(super) fn into_view(self, lanes: LaneCount) -> RowView {
        RowView {
            row: self.id,
            lane: self.lane(lanes),
            state: self.state,
            message: self.message,
            attempts: self.attempts,
            last_attempt_at: self.last_attempt_at,
            next_attempt_at: self.next_attempt_at,
            waiting_for: self.waiting_for.map(|names| names.iter().map(ToString::to_string).collect()),
            errors: self.errors,
            dead_at: self.dead_at,
            dead_reason: self.dead_reason,
        }
    }

    /// Whether the row is a message to be delivered that could stand behind another.
    pub(super) fn live(&self) -> bool {
        matches!(self.state, Some(RowState::Pending | RowState::SetAside))
    }
}

/// A row too heavy to be a message: only its name is read.
pub(super) fn oversized(id: RowId, lane: Lane, key: Option<Key>, message_id: Option<MessageId>, weight: usize) -> Row {
    let reason = format!("the row weighs {weight} bytes; no message weighs more than {HEAVIEST}");
    Row {
        id,
        lane,
        content: Content::Malformed { id: message_id, key, reason },
        weight: 0,
        state: RowState::Pending,
        due: Due::Now,
        lifetime: Lifetime::default(),
        retrying: Retrying::No,
        attempts: 0,
        waiting_for: None,
        progress: BTreeMap::new(),
        closed: Closed::Open,
        given_up: None,
    }
}

/// The lane of a row: by its key, else by its message id, else, where neither can be read, by its number.
pub(super) fn lane(key: Option<&str>, message_id: Option<&str>, id: RowId, lanes: LaneCount) -> Lane {
    match key.or(message_id) {
        Some(text) => lane_of(text, lanes),
        None => lane_of(&id.0.to_string(), lanes),
    }
}

/// The names of a `waiting_for` column.
pub(super) fn names(text: &str) -> Result<Vec<DestinationName>, String> {
    let names: Vec<String> =
        serde_json::from_str(text).map_err(|error| format!("expected a JSON array of strings: {error}"))?;
    Ok(names.iter().map(|name| DestinationName::new(name)).collect())
}

/// The `waiting_for` of the row itself. An empty one would owe it to nobody for ever.
fn owed(text: &str) -> Result<Vec<DestinationName>, String> {
    let names = names(text)?;
    if names.is_empty() { Err("it names no destination".to_owned()) } else { Ok(names) }
}

fn counts(text: &str) -> Result<BTreeMap<DestinationName, u32>, String> {
    let counts: BTreeMap<String, u32> =
        serde_json::from_str(text).map_err(|error| format!("expected a JSON object of numbers: {error}"))?;
    Ok(counts.into_iter().map(|(name, n)| (DestinationName::new(&name), n)).collect())
}

/// A row whose columns are read one by one; the first that cannot be is remembered.
struct Columns<'r, 's> {
    row: &'r rusqlite::Row<'s>,
    problem: Option<String>,
}

impl Columns<'_, '_> {
    fn complain(&mut self, column: &str, expected: &str) {
        self.problem.get_or_insert_with(|| format!("{column}: {expected}"));
    }

    fn text(&mut self, index: usize, column: &str) -> Done<Option<String>> {
        let value = self.row.get_ref(index)?;
        let text = match value {
            ValueRef::Null => return Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
            ValueRef::Blob(_) | ValueRef::Integer(_) | ValueRef::Real(_) => None,
        };
        if text.is_none() {
            self.complain(column, "expected text in UTF-8");
        }
        Ok(text)
    }

    fn parsed<T>(
        &mut self,
        index: usize,
        column: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Done<Option<T>> {
        let Some(text) = self.text(index, column)? else { return Ok(None) };
        match parse(&text) {
            Ok(value) => Ok(Some(value)),
            Err(why) => {
                self.complain(column, &why);
                Ok(None)
            }
        }
    }

    fn integer(&mut self, index: usize, column: &str) -> Done<Option<i64>> {
        match self.row.get_ref(index)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(n) => Ok(Some(n)),
            ValueRef::Text(_) | ValueRef::Blob(_) | ValueRef::Real(_) => {
                self.complain(column, "expected an integer");
                Ok(None)
            }
        }
    }

    fn moment(&mut self, index: usize, column: &str) -> Done<Option<Timestamp>> {
        Ok(self.integer(index, column)?.map(Timestamp))
    }

    /// A payload may be a blob or text: applications write JSON as text.
    fn payload(&mut self, index: usize) -> Done<Bytes> {
        match self.row.get_ref(index)? {
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Bytes::copy_from_slice(bytes)),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {
                self.complain("payload", "expected a blob or text");
                Ok(Bytes::new())
            }
        }
    }
}
