//! Dead letters and retention.

use std::time::Instant;

use postrider_core::{
    DeadFilter, DeadGroup, DeadReason, LaneCount, MessageId, Position, Pruned, Result, Retention, RowId, RowState,
    RowView, Timestamp,
};
use rusqlite::{ToSql, params};

use super::link::{Done, Session, Statements};
use super::row::{columns, decode};
use super::settler::{BREATH, HOLD};
use super::status::{message_id, text};
use crate::failures::{between, micros};

/// The condition of [`Meaning`] for one row; ?1 to ?6.
macro_rules! meant {
    ($before:expr, $after:literal) => {
        concat!(
            $before,
            r#" indexed by "{p}outbox_dead" where state in (1, 3)
  and (?1 is null or lower(message_id) in (select value from json_each(?1)))
  and (?2 is null or topic = ?2) and (?3 is null or key = ?3) and (?4 is null or dead_reason = ?4)
  and (?5 is null or dead_at <= ?5) and (?6 is null or state = ?6)"#,
            $after
        )
    };
}

const LIST: &str = meant!(columns!(""), " and id > ?7 order by id limit ?8");
const GROUPS: &str = meant!(
    r#"select topic, dead_reason, count(*), min(dead_at) from "{p}outbox""#,
    " group by topic, dead_reason order by topic, dead_reason"
);
const NAMES: &str = meant!(r#"select id, message_id from "{p}outbox""#, " and id > ?7 order by id limit ?8");
/// What an operator sends again does not expire: the largest integer is never.
const REPLAY: &str = r#"update "{p}outbox" set state = 0, attempts = 0, progress = null, next_attempt_at = ?2,
  expires_at = 9223372036854775807, suspicion = 0, dead_at = null, dead_reason = null where id = ?1 and state in (1, 3)"#;
const DISCARD: &str = r#"delete from "{p}outbox" where id = ?1 and state in (1, 3)"#;
const HELD_KEY: &str = r#"select key from "{p}outbox" where id = ?1 and state = 3 and typeof(key) = 'text'"#;
/// Nothing else would look for the rows of a key that an operator opened: the first one set aside is made due. It may stand
/// before the head, when its own moment came later.
const FREE: &str = r#"update "{p}outbox" set state = 0, next_attempt_at = ?2 where id = (
  select id from "{p}outbox" indexed by "{p}outbox_exceptional"
  where (state in (2, 3) or next_attempt_at is not null) and key = ?1 and state = 2 order by id limit 1)"#;
const PAST_DEAD: &str = r#"select id from "{p}outbox" indexed by "{p}outbox_dead_at"
where state in (1, 3) and dead_at <= ?1 limit ?2"#;
const PRUNE_DELIVERED: &str = r#"delete from "{p}delivered" where id in (select id from "{p}delivered"
  where settled_at <= ?1 limit ?2)"#;
const PRUNABLE_DEAD: &str = r#"select count(*) from "{p}outbox" indexed by "{p}outbox_dead_at"
where state in (1, 3) and dead_at <= ?1"#;
const PRUNABLE_DELIVERED: &str = r#"select count(*) from "{p}delivered" where settled_at <= ?1"#;

/// Rows changed between two looks at the clock.
const STRIDE: u32 = 100;

/// A filter as parameters.
struct Meaning {
    ids: Option<String>,
    topic: Option<String>,
    key: Option<String>,
    reason: Option<i16>,
    before: Option<i64>,
    state: Option<i16>,
}

impl Meaning {
    fn of(filter: &DeadFilter, now: Timestamp) -> Self {
        let ids: Vec<String> = filter.ids.iter().map(ToString::to_string).collect();
        Self {
            ids: (!ids.is_empty()).then(|| serde_json::Value::from(ids).to_string()),
            topic: filter.topic.clone(),
            key: filter.key.as_ref().map(ToString::to_string),
            reason: filter.reason.map(DeadReason::code),
            before: filter.older_than.map(|age| now.0.saturating_sub(micros(age))),
            state: filter.state.map(RowState::code),
        }
    }

    fn params(&self) -> [&dyn ToSql; 6] {
        [&self.ids, &self.topic, &self.key, &self.reason, &self.before, &self.state]
    }

    fn params_with<'a>(&'a self, position: &'a (i64, i64)) -> [&'a dyn ToSql; 8] {
        let [ids, topic, key, reason, before, state] = self.params();
        [ids, topic, key, reason, before, state, &position.0, &position.1]
    }
}

/// Dead letters by ascending row.
pub(super) fn list(
    session: &mut Session<'_>,
    lanes: LaneCount,
    filter: &DeadFilter,
    position: Position,
) -> Result<Vec<RowView>> {
    session.reading("reading the dead letters", |statements| {
        let meaning = Meaning::of(filter, statements.now()?);
        let position = (position.after.0, i64::from(position.limit));
        let rows = statements.all(LIST, meaning.params_with(&position).as_slice(), decode)?;
        Ok(rows.into_iter().map(|row| row.into_view(lanes)).collect())
    })
}

