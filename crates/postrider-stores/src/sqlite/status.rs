//! The outbox in numbers, and where a message is.

use std::time::Duration;

use postrider_core::{
    Explained, Held, HeldKey, Key, Lane, LaneCount, LaneStatus, Measured, MemberStatus, MessageId, Result, RowId,
    RowState, Standing, StoreStatus, Subject, Term, Timestamp,
};
use rusqlite::{Params, params};
use uuid::Uuid;

use super::link::{Done, Session, Statements};
use super::row::{Decoded, columns, decode};
use crate::failures::{between, latest};

const PENDING: &str = r#"select count(*) from (select 1 from "{p}outbox" where state in (0, 2) limit ?1)"#;
/// Without counting: what lies between the lowest and the highest id, holes included.
const SPAN: &str = r#"select coalesce((select max(id) from "{p}outbox") - (select min(id) from "{p}outbox") + 1, 0)"#;
/// By the index of due rows: that of exceptions may hold millions of rows behind one head.
const RETRYING: &str = r#"select count(*) from (select 1 from "{p}outbox" indexed by "{p}outbox_due"
where state = 0 and (next_attempt_at is not null or deliver_at is not null) and next_attempt_at is not null limit ?1)"#;
const IN_STATE: &str = r#"select count(*) from (select 1 from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and state = ?2 limit ?1)"#;
const DELAYED: &str = r#"select count(*) from (select 1 from "{p}outbox" indexed by "{p}outbox_due"
where state = 0 and (next_attempt_at is not null or deliver_at is not null)
  and coalesce(next_attempt_at, deliver_at) > ?2 and next_attempt_at is null limit ?1)"#;
const DEAD: &str = r#"select count(*) from (select 1 from "{p}outbox" indexed by "{p}outbox_dead"
where state in (1, 3) limit ?1)"#;
const HOLDING: &str = r#"select count(*) from (select 1 from "{p}outbox" indexed by "{p}outbox_dead"
where state in (1, 3) and state = 3 limit ?1)"#;
/// The first heads of each key.
macro_rules! heads {
    ($rest:literal) => {
        concat!(
            r#""{p}outbox" h indexed by "{p}outbox_dead""#,
            $rest,
            r#" h.state in (1, 3) and h.state = 3 and typeof(h.key) = 'text' and not exists (
  select 1 from "{p}outbox" p indexed by "{p}outbox_exceptional"
  where (p.state in (2, 3) or p.next_attempt_at is not null) and p.key = h.key and p.id < h.id and p.state = 3)"#
        )
    };
}

const HELD: &str =
    concat!("select h.id, h.key, h.message_id, h.dead_at from ", heads!(" where"), " order by h.id limit 5");
const BEHIND: &str = r#"select count(*) from (select 1 from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and key = ?2 and id > ?3 and state = 2 limit ?1)"#;
const HELD_BACK: &str = concat!(
    "select count(*) from (select 1 from ",
    heads!(
        r#" cross join "{p}outbox" a indexed by "{p}outbox_exceptional"
where (a.state in (2, 3) or a.next_attempt_at is not null) and a.key = h.key and a.id > h.id and a.state = 2 and"#
    ),
    " limit ?1)"
);
const OLDEST: &str = r#"select created_at from "{p}outbox" where state in (0, 2) and deliver_at is null
order by id limit 1"#;
const OLDEST_DUE: &str = r#"select max(deliver_at, created_at) from "{p}outbox" indexed by "{p}outbox_due"
where state = 0 and (next_attempt_at is not null or deliver_at is not null)
  and coalesce(next_attempt_at, deliver_at) <= ?1 and typeof(deliver_at) = 'integer'
order by coalesce(next_attempt_at, deliver_at) limit 1"#;
const RECENT_ERRORS: &str = r#"select errors from (select errors, last_attempt_at from "{p}outbox"
  indexed by "{p}outbox_due" where state = 0 and (next_attempt_at is not null or deliver_at is not null)
  and next_attempt_at is not null and typeof(errors) = 'text' limit ?1)
order by last_attempt_at desc limit 5"#;
/// A failure at no destination is one for want of a route, unless the row is given up and on its way as a dead letter.
const UNROUTED: &str = r#"select distinct topic from (select topic, errors from "{p}outbox"
  indexed by "{p}outbox_due" where state = 0 and (next_attempt_at is not null or deliver_at is not null)
  and next_attempt_at is not null and typeof(errors) = 'text' and typeof(topic) = 'text' and dead_reason is null
  limit 10000)
