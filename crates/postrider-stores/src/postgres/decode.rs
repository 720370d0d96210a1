//! From a row of the table to a row of the core, whatever a foreign hand wrote into it.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider_core::{
    Attributes, Closed, Content, DeadReason, DestinationName, Due, Error, ErrorKind, Head, Headers, Key, Lane,
    Lifetime, Message, MessageId, Result, RetryOverride, Retrying, Row, RowId, RowState, Timestamp, Topic,
};
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use super::snapshot::Snapshot;
use crate::failures::to_be_forwarded;

/// Seconds from 1970 to 2000, where PostgreSQL's time begins, in microseconds.
const EPOCH: i64 = 946_684_800_000_000;
/// What a row weighs beside its message.
const OVERHEAD: usize = 128;

/// A column of a page, by its place and its name: looked for by name in every row, it would cost more than it holds.
#[derive(Debug, Clone, Copy)]
struct Column(usize, &'static str);

const ID: Column = Column(0, "id");
const LANE: Column = Column(1, "lane");
const MESSAGE_ID: Column = Column(2, "message_id");
const TOPIC: Column = Column(3, "topic");
const KEY: Column = Column(4, "key");
const CREATED_AT: Column = Column(5, "created_at");
const DELIVER_AT: Column = Column(6, "deliver_at");
const EXPIRES_AT: Column = Column(7, "expires_at");
const ATTEMPTS: Column = Column(8, "attempts");
const WAITING_FOR: Column = Column(9, "waiting_for");
const PROGRESS: Column = Column(10, "progress");
const DEAD_REASON: Column = Column(11, "dead_reason");
const ERRORS: Column = Column(12, "errors");
const READ_AT: Column = Column(13, "read_at");
const PAYLOAD: Column = Column(14, "payload");
const CONTENT_TYPE: Column = Column(15, "content_type");
const HEADERS: Column = Column(16, "headers");
const ATTRIBUTES: Column = Column(17, "attributes");
const RETRY: Column = Column(18, "retry");
const CLOSED: Column = Column(19, "closed");
// In an exact page only: the rows of a light one are pending and due, and come whole.
const STATE: Column = Column(20, "state");
const NEXT_ATTEMPT_AT: Column = Column(21, "next_attempt_at");
const SUSPICION: Column = Column(22, "suspicion");
const FETCHED: Column = Column(23, "fetched");
const HAS_RETRY: Column = Column(24, "has_retry");
const HEAD: Column = Column(25, "head");
// Behind the rows of a glance.
const SNAPSHOT: Column = Column(26, "snapshot");
// Of rows of which only that is asked.
const CLOSED_OF_ID: Column = Column(1, "closed");

/// A `timestamptz` with its infinities, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) i64);

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(if micros == i64::MIN { micros } else { micros.saturating_add(EPOCH) }))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

impl From<Moment> for Timestamp {
    fn from(moment: Moment) -> Self {
        Self(moment.0)
    }
}

/// How many rows the inner statement of a page found.
pub(super) fn fetched(rows: &[tokio_postgres::Row]) -> Result<usize> {
    let Some(row) = rows.first() else { return Ok(0) };
    let fetched: i64 = of_page(row, FETCHED)?;
    Ok(usize::try_from(fetched).unwrap_or(0))
}

/// A light page and the present, as they come in one statement.
#[derive(Debug, Default)]
pub(super) struct Glance {
    page: LightPage,
    now: Option<Result<Snapshot>>,
}

impl Glance {
    pub(super) fn add(&mut self, found: &tokio_postgres::Row) {
        self.now.get_or_insert_with(|| Snapshot::parse(of_page(found, SNAPSHOT)?));
        // What stands alone is the present.
        if !matches!(of_page::<Option<i64>>(found, ID), Ok(None)) {
            self.page.add(found);
        }
    }

