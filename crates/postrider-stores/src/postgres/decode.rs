//! From a row of the table to a row of the core, whatever a foreign hand wrote into it.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider_core::{
    Attributes, Closed, Content, DeadReason, DestinationName, Due, Error, ErrorKind, GivenUp, Head, Headers, Key, Lane,
    Lifetime, Message, MessageId, Result, RetryOverride, Retrying, Row, RowId, RowState, Timestamp, Topic,
};
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use crate::failures::latest;

/// Seconds from 1970 to 2000, where PostgreSQL's time begins, in microseconds.
const EPOCH: i64 = 946_684_800_000_000;
/// What a row weighs beside its message.
const OVERHEAD: usize = 128;

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
    let fetched: i64 = get(row, "fetched")?;
    Ok(usize::try_from(fetched).unwrap_or(0))
}

/// How many rows stand before the first whose payload was too heavy to come.
pub(super) fn light(rows: &[tokio_postgres::Row]) -> Result<usize> {
    for (place, row) in rows.iter().enumerate() {
        if get::<Option<&[u8]>>(row, "payload")?.is_none() {
            return Ok(place);
        }
    }
    Ok(rows.len())
}

/// A column that has the type it was made with.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, column: &str) -> Result<T> {
    row.try_get(column).map_err(|error| {
        let what = format!("the column {column} of the outbox tables has another type; run `postrider check`");
        Error::new(ErrorKind::Config, what).because(error)
    })
}

/// A row of a page.
///
/// # Errors
/// `Config`, when the table itself is not the one that was created; never because of what stands in a row.
pub(super) fn row(row: &tokio_postgres::Row) -> Result<Row> {
    let head: Option<i32> = get(row, "head")?;
    let id: i64 = get(row, "id")?;
    let lane: i16 = get(row, "lane")?;
    let state: i16 = get(row, "state")?;
    let attempts: i32 = get(row, "attempts")?;
    let read_at: Moment = get(row, "read_at")?;
    let deliver_at: Option<Moment> = get(row, "deliver_at")?;
    let (created_at, expires_at): (Option<Moment>, Option<Moment>) = (get(row, "created_at")?, get(row, "expires_at")?);
    let next: Option<Moment> = get(row, "next_attempt_at")?;
    let content = match head {
        None => message(row).map(|message| {
            let weight = message.weight();
            (Content::Message(Arc::new(message)), weight)
        }),
        Some(payload) => head_of(row).map(|head| {
            let texts = head.topic.as_str().len() + head.key.as_ref().map_or(0, |key| key.as_str().len());
            (Content::Head(head), usize::try_from(payload).unwrap_or(0) + texts)
        }),
    };
    let owed = destinations(row, "waiting_for").and_then(|owed| Ok((owed, progress(row)?)));
    let ((content, weight), (waiting_for, progress)) = match (content, owed) {
        (Ok(content), Ok(owed)) => (content, owed),
        (Err(reason), _) | (Ok(_), Err(reason)) => {
            let payload: Option<&[u8]> = get(row, "payload")?;
            ((malformed(row, reason), payload.map_or(0, <[u8]>::len)), (None, BTreeMap::new()))
        }
    };
    Ok(Row {
        id: RowId(id),
        lane: Lane(u16::try_from(lane).unwrap_or(0)),
        content,
        weight: weight + OVERHEAD,
        state: RowState::from_code(state).unwrap_or(RowState::Pending),
        due: due(next.or(deliver_at), read_at),
        lifetime: Lifetime::at(read_at.into(), created_at.map(Timestamp::from), expires_at.map(Timestamp::from)),
        retrying: if next.is_some() { Retrying::Yes } else { Retrying::No },
        attempts: u32::try_from(attempts).unwrap_or(0),
        waiting_for,
        progress,
        closed: closed(row),
        given_up: given_up(row, attempts)?,
    })
}

/// Why a row was given up that is to be forwarded.
fn given_up(row: &tokio_postgres::Row, attempts: i32) -> Result<Option<GivenUp>> {
    let Some(reason) = get::<Option<i16>>(row, "dead_reason")?.and_then(DeadReason::from_code) else { return Ok(None) };
    let errors: Option<&str> = get(row, "errors")?;
    let error = errors.and_then(latest).unwrap_or_default();
    Ok(Some(GivenUp { reason, attempts: u32::try_from(attempts).unwrap_or(0), error }))
}

