//! Recording outcomes, behind the fence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{
    DestinationName, HeldLane, Lane, MessageId, Outcome, RelayId, Result, RowState, Settled, Settlement, Settler,
    Timestamp,
};
use rusqlite::params;
use uuid::Uuid;

use super::SqliteOptions;
use super::link::{Done, Link, Statements, Use};
use crate::History;
use crate::failures::{appended, micros};

/// How long a transaction goes on taking settlements; its commit comes on top, and 20 ms in all are promised.
pub(super) const HOLD: Duration = Duration::from_millis(8);
/// How long the write lock stays free between two transactions of one call, so that waiting applications get it.
pub(super) const BREATH: Duration = Duration::from_millis(5);

const HOLDS: &str = r#"select 1 from "{p}lane" where lane = ?1 and owner = ?2 and term = ?3"#;
/// A number alone may be another message's by now: an application that emptied the outbox made its numbers begin anew.
const REMOVED: &str = r#"delete from "{p}outbox" where id = ?1 and state in (0, 2) and message_id = ?2"#;
const REMOVED_WHATEVER_ITS_ID: &str = r#"delete from "{p}outbox" where id = ?1 and state in (0, 2)"#;
/// As a foreign hand may have written it: in capitals, without hyphens.
const MESSAGE: &str = r#"select cast(message_id as text) from "{p}outbox" where id = ?1"#;
const REMEMBER: &str = r#"insert or replace into "{p}delivered"
  (id, message_id, topic, key, content_type, headers, attributes, created_at, attempts, settled_at, payload)
select id, message_id, topic, key, content_type, headers, attributes, created_at, ?2, ?3, payload
from "{p}outbox" where id = ?1 and state in (0, 2)"#;
const ERRORS: &str = r#"select cast(errors as text) from "{p}outbox" where id = ?1 and state in (0, 2)"#;
const RETRY: &str = r#"update "{p}outbox" set state = 0, suspicion = ?9, next_attempt_at = ?2, attempts = ?3, waiting_for = ?4,
  progress = ?5, errors = ?6, last_attempt_at = ?7, dead_reason = coalesce(?8, dead_reason) where id = ?1 and state in (0, 2)"#;
const SET_ASIDE: &str = r#"update "{p}outbox" set state = 2, suspicion = ?3, next_attempt_at = null, waiting_for = ?2
where id = ?1 and state in (0, 2)"#;
const DEAD: &str = r#"update "{p}outbox" set state = ?8, suspicion = 0, next_attempt_at = null, attempts = ?2,
  waiting_for = ?3, errors = ?4, last_attempt_at = case when ?7 then ?5 else last_attempt_at end, dead_at = ?5,
  dead_reason = ?6 where id = ?1 and state in (0, 2)"#;

const SUSPECTED: &str = r#"update "{p}outbox" set suspicion = ?2 where id = ?1 and state in (0, 2)"#;

/// The writer of outcomes.
#[derive(Debug)]
pub(super) struct SqliteSettler {
    link: Link,
}

impl SqliteSettler {
    pub(super) fn new(options: Arc<SqliteOptions>) -> Self {
        Self { link: Link::new(options, Use::Settling) }
    }
}

#[async_trait]
impl Settler for SqliteSettler {
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled> {
        let wanted: BTreeSet<Lane> = batch.iter().map(|settlement| settlement.lane).collect();
        let mut leases: Vec<HeldLane> = leases.iter().copied().filter(|held| wanted.contains(&held.lane)).collect();
        let batch = batch.to_vec();
        let settled = self.link.run(move |session| {
            let mut rows = Vec::with_capacity(batch.len());
            let mut rest = batch.as_slice();
            loop {
                let begun = Instant::now();
                let (held, done) = session.writing("settling", |statements| {
                    let held = still_held(statements, me, &leases)?;
                    let settling = Settling { statements, me, now: statements.now()?, held: &held };
                    let done = settling.some(rest, begun, &mut rows)?;
                    Ok((held, done))
                })?;
                leases = held;
                rest = rest.get(done..).unwrap_or_default();
                if rest.is_empty() {
                    let lanes = leases.iter().map(|held| held.lane).collect();
                    return Ok(Settled { rows, lanes });
                }
                std::thread::sleep(BREATH);
            }
        });
        settled.await
    }
}

