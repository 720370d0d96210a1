//! The inbox, as who keeps it sees it: forgetting, numbers, and what was refused.

use std::time::Duration;

use postrider_core::{
    Forgotten, Headers, InboxStatus, Key, Message, MessageId, RefusedFilter, RefusedGroup, RefusedView, Result,
    Timestamp,
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ToSql, params, params_from_iter};

use super::inbox;
use super::link::{Done, Session, Statements};
use super::settler::BREATH;
use super::status::{message_id, text};
use crate::consumers::{Newest, consumers};
use crate::dialog::{Turn, Value};
use crate::failures::micros;
use crate::received::{Forget, Round};
use crate::since::moment_of;

/// Records of either kind that one transaction removes, so that it holds the write lock for moments only.
const STRIDE: u32 = 200;

const SINCE: &str = r#"select oldest from "{p}inbox_span""#;

/// By the primary key and by the index of moments, from their ends.
const NEWEST: &str = r#"select consumer, count(*), max(seen_at) from (
  select consumer, seen_at from (
    select consumer, seen_at from "{p}inbox" order by message_id desc, consumer desc limit ?1)
  union all
  select consumer, seen_at from (select consumer, seen_at from "{p}inbox_foreign" order by seen_at desc limit ?1))
group by consumer"#;

const REFUSED_BY: &str = r#"select consumer, count(*) from "{p}inbox_refused" group by consumer"#;

/// Which refused messages a filter means: its ids are a JSON array, or null.
macro_rules! meant {
    ($before:literal, $behind:literal) => {
        concat!(
            $before,
            r#" from "{p}inbox_refused"
 where (?1 is null or message_id in (select value from json_each(?1))) and (?2 is null or consumer = ?2)
   and (?3 is null or topic = ?3) and (?4 is null or refused_at <= ?4)"#,
            $behind
        )
    };
}

const REFUSED: &str = meant!(
    "select message_id, consumer, reason, topic, key, content_type, headers, payload, refused_at, times",
    " order by message_id, consumer limit ?5"
);

const GROUPS: &str = meant!(
    "select consumer, reason, count(*), min(refused_at)",
    " group by consumer, reason order by consumer, reason"
);

const DISCARD: &str = meant!(
    r#"delete from "{p}inbox_refused" where rowid in (select rowid"#,
    " order by message_id, consumer limit ?5) returning message_id"
);

