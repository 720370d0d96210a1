//! From a row of the table to a row of the core, whatever a foreign hand wrote into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{
    Attributes, Closed, Content, DeadReason, DestinationName, Due, Head, Headers, Key, Lane, Lifetime, Message,
    MessageId, RetryOverride, Retrying, Row, RowId, RowState, Timestamp,
};
use uuid::Uuid;

use super::columns::Columns;
use crate::failures::{between, to_be_forwarded};

/// What a row weighs beside its message.
const OVERHEAD: usize = 128;

const ID: usize = 0;
const LANE: usize = 1;
const MESSAGE_ID: usize = 2;
const TOPIC: usize = 3;
const KEY: usize = 4;
const CONTENT_TYPE: usize = 5;
const HEADERS: usize = 6;
const ATTRIBUTES: usize = 7;
const CREATED_AT: usize = 8;
const DELIVER_AT: usize = 9;
const EXPIRES_AT: usize = 10;
const RETRY: usize = 11;
const STATE: usize = 12;
const ATTEMPTS: usize = 13;
const NEXT_ATTEMPT_AT: usize = 14;
const WAITING_FOR: usize = 15;
const PROGRESS: usize = 16;
const DEAD_REASON: usize = 17;
const ERRORS: usize = 18;
const WEIGHT: usize = 19;
const READ_AT: usize = 20;
const SUSPICION: usize = 21;
const HAS_RETRY: usize = 22;
const PAYLOAD: usize = 23;

/// What is read of the content of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Everything.
    Whole,
    /// All but what a payload or a long text needs.
    Head,
}

/// A row, open as far as is known here.
pub(super) fn row(mut columns: Columns, depth: Depth) -> Row {
    let id = RowId(columns.integer(ID).unwrap_or(0));
    let lane = lane(&columns, LANE);
    let now = Timestamp(columns.integer(READ_AT).unwrap_or(0));
    let moment = |place| columns.integer(place).map(Timestamp);
    let (created_at, deliver_at, expires_at) = (moment(CREATED_AT), moment(DELIVER_AT), moment(EXPIRES_AT));
    let next = moment(NEXT_ATTEMPT_AT);
    let state = small(&columns, STATE).and_then(RowState::from_code).unwrap_or(RowState::Pending);
    let attempts = columns.integer(ATTEMPTS).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let weight = columns.integer(WEIGHT).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let reason = small(&columns, DEAD_REASON).and_then(DeadReason::from_code);
    let given_up = to_be_forwarded(state, reason, attempts, columns.text(ERRORS));
    let owed = text(&columns, WAITING_FOR, "waiting_for")
        .and_then(|column| column.map(owed).transpose())
        .and_then(|owed| Ok((owed, progress(&columns)?)));
    let content = match depth {
        Depth::Whole => message(&mut columns).map(|message| Content::Message(Arc::new(message))),
        Depth::Head => head(&columns).map(Content::Head),
    };
    let (content, (waiting_for, progress)) = match (content, owed) {
        (Ok(content), Ok(owed)) => (content, owed),
        (Err(reason), _) | (Ok(_), Err(reason)) => (malformed(&columns, reason), (None, BTreeMap::new())),
    };
    let due = match next.or(deliver_at) {
        Some(at) if at > now => Due::In(between(now, at)),
        Some(_) | None => Due::Now,
    };
    Row {
        id,
        lane,
        content,
        weight: weight + OVERHEAD,
        state,
        due,
        lifetime: Lifetime::at(now, created_at, expires_at),
        retrying: if next.is_some() { Retrying::Yes } else { Retrying::No },
        attempts,
        waiting_for,
        progress,
        closed: Closed::Open,
        given_up,
    }
}

/// A row that the server cannot send as a whole: it is read as a head, and what is wrong is said.
pub(super) fn oversized(columns: Columns, packet: usize) -> Row {
    let reason =
        format!("the row is larger than max_allowed_packet of the server, {packet} bytes; raise it and replay");
    let malformed = malformed(&columns, reason);
    Row { content: malformed, weight: OVERHEAD, ..row(columns, Depth::Head) }
}

pub(super) fn lane(columns: &Columns, place: usize) -> Lane {
    Lane(columns.integer(place).and_then(|n| u16::try_from(n).ok()).unwrap_or(0))
}