    /// The present, the rows, and how many there were with the heavy one and those behind it.
    ///
    /// # Errors
    /// As [`rows`].
    pub(super) fn end(self) -> Result<(Snapshot, Vec<Row>, usize)> {
        let none = || Error::new(ErrorKind::Config, "the present snapshot is missing; run `postrider check`");
        let now = self.now.unwrap_or_else(|| Err(none()))?;
        let (rows, found) = self.page.end()?;
        Ok((now, rows, found))
    }
}

/// The rows of a light page as they come: those before the first whose payload was too heavy to come.
#[derive(Debug, Default)]
pub(super) struct LightPage {
    rows: Vec<Row>,
    /// How many came.
    found: usize,
    topics: Topics,
    failed: Option<Error>,
    ended: bool,
}

impl LightPage {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self { rows: Vec::with_capacity(rows), ..Self::default() }
    }

    pub(super) fn add(&mut self, found: &tokio_postgres::Row) {
        self.found += 1;
        if self.ended {
            return;
        }
        let came = of_page::<Option<&[u8]>>(found, PAYLOAD).map(|payload| payload.is_some());
        match came.and_then(|came| came.then(|| row(found, &mut self.topics)).transpose()) {
            Ok(Some(row)) => self.rows.push(row),
            Ok(None) => self.ended = true,
            Err(error) => {
                self.ended = true;
                self.failed = Some(error);
            }
        }
    }

    /// The rows, and how many the page had with the heavy one and those behind it.
    ///
    /// # Errors
    /// As [`rows`].
    pub(super) fn end(self) -> Result<(Vec<Row>, usize)> {
        self.failed.map_or(Ok((self.rows, self.found)), Err)
    }
}

/// A column that has the type it was made with.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, column: &str) -> Result<T> {
    row.try_get(column).map_err(|error| another_type(column, error))
}

fn of_page<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, Column(place, name): Column) -> Result<T> {
    row.try_get(place).map_err(|error| another_type(name, error))
}

/// A column that only an exact page has.
fn of_exact_page<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, column: Column) -> Result<Option<T>> {
    if column.0 < row.len() { of_page::<Option<T>>(row, column) } else { Ok(None) }
}

fn another_type(column: &str, error: tokio_postgres::Error) -> Error {
    let what = format!("the column {column} of the outbox tables has another type; run `postrider check`");
    Error::new(ErrorKind::Config, what).because(error)
}

/// The rows of a page.
///
/// # Errors
/// `Config`, when the table itself is not the one that was created; never because of what stands in a row.
pub(super) fn rows(found: &[tokio_postgres::Row]) -> Result<Vec<Row>> {
    let mut topics = Topics::default();
    found.iter().map(|found| row(found, &mut topics)).collect()
}

/// The topic of the row before: most rows share theirs.
#[derive(Debug, Default)]
struct Topics(Option<Topic>);

impl Topics {
    fn of(&mut self, text: &str) -> Topic {
        match &self.0 {
            Some(topic) if topic.as_str() == text => topic.clone(),
            _ => self.0.insert(Topic::unchecked(text)).clone(),
        }
    }
}