where case when json_valid(errors) then json_extract(errors, '$[#-1].destination') = '' end order by topic limit 5"#;
const TOPICS: &str = r#"select distinct topic from (select topic, state from "{p}outbox" order by id desc limit 10000)
where state in (0, 2) and typeof(topic) = 'text' order by topic limit 100"#;
const MEMBERS: &str = r#"select id, name, expires_at from "{p}relay" order by id"#;
const LANES: &str = r#"select lane, owner, term from "{p}lane" order by lane"#;

const BY_ID: &str = columns!("where lower(message_id) = ?1 order by id limit ?2");
const BY_KEY: &str = columns!("where key = ?1 order by id limit ?2");
const DELIVERED_BY_ID: &str = r#"select id, message_id, key, topic, settled_at from "{p}delivered"
where lower(message_id) = ?1 order by id limit ?2"#;
const DELIVERED_BY_KEY: &str = r#"select id, message_id, key, topic, settled_at from "{p}delivered"
where key = ?1 order by id limit ?2"#;
const IN_FRONT: &str = r#"select id, message_id, state from "{p}outbox" indexed by "{p}outbox_exceptional"
where (state in (2, 3) or next_attempt_at is not null) and key = ?1 and id < ?2 and state <> 1 order by id limit 1"#;
/// The same where all messages have one order.
const IN_FRONT_OF_ALL: &str = r#"select id, message_id, state from "{p}outbox" where id = (
  select min(id) from "{p}outbox" indexed by "{p}outbox_exceptional"
  where (state in (2, 3) or next_attempt_at is not null) and id < ?1 and state <> 1)"#;
const OWNER: &str = r#"select r.id, r.name, r.expires_at from "{p}lane" l join "{p}relay" r on r.id = l.owner
where l.lane = ?1"#;

const MOST_EXPLAINED: usize = 100;

/// The outbox in numbers.
pub(super) fn status(session: &mut Session<'_>, bound: u32) -> Result<StoreStatus> {
    session.reading("reading the status", |statements| {
        let now = statements.now()?;
        let up_to = i64::from(bound) + 1;
        let counted = Counted { statements, bound: u64::from(bound) };
        let dead = counted.of(DEAD, [up_to])?;
        Ok(StoreStatus {
            pending: counted.pending(up_to, dead)?,
            retrying: counted.of(RETRYING, [up_to])?,
            delayed: counted.of(DELAYED, [up_to, now.0])?,
            set_aside: counted.of(IN_STATE, [up_to, 2])?,
            dead,
            holding: counted.of(HOLDING, [up_to])?,
            held_back: counted.of(HELD_BACK, [up_to])?,
            held: held(&counted, up_to, now)?,
            oldest_age: oldest(statements, now)?,
            recent_errors: recent_errors(statements, up_to)?,
            unrouted: statements.all(UNROUTED, [], |row| row.get(0))?,
            members: statements.all(MEMBERS, [], |row| member(row, now))?,
            lanes: statements.all(LANES, [], |row| {
                let owner: Option<String> = row.get(1)?;
                let owner = owner.and_then(|owner| Uuid::parse_str(&owner).ok());
                Ok(LaneStatus { lane: Lane(row.get(0)?), owner, term: Term(row.get(2)?) })
            })?,
        })
    })
}

/// Topics of what is to be delivered.
pub(super) fn topics(session: &mut Session<'_>) -> Result<Vec<String>> {
    session.reading("reading topics", |statements| statements.all(TOPICS, [], |row| row.get(0)))
}

/// Counts that stop one above their bound.
struct Counted<'s, 'c> {
    statements: &'s Statements<'c>,
    bound: u64,
}

impl Counted<'_, '_> {
    fn of(&self, sql: &str, params: impl Params) -> Done<Measured> {
        let n = self.number(sql, params)?;
        Ok(if n <= self.bound { Measured::Exact(n) } else { Measured::Estimated(n) })
    }

    fn pending(&self, up_to: i64, dead: Measured) -> Done<Measured> {
        let counted = self.of(PENDING, [up_to])?;
        let span = self.number(SPAN, [])?.saturating_sub(dead.value());
        Ok(match counted {
            Measured::Exact(n) => Measured::Exact(n),
            Measured::Estimated(at_least) => Measured::Estimated(span.max(at_least)),
        })
    }

    fn number(&self, sql: &str, params: impl Params) -> Done<u64> {
        let n: i64 = self.statements.first(sql, params, |row| row.get(0))?.unwrap_or(0);
        Ok(u64::try_from(n).unwrap_or(0))
    }
}