/// The leases that stand under this owner and term. The write lock is held, so none of them can change before the end.
fn still_held(statements: &Statements<'_>, me: RelayId, leases: &[HeldLane]) -> Done<Vec<HeldLane>> {
    let owner = me.to_string();
    let mut held = Vec::with_capacity(leases.len());
    for lease in leases {
        if statements.first(HOLDS, params![lease.lane.0, owner, lease.term.0], |_| Ok(()))?.is_some() {
            held.push(*lease);
        }
    }
    Ok(held)
}

/// One transaction's worth of settling.
struct Settling<'s, 'c> {
    statements: &'s Statements<'c>,
    me: RelayId,
    now: Timestamp,
    held: &'s [HeldLane],
}

impl Settling<'_, '_> {
    /// Settles until the time is up, at least one; how many were looked at.
    fn some(&self, batch: &[Settlement], begun: Instant, rows: &mut Vec<postrider_core::RowId>) -> Done<usize> {
        let lanes: BTreeSet<Lane> = self.held.iter().map(|held| held.lane).collect();
        for (place, settlement) in batch.iter().enumerate() {
            if place > 0 && begun.elapsed() >= HOLD {
                return Ok(place);
            }
            if lanes.contains(&settlement.lane) && self.one(settlement)? > 0 {
                rows.push(settlement.row);
            }
        }
        Ok(batch.len())
    }

    fn one(&self, settlement: &Settlement) -> Done<usize> {
        let (statements, now, id) = (self.statements, self.now.0, settlement.row.0);
        let is_remembered = settlement.outcome == Outcome::Delivered && statements.options.history == History::Kept;
        let goes = matches!(settlement.outcome, Outcome::Delivered | Outcome::Dropped);
        if let Some(message) = settlement.message.filter(|_| goes && !is_remembered) {
            // Nearly every row: whatever else it may be is only looked for where this one is not there.
            let removed = statements.execute(REMOVED, params![id, message.to_string()])?;
            if removed > 0 {
                return Ok(removed);
            }
        }
        if !self.is_there(settlement)? {
            return Ok(0);
        }
        match &settlement.outcome {
            Outcome::Delivered => {
                if is_remembered {
                    statements.execute(REMEMBER, params![id, settlement.attempt.0, now])?;
                }
                statements.execute(REMOVED_WHATEVER_ITS_ID, [id])
            }
            Outcome::Dropped => statements.execute(REMOVED_WHATEVER_ITS_ID, [id]),
            Outcome::Retry { after, attempts, waiting_for, progress, failures }
            | Outcome::Forward { after, attempts, waiting_for, progress, failures, .. } => {
                let reason = match settlement.outcome {
                    Outcome::Forward { reason, .. } => Some(reason.code()),
                    _ => None,
                };
                let Some(errors) = self.errors(id)? else { return Ok(0) };
                let errors = appended(errors.as_deref(), self.now, self.me, settlement.attempt, failures);
                let next = now.saturating_add(micros(*after));
                let owed = waiting_for.as_deref().map(array);
                let (progress, suspicion) = (object(progress), settlement.suspicion);
                statements.execute(RETRY, params![id, next, attempts, owed, progress, errors, now, reason, suspicion])
            }
            Outcome::SetAside { waiting_for } => {
                statements.execute(SET_ASIDE, params![id, waiting_for.as_deref().map(array), settlement.suspicion])
            }
            Outcome::Suspected { suspicion } => statements.execute(SUSPECTED, params![id, suspicion]),
            Outcome::Dead { reason, attempts, waiting_for, failures }
            | Outcome::Holding { reason, attempts, waiting_for, failures } => {
                let holds = matches!(settlement.outcome, Outcome::Holding { .. });
                let state = if holds { RowState::Holding } else { RowState::Dead };
                let Some(errors) = self.errors(id)? else { return Ok(0) };
                let errors = appended(errors.as_deref(), self.now, self.me, settlement.attempt, failures);
                let owed = waiting_for.as_deref().map(array);
                let tried = !failures.is_empty();
                statements.execute(DEAD, params![id, attempts, owed, errors, now, reason.code(), tried, state.code()])
            }
        }
    }