fn row(row: &tokio_postgres::Row, topics: &mut Topics) -> Result<Row> {
    let head: Option<i32> = of_exact_page(row, HEAD)?;
    let id: i64 = of_page(row, ID)?;
    let lane: i16 = of_page(row, LANE)?;
    let state: Option<i16> = of_exact_page(row, STATE)?;
    let attempts = of_page::<Option<i32>>(row, ATTEMPTS)?.unwrap_or(0);
    let read_at: Moment = of_page(row, READ_AT)?;
    let deliver_at: Option<Moment> = of_page(row, DELIVER_AT)?;
    let created_at: Option<Moment> = of_page(row, CREATED_AT)?;
    let expires_at: Option<Moment> = of_page(row, EXPIRES_AT)?;
    let next: Option<Moment> = of_exact_page(row, NEXT_ATTEMPT_AT)?;
    let content = match head {
        None => message(row, topics).map(|message| {
            let weight = message.weight();
            (Content::Message(Arc::new(message)), weight)
        }),
        Some(payload) => head_of(row, topics).map(|head| {
            let texts = head.topic.as_str().len() + head.key.as_ref().map_or(0, |key| key.as_str().len());
            (Content::Head(head), usize::try_from(payload).unwrap_or(0) + texts)
        }),
    };
    let owed = destinations(row).and_then(|owed| Ok((owed, progress(row)?)));
    let ((content, weight), (waiting_for, progress)) = match (content, owed) {
        (Ok(content), Ok(owed)) => (content, owed),
        (Err(reason), _) | (Ok(_), Err(reason)) => {
            let payload: Option<&[u8]> = of_page(row, PAYLOAD)?;
            ((malformed(row, reason), payload.map_or(0, <[u8]>::len)), (None, BTreeMap::new()))
        }
    };
    let attempts = u32::try_from(attempts).unwrap_or(0);
    let state = state.and_then(RowState::from_code).unwrap_or(RowState::Pending);
    let reason = of_page::<Option<i16>>(row, DEAD_REASON)?.and_then(DeadReason::from_code);
    Ok(Row {
        id: RowId(id),
        lane: Lane(u16::try_from(lane).unwrap_or(0)),
        content,
        weight: weight + OVERHEAD,
        state,
        due: due(next.or(deliver_at), read_at),
        lifetime: Lifetime::at(read_at.into(), created_at.map(Timestamp::from), expires_at.map(Timestamp::from)),
        retrying: if next.is_some() { Retrying::Yes } else { Retrying::No },
        attempts,
        waiting_for,
        progress,
        closed: closed(row, CLOSED),
        given_up: to_be_forwarded(state, reason, attempts, of_page(row, ERRORS)?),
    })
}

/// What stands before a row of which only that was asked.
///
/// # Errors
/// As [`rows`].
pub(super) fn closed_of(found: &tokio_postgres::Row) -> Result<(RowId, Closed)> {
    Ok((RowId(of_page(found, ID)?), closed(found, CLOSED_OF_ID)))
}

fn due(at: Option<Moment>, now: Moment) -> Due {
    match at {
        Some(at) if at > now => {
            Due::In(Duration::from_micros(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(u64::MAX)))
        }
        Some(_) | None => Due::Now,
    }
}

/// What stands before the row; what cannot be read stands for every destination. The empty name says that more rows stand
/// there than were looked at.
fn closed(row: &tokio_postgres::Row, Column(place, _): Column) -> Closed {
    let owed = match row.try_get::<_, Option<Vec<Option<String>>>>(place) {
        Ok(None) => return Closed::Open,
        Ok(Some(owed)) => owed.into_iter().collect::<Option<Vec<String>>>(),
        Err(_) => None,
    };
    let Some(owed) = owed else { return Closed::ForAll };
    let named = owed.iter().filter(|name| !name.is_empty());
    let names: Vec<_> = named.map(|name| DestinationName::new(name)).collect();
    if names.len() == owed.len() { Closed::For(names) } else { Closed::ForMany(names) }
}

fn malformed(row: &tokio_postgres::Row, reason: String) -> Content {
    let id = row.try_get::<_, Uuid>(MESSAGE_ID.0).ok().map(MessageId);
    let key = row.try_get::<_, Option<String>>(KEY.0).ok().flatten().map(Key::unchecked);
    Content::Malformed { id, key, reason }
}

/// What a row tells of its message where the payload was left behind.
fn head_of(row: &tokio_postgres::Row, topics: &mut Topics) -> Result<Head, String> {
    Ok(Head {
        id: Some(MessageId(read(row, MESSAGE_ID)?)),
        topic: topics.of(read(row, TOPIC)?),
        key: read::<Option<&str>>(row, KEY)?.map(Key::unchecked),
        suspicion: u16::try_from(read::<i16>(row, SUSPICION)?).unwrap_or(0),
        has_retry: read(row, HAS_RETRY)?,
    })
}

/// The message of a row that has its columns, or why it is none.
fn message(row: &tokio_postgres::Row, topics: &mut Topics) -> Result<Message, String> {
    let message = unchecked_message(row, topics)?;
    message.validate().map_err(|invalid| invalid.to_string())?;
    Ok(message)
}