/// Dead letters by topic and reason.
pub(super) fn groups(session: &mut Session<'_>, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
    session.reading("counting the dead letters", |statements| {
        let now = statements.now()?;
        statements.all(GROUPS, Meaning::of(filter, now).params().as_slice(), |row| {
            let reason = row.get_ref(1)?.as_i64().ok().and_then(|code| i16::try_from(code).ok());
            let oldest = row.get_ref(3)?.as_i64().unwrap_or(now.0);
            Ok(DeadGroup {
                topic: text(row, 0)?.unwrap_or_default(),
                reason: reason.and_then(DeadReason::from_code),
                count: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                oldest: between(Timestamp(oldest), now),
            })
        })
    })
}

/// What becomes of dead letters that an operator names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Pending again, due now.
    Replay,
    /// Gone.
    Discard,
}

/// Replays or discards up to `limit` dead letters, oldest row first, in transactions as short as those of a settle.
pub(super) fn decide(
    session: &mut Session<'_>,
    filter: &DeadFilter,
    limit: u32,
    verdict: Verdict,
) -> Result<Vec<MessageId>> {
    let mut ids = Vec::new();
    let mut after = i64::MIN;
    loop {
        let begun = Instant::now();
        let done = session.writing("changing dead letters", |statements| {
            let now = statements.now()?;
            let meaning = Meaning::of(filter, now);
            while begun.elapsed() < HOLD {
                let some = limit.saturating_sub(u32::try_from(ids.len()).unwrap_or(u32::MAX)).min(STRIDE);
                let position = (after, i64::from(some));
                let named = statements.all(NAMES, meaning.params_with(&position).as_slice(), |row| {
                    Ok((RowId(row.get(0)?), message_id(row, 1)?))
                })?;
                for (row, id) in &named {
                    after = row.0;
                    let changed = match verdict {
                        Verdict::Replay => statements.execute(REPLAY, params![row.0, now.0])?,
                        Verdict::Discard => discard(statements, row.0, now)?,
                    };
                    if changed > 0 {
                        ids.push(*id);
                    }
                }
                if named.len() < STRIDE as usize {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        if done {
            return Ok(ids);
        }
        std::thread::sleep(BREATH);
    }
}

/// Removes a dead letter for good; a key that it held goes on.
pub(super) fn discard(statements: &Statements<'_>, row: i64, now: Timestamp) -> Done<usize> {
    let held = statements.first(HELD_KEY, [row], |row| text(row, 0))?.flatten();
    let removed = statements.execute(DISCARD, [row])?;
    if let Some(key) = held {
        statements.execute(FREE, params![key, now.0])?;
    }
    Ok(removed)
}

/// Removes what is past its retention.
pub(super) fn prune(session: &mut Session<'_>, retention: &Retention, limit: u32) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    if let Some(age) = retention.delivered {
        pruned.delivered = remove(session, limit, |statements, now, some| {
            statements.execute(PRUNE_DELIVERED, params![now.0.saturating_sub(micros(age)), some])
        })?;
    }
    if let Some(age) = retention.dead {
        pruned.dead = remove(session, limit, |statements, now, some| {
            let past = params![now.0.saturating_sub(micros(age)), some];
            let rows: Vec<i64> = statements.all(PAST_DEAD, past, |row| row.get(0))?;
            rows.into_iter().try_fold(0, |removed, row| Ok(removed + discard(statements, row, now)?))
        })?;
    }
    Ok(pruned)
}

/// Removes up to `limit` rows, some at a time, as far as `some` finds any.
fn remove(
    session: &mut Session<'_>,
    limit: u32,
    some_of: impl Fn(&Statements<'_>, Timestamp, u32) -> Done<usize>,
) -> Result<u64> {
    let mut removed: u32 = 0;
    loop {
        let begun = Instant::now();
        let done = session.writing("removing what is past its retention", |statements| {
            let now = statements.now()?;
            while begun.elapsed() < HOLD {
                let some = limit.saturating_sub(removed).min(STRIDE);
                let n = u32::try_from(some_of(statements, now, some)?).unwrap_or(some);
                removed = removed.saturating_add(n);
                if n < some || removed >= limit {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        if done {
            return Ok(u64::from(removed));
        }
        std::thread::sleep(BREATH);
    }
}

/// What [`prune`] would remove in all.
pub(super) fn prunable(session: &mut Session<'_>, retention: &Retention) -> Result<Pruned> {
    session.reading("counting what is past its retention", |statements| {
        let now = statements.now()?.0;
        let count = |sql: &str, age: Option<std::time::Duration>| -> Done<u64> {
            let Some(age) = age else { return Ok(0) };
            count(statements, sql, now.saturating_sub(micros(age)))
        };
        Ok(Pruned {
            delivered: count(PRUNABLE_DELIVERED, retention.delivered)?,
            dead: count(PRUNABLE_DEAD, retention.dead)?,
        })
    })
}

fn count(statements: &Statements<'_>, sql: &str, before: i64) -> Done<u64> {
    let n: i64 = statements.first(sql, [before], |row| row.get(0))?.unwrap_or(0);
    Ok(u64::try_from(n).unwrap_or(0))
}