    /// Whether the row is there with the message that is settled.
    fn is_there(&self, settlement: &Settlement) -> Done<bool> {
        let Some(found) = self.statements.first(MESSAGE, [settlement.row.0], text)? else { return Ok(false) };
        let message = found.and_then(|text| Uuid::parse_str(&text).ok()).map(MessageId);
        Ok(settlement.is_for(message))
    }

    /// The errors column of a row that can be settled; none where there is no such row.
    fn errors(&self, id: i64) -> Done<Option<Option<String>>> {
        self.statements.first(ERRORS, [id], text)
    }
}

/// The first column of a row, where it is text.
fn text(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(0)?.as_bytes_or_null().unwrap_or_default();
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()))
}

fn array(names: &[DestinationName]) -> String {
    let names: Vec<&str> = names.iter().map(DestinationName::as_str).collect();
    serde_json::Value::from(names).to_string()
}

fn object(progress: &BTreeMap<DestinationName, u32>) -> Option<String> {
    let counts: serde_json::Map<String, serde_json::Value> =
        progress.iter().map(|(name, n)| (name.to_string(), (*n).into())).collect();
    (!counts.is_empty()).then(|| serde_json::Value::Object(counts).to_string())
}

#[cfg(test)]
mod tests {
    use postrider_core::{Attempt, ErrorKind, FailedAttempt, Lane, LaneCount, RowId, Term};
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::migrate;

    const FILL: &str = r#"insert into "{p}outbox" (topic, payload)
with recursive n (i) as (select 1 union all select i + 1 from n where i < 200) select 't', 'x' from n"#;
    const OWN: &str = r#"update "{p}lane" set owner = ?1, term = 1"#;
    const UNTOUCHED: &str = r#"select count(*) from "{p}outbox" where state = 0 and next_attempt_at is null"#;

    fn settlement(row: i64) -> Settlement {
        let text = "e".repeat(1_000);
        let failures =
            vec![FailedAttempt { destination: DestinationName::new("d"), kind: ErrorKind::Rejected, text, moment: 1 }];
        let (after, progress) = (Duration::ZERO, BTreeMap::new());
        Settlement {
            row: RowId(row),
            message: None,
            lane: Lane(0),
            outcome: Outcome::Retry { after, attempts: 1, waiting_for: None, progress, failures },
            attempt: Attempt(1),
            suspicion: 0,
        }
    }

    #[tokio::test]
    async fn a_disk_that_fills_up_during_a_settle_is_unavailable_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let options = Arc::new(SqliteOptions::new(folder.path().join("app.db")));
        migrate(&options, Some(LaneCount::ONE)).await.unwrap();
        let me = RelayId(Uuid::now_v7());
        let lease = HeldLane { lane: Lane(0), term: Term(1), start: postrider_core::Start::Clean };
        let batch: Vec<Settlement> = (1..=200).map(settlement).collect();
        let mut settler = SqliteSettler::new(options);
        // The limit is the connection's: the file may not grow by a page.
        let filled = settler.link.run(move |session| {
            session.writing("filling", |statements| {
                statements.execute(FILL, [])?;
                statements.execute(OWN, [me.to_string()])
            })?;
            let pages: i64 = session.connection.query_row("pragma page_count", [], |row| row.get(0)).unwrap();
            session.connection.query_row(&format!("pragma max_page_count = {pages}"), [], |_| Ok(())).unwrap();
            Ok(())
        });
        filled.await.unwrap();
        let error = settler.settle(me, &[lease], &batch).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("free some space"), "{error}");
        let count = |session: &mut super::super::link::Session<'_>| {
            session.reading("counting", |statements| statements.first(UNTOUCHED, [], |row| row.get::<_, i64>(0)))
        };
        assert_eq!(settler.link.run(count).await.unwrap(), Some(200), "the transaction is undone whole");
        assert_eq!(settler.settle(me, &[lease], &batch).await.unwrap().rows.len(), 200, "and done when there is space");
    }
}