pub(super) fn small(columns: &Columns, place: usize) -> Option<i16> {
    columns.integer(place).and_then(|n| i16::try_from(n).ok())
}

/// The id in a column, in whichever form somebody wrote it.
pub(super) fn id(text: Option<&str>) -> Option<MessageId> {
    text.and_then(|text| Uuid::parse_str(text).ok()).map(MessageId)
}

fn malformed(columns: &Columns, reason: String) -> Content {
    let id = id(columns.text(MESSAGE_ID));
    Content::Malformed { id, key: columns.text(KEY).map(Key::unchecked), reason }
}

/// What a row tells of its message where the payload was left behind.
fn head(columns: &Columns) -> Result<Head, String> {
    let suspicion = columns.integer(SUSPICION).and_then(|n| u16::try_from(n).ok()).unwrap_or(0);
    let message = Message::new(text(columns, TOPIC, "topic")?.unwrap_or_default(), Bytes::new());
    Ok(Head {
        id: Some(message_id(columns)?),
        topic: message.topic,
        key: text(columns, KEY, "key")?.map(Key::unchecked),
        suspicion,
        has_retry: columns.is_true(HAS_RETRY),
    })
}

/// The message of a row, or why it is none.
fn message(columns: &mut Columns) -> Result<Message, String> {
    let named = |name: &'static str| move |reason: String| format!("{name}: {reason}");
    let mut message = Message::new(text(columns, TOPIC, "topic")?.unwrap_or_default(), Bytes::new());
    message.id = message_id(columns)?;
    message.key = text(columns, KEY, "key")?.map(Key::unchecked);
    message.content_type = text(columns, CONTENT_TYPE, "content_type")?.map(str::to_owned);
    let headers = text(columns, HEADERS, "headers")?.map(Headers::from_json).transpose().map_err(named("headers"))?;
    message.headers = headers.unwrap_or_default();
    let attributes = text(columns, ATTRIBUTES, "attributes")?.map(Attributes::from_json).transpose();
    message.attributes = attributes.map_err(named("attributes"))?.unwrap_or_default();
    message.created_at = columns.integer(CREATED_AT).map(Timestamp);
    message.deliver_at = columns.integer(DELIVER_AT).map(Timestamp);
    message.expires_at = columns.integer(EXPIRES_AT).map(Timestamp);
    message.retry = text(columns, RETRY, "retry")?.map(RetryOverride::from_json).transpose().map_err(named("retry"))?;
    message.payload = columns.take_bytes(PAYLOAD).map_or_else(Bytes::new, Bytes::from);
    message.validate().map_err(|invalid| invalid.to_string())?;
    Ok(message)
}

fn message_id(columns: &Columns) -> Result<MessageId, String> {
    id(text(columns, MESSAGE_ID, "message_id")?).ok_or_else(|| "message_id: expected a UUID as text".to_owned())
}

fn text<'c>(columns: &'c Columns, place: usize, name: &str) -> Result<Option<&'c str>, String> {
    match columns.bytes(place) {
        None => Ok(None),
        Some(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| format!("{name}: expected text in UTF-8")),
    }
}

/// The destinations still owed. An empty list would owe the row to nobody for ever.
fn owed(text: &str) -> Result<Vec<DestinationName>, String> {
    match names(text) {
        Some(names) if names.is_empty() => Err("waiting_for: names no destination".to_owned()),
        Some(names) => Ok(names),
        None => Err("waiting_for: expected a JSON array of strings".to_owned()),
    }
}

/// The names of a `waiting_for` column.
pub(super) fn names(text: &str) -> Option<Vec<DestinationName>> {
    let names: Vec<String> = serde_json::from_str(text).ok()?;
    Some(names.iter().map(|name| DestinationName::new(name)).collect())
}

fn progress(columns: &Columns) -> Result<BTreeMap<DestinationName, u32>, String> {
    let Some(text) = text(columns, PROGRESS, "progress")? else { return Ok(BTreeMap::new()) };
    let counts: BTreeMap<String, u32> =
        serde_json::from_str(text).map_err(|error| format!("progress: expected an object of counts: {error}"))?;
    Ok(counts.into_iter().map(|(name, count)| (DestinationName::new(&name), count)).collect())
}