fn due(at: Option<Moment>, now: Moment) -> Due {
    match at {
        Some(at) if at > now => {
            Due::In(Duration::from_micros(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(u64::MAX)))
        }
        Some(_) | None => Due::Now,
    }
}

/// What stands before the row; what cannot be read stands for every destination.
fn closed(row: &tokio_postgres::Row) -> Closed {
    match row.try_get::<_, Option<Vec<Option<String>>>>("closed") {
        Ok(None) => Closed::Open,
        Ok(Some(owed)) => match owed.into_iter().map(|name| name.map(|name| DestinationName::new(&name))).collect() {
            Some(names) => Closed::For(names),
            None => Closed::ForAll,
        },
        Err(_) => Closed::ForAll,
    }
}

fn malformed(row: &tokio_postgres::Row, reason: String) -> Content {
    let id = row.try_get::<_, Uuid>("message_id").ok().map(MessageId);
    let key = row.try_get::<_, Option<String>>("key").ok().flatten().map(Key::unchecked);
    Content::Malformed { id, key, reason }
}

/// What a row tells of its message where the payload was left behind.
fn head_of(row: &tokio_postgres::Row) -> Result<Head, String> {
    Ok(Head {
        id: Some(MessageId(read(row, "message_id")?)),
        topic: Topic::unchecked(read::<&str>(row, "topic")?),
        key: read::<Option<&str>>(row, "key")?.map(Key::unchecked),
        suspicion: u16::try_from(read::<i16>(row, "suspicion")?).unwrap_or(0),
        has_retry: read(row, "has_retry")?,
    })
}

/// The message of a row that has its columns, or why it is none.
pub(super) fn message(row: &tokio_postgres::Row) -> Result<Message, String> {
    let message = unchecked_message(row)?;
    message.validate().map_err(|invalid| invalid.to_string())?;
    Ok(message)
}

fn unchecked_message(row: &tokio_postgres::Row) -> Result<Message, String> {
    let payload: &[u8] = read(row, "payload")?;
    let object = |column: &str| read::<Option<&str>>(row, column);
    let named = |column: &'static str| move |reason: String| format!("{column}: {reason}");
    Ok(Message {
        id: MessageId(read(row, "message_id")?),
        topic: Topic::unchecked(read::<&str>(row, "topic")?),
        key: read::<Option<&str>>(row, "key")?.map(Key::unchecked),
        payload: Bytes::copy_from_slice(payload),
        content_type: read(row, "content_type")?,
        headers: object("headers")?.map_or(Ok(Headers::default()), Headers::from_json).map_err(named("headers"))?,
        attributes: object("attributes")?
            .map_or(Ok(Attributes::default()), Attributes::from_json)
            .map_err(named("attributes"))?,
        deliver_at: read::<Option<Moment>>(row, "deliver_at")?.map(Timestamp::from),
        expires_at: read::<Option<Moment>>(row, "expires_at")?.map(Timestamp::from),
        created_at: Some(read::<Moment>(row, "created_at")?.into()),
        retry: object("retry")?.map(RetryOverride::from_json).transpose()?,
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

fn read<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, column: &str) -> Result<T, String> {
    row.try_get(column).map_err(|_| format!("{column}: cannot be read"))
}

/// The destinations still owed. An empty list would owe the row to nobody for ever.
fn destinations(row: &tokio_postgres::Row, column: &str) -> Result<Option<Vec<DestinationName>>, String> {
    let names: Option<Vec<Option<String>>> = read(row, column)?;
    if names.as_ref().is_some_and(Vec::is_empty) {
        return Err(format!("{column}: names no destination"));
    }
    names
        .map(|names| {
            names
                .into_iter()
                .map(|name| name.map(|name| DestinationName::new(&name)))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| format!("{column}: has a null element"))
        })
        .transpose()
}

fn progress(row: &tokio_postgres::Row) -> Result<BTreeMap<DestinationName, u32>, String> {
    let Some(text) = read::<Option<&str>>(row, "progress")? else { return Ok(BTreeMap::new()) };
    let attempts: BTreeMap<String, u32> =
        serde_json::from_str(text).map_err(|error| format!("progress: expected an object of counts: {error}"))?;
    Ok(attempts.into_iter().map(|(name, count)| (DestinationName::new(&name), count)).collect())
}