/// The keys that were held first.
fn held(counted: &Counted<'_, '_>, up_to: i64, now: Timestamp) -> Done<Vec<HeldKey>> {
    let heads = counted.statements.all(HELD, [], |row| {
        let since = between(Timestamp(row.get_ref(3)?.as_i64().unwrap_or(now.0)), now);
        Ok((row.get::<_, i64>(0)?, text(row, 1)?.unwrap_or_default(), message_id(row, 2)?, since))
    })?;
    let told = heads.into_iter().map(|(id, key, by, since)| {
        let waiting = counted.of(BEHIND, params![up_to, key, id])?;
        Ok(HeldKey { key: Key::unchecked(key), by, since, waiting })
    });
    told.collect()
}

fn oldest(statements: &Statements<'_>, now: Timestamp) -> Done<Option<Duration>> {
    let moment = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_i64().ok().map(Timestamp));
    let ordinary = statements.first(OLDEST, [], moment)?.flatten();
    let due = statements.first(OLDEST_DUE, [now.0], moment)?.flatten();
    let since = ordinary.into_iter().chain(due).min();
    Ok(since.map(|since| between(since, now)))
}

fn recent_errors(statements: &Statements<'_>, up_to: i64) -> Done<Vec<String>> {
    let columns = statements.all(RECENT_ERRORS, [up_to], |row| {
        Ok(row.get_ref(0)?.as_bytes().ok().and_then(|bytes| std::str::from_utf8(bytes).ok()).and_then(latest))
    })?;
    Ok(columns.into_iter().flatten().collect())
}

fn member(row: &rusqlite::Row<'_>, now: Timestamp) -> Done<MemberStatus> {
    let id: String = row.get(0)?;
    Ok(MemberStatus {
        id: Uuid::parse_str(&id).unwrap_or_default(),
        name: row.get(1)?,
        lease_left: between(now, Timestamp(row.get(2)?)),
    })
}

/// Where a message or the messages of a key are.
pub(super) fn explain(session: &mut Session<'_>, lanes: LaneCount, subject: &Subject) -> Result<Vec<Explained>> {
    let (here, gone, value) = match subject {
        Subject::Id(id) => (BY_ID, DELIVERED_BY_ID, id.to_string()),
        Subject::Key(key) => (BY_KEY, DELIVERED_BY_KEY, key.to_string()),
    };
    session.reading("looking for the message", |statements| {
        let now = statements.now()?;
        let most = i64::try_from(MOST_EXPLAINED).unwrap_or(i64::MAX);
        let rows = statements.all(here, params![value, most], decode)?;
        let mut explained = Vec::with_capacity(rows.len());
        for row in rows {
            let held = in_front(statements, lanes, &row)?;
            let owner = statements.first(OWNER, [row.lane(lanes).0], |row| member(row, now))?;
            explained.push(Explained { standing: Standing::Outbox(Box::new(row.into_view(lanes))), held, owner, now });
        }
        let delivered = statements.all(gone, params![value, most], |row| {
            let standing = Standing::Delivered {
                row: RowId(row.get(0)?),
                id: message_id(row, 1)?,
                key: text(row, 2)?.map(Key::unchecked),
                topic: text(row, 3)?.unwrap_or_default(),
                settled_at: Timestamp(row.get(4)?),
            };
            Ok(Explained { standing, held: None, owner: None, now })
        })?;
        explained.extend(delivered);
        explained.truncate(MOST_EXPLAINED);
        Ok(explained)
    })
}

fn in_front(statements: &Statements<'_>, lanes: LaneCount, row: &Decoded) -> Done<Option<Held>> {
    let held = |row: &rusqlite::Row<'_>| {
        let state = row.get_ref(2)?.as_i64().ok().and_then(|n| i16::try_from(n).ok()).and_then(RowState::from_code);
        let state = state.unwrap_or(RowState::Pending);
        Ok(Held { behind: RowId(row.get(0)?), id: message_id(row, 1)?, state })
    };
    match row.message.key.as_ref() {
        _ if !row.live() => Ok(None),
        _ if lanes == LaneCount::ONE => statements.first(IN_FRONT_OF_ALL, [row.id.0], held),
        Some(key) => statements.first(IN_FRONT, params![key.as_str(), row.id.0], held),
        None => Ok(None),
    }
}

/// The message id in a column; the nil id where it cannot be read.
pub(super) fn message_id(row: &rusqlite::Row<'_>, index: usize) -> Done<MessageId> {
    let id = text(row, index)?.and_then(|text| Uuid::parse_str(&text).ok());
    Ok(MessageId(id.unwrap_or_default()))
}

/// The text in a column, where it is one.
pub(super) fn text(row: &rusqlite::Row<'_>, index: usize) -> Done<Option<String>> {
    Ok(row.get_ref(index)?.as_str().ok().map(str::to_owned))
}