fn unchecked_message(row: &tokio_postgres::Row, topics: &mut Topics) -> Result<Message, String> {
    let payload: &[u8] = read(row, PAYLOAD)?;
    let object = |column: Column| read::<Option<&str>>(row, column);
    let named = |Column(_, name): Column| move |reason: String| format!("{name}: {reason}");
    Ok(Message {
        id: MessageId(read(row, MESSAGE_ID)?),
        topic: topics.of(read(row, TOPIC)?),
        key: read::<Option<&str>>(row, KEY)?.map(Key::unchecked),
        payload: Bytes::copy_from_slice(payload),
        content_type: read(row, CONTENT_TYPE)?,
        headers: object(HEADERS)?.map_or(Ok(Headers::default()), Headers::from_json).map_err(named(HEADERS))?,
        attributes: object(ATTRIBUTES)?
            .map_or(Ok(Attributes::default()), Attributes::from_json)
            .map_err(named(ATTRIBUTES))?,
        deliver_at: read::<Option<Moment>>(row, DELIVER_AT)?.map(Timestamp::from),
        expires_at: read::<Option<Moment>>(row, EXPIRES_AT)?.map(Timestamp::from),
        created_at: Some(read::<Moment>(row, CREATED_AT)?.into()),
        retry: object(RETRY)?.map(RetryOverride::from_json).transpose()?,
    })
}

/// The message of a row for people: what cannot be read is empty.
pub(super) fn readable(row: &tokio_postgres::Row) -> Message {
    fn or_none<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, column: &str) -> Option<T> {
        row.try_get::<_, Option<T>>(column).ok().flatten()
    }
    Message {
        id: MessageId(or_none(row, "message_id").unwrap_or(Uuid::nil())),
        topic: Topic::unchecked(or_none::<String>(row, "topic").unwrap_or_default()),
        key: or_none::<String>(row, "key").map(Key::unchecked),
        payload: Bytes::copy_from_slice(or_none::<&[u8]>(row, "payload").unwrap_or_default()),
        content_type: or_none(row, "content_type"),
        headers: or_none(row, "headers").and_then(|text| Headers::from_json(text).ok()).unwrap_or_default(),
        attributes: or_none(row, "attributes").and_then(|text| Attributes::from_json(text).ok()).unwrap_or_default(),
        deliver_at: or_none::<Moment>(row, "deliver_at").map(Timestamp::from),
        expires_at: or_none::<Moment>(row, "expires_at").map(Timestamp::from),
        created_at: or_none::<Moment>(row, "created_at").map(Timestamp::from),
        retry: or_none(row, "retry").and_then(|text| RetryOverride::from_json(text).ok()),
    }
}

fn read<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, Column(place, name): Column) -> Result<T, String> {
    row.try_get(place).map_err(|_| format!("{name}: cannot be read"))
}

/// The destinations still owed. An empty list would owe the row to nobody for ever.
fn destinations(row: &tokio_postgres::Row) -> Result<Option<Vec<DestinationName>>, String> {
    let names: Option<Vec<Option<String>>> = read(row, WAITING_FOR)?;
    if names.as_ref().is_some_and(Vec::is_empty) {
        return Err("waiting_for: names no destination".to_owned());
    }
    names
        .map(|names| {
            names
                .into_iter()
                .map(|name| name.map(|name| DestinationName::new(&name)))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| "waiting_for: has a null element".to_owned())
        })
        .transpose()
}

fn progress(row: &tokio_postgres::Row) -> Result<BTreeMap<DestinationName, u32>, String> {
    let Some(text) = read::<Option<&str>>(row, PROGRESS)? else { return Ok(BTreeMap::new()) };
    let attempts: BTreeMap<String, u32> =
        serde_json::from_str(text).map_err(|error| format!("progress: expected an object of counts: {error}"))?;
    Ok(attempts.into_iter().map(|(name, count)| (DestinationName::new(&name), count)).collect())
}