impl ToSql for Value {
    fn to_sql(&self) -> Done<ToSqlOutput<'_>> {
        let value = match self {
            Self::Text(text) | Self::Maybe(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Maybe(None) => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

/// Forgets what was handled longer ago than this, in short transactions.
pub(super) fn forget(session: &mut Session<'_>, keep: Duration, limit: u32) -> Result<Forgotten> {
    let mut forgotten = Forgotten::default();
    loop {
        let round = Forget::after(keep, STRIDE.min(limit).max(1));
        let some = session
            .writing("forgetting what was handled long ago", |statements| step(statements, round))?
            .forgotten()?;
        forgotten.records += some.records;
        forgotten.more = some.more;
        if !some.more || forgotten.records >= u64::from(limit) {
            return Ok(forgotten);
        }
        std::thread::sleep(BREATH);
    }
}

fn step(statements: &Statements<'_>, round: Forget) -> Done<Round> {
    let mut turn = inbox::forget(&statements.options.prefix.sql("{p}"), round);
    loop {
        turn = match turn {
            Turn::Done(round) => return Ok(round),
            Turn::Change(statement, then) => {
                let changed = statements.execute(&statement.sql, params_from_iter(&statement.values))?;
                then(u64::try_from(changed).unwrap_or(0))
            }
            Turn::Number(statement, then) => {
                let answer = statements.first(&statement.sql, params_from_iter(&statement.values), |row| row.get(0))?;
                then(answer.flatten())
            }
            // Forgetting looks at no key.
            Turn::Key(_, then) => then(None),
        };
    }
}

/// The inbox in numbers.
pub(super) fn status(session: &mut Session<'_>, bound: u32) -> Result<InboxStatus> {
    session.reading("looking at the inbox", |statements| {
        let since = statements.first(SINCE, [], |row| text(row, 0))?.flatten();
        let newest = statements.all(NEWEST, [bound], |row| {
            let last = Timestamp(row.get(2)?);
            Ok(Newest { consumer: text(row, 0)?.unwrap_or_default(), count: number(row, 1)?, last })
        })?;
        let refused = statements.all(REFUSED_BY, [], |row| Ok((text(row, 0)?.unwrap_or_default(), number(row, 1)?)))?;
        let since = since.as_deref().and_then(moment_of);
        Ok(InboxStatus { since, consumers: consumers(newest, refused, bound) })
    })
}

fn number(row: &rusqlite::Row<'_>, place: usize) -> Done<u64> {
    Ok(u64::try_from(row.get::<_, i64>(place)?).unwrap_or(0))
}

/// A filter as the statements take it.
struct Conditions<'f> {
    ids: Option<String>,
    consumer: Option<&'f str>,
    topic: Option<&'f str>,
    before: Option<i64>,
}

impl<'f> Conditions<'f> {
    fn of(filter: &'f RefusedFilter, now: Timestamp) -> Self {
        let ids: Vec<String> = filter.ids.iter().map(|id| format!("\"{id}\"")).collect();
        Self {
            ids: (!ids.is_empty()).then(|| format!("[{}]", ids.join(","))),
            consumer: filter.consumer.as_deref(),
            topic: filter.topic.as_deref(),
            before: filter.older_than.map(|age| now.0.saturating_sub(micros(age))),
        }
    }
}

/// Refused messages by ascending id.
pub(super) fn refused(session: &mut Session<'_>, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
    session.reading("listing refused messages", |statements| {
        let Conditions { ids, consumer, topic, before } = Conditions::of(filter, statements.now()?);
        statements.all(REFUSED, params![ids, consumer, topic, before, limit], view)
    })
}

fn view(row: &rusqlite::Row<'_>) -> Done<RefusedView> {
    let payload = row.get_ref(7)?.as_bytes_or_null().ok().flatten().map(<[u8]>::to_vec).unwrap_or_default();
    let mut message = Message::new(text(row, 3)?.unwrap_or_default(), payload);
    message.id = message_id(row, 0)?;
    message.key = text(row, 4)?.map(Key::unchecked);
    message.content_type = text(row, 5)?;
    message.headers = text(row, 6)?.and_then(|text| Headers::from_json(&text).ok()).unwrap_or_default();
    Ok(RefusedView {
        consumer: text(row, 1)?.unwrap_or_default(),
        message,
        reason: text(row, 2)?.unwrap_or_default(),
        refused_at: Timestamp(row.get(8)?),
        times: number(row, 9)?,
    })
}

/// Refused messages by consumer and reason.
pub(super) fn groups(session: &mut Session<'_>, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
    session.reading("grouping refused messages", |statements| {
        let now = statements.now()?;
        let Conditions { ids, consumer, topic, before } = Conditions::of(filter, now);
        statements.all(GROUPS, params![ids, consumer, topic, before], |row| {
            let oldest = now.0.saturating_sub(row.get(3)?);
            Ok(RefusedGroup {
                consumer: text(row, 0)?.unwrap_or_default(),
                reason: text(row, 1)?.unwrap_or_default(),
                count: number(row, 2)?,
                oldest: Duration::from_micros(u64::try_from(oldest).unwrap_or(0)),
            })
        })
    })
}

/// Removes refused messages for good.
pub(super) fn discard(session: &mut Session<'_>, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
    session.writing("discarding refused messages", |statements| {
        let Conditions { ids, consumer, topic, before } = Conditions::of(filter, statements.now()?);
        statements.all(DISCARD, params![ids, consumer, topic, before, limit], |row| message_id(row, 0))
    })
}
