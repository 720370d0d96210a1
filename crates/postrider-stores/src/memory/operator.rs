//! What people and the housekeeping need.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    DeadFilter, DeadGroup, DeadReason, DeliveredView, Error, ErrorKind, Explained, Finding, Forgotten, Held, HeldKey,
    Key, LaneStatus, Level, Measured, MemberStatus, Message, MessageId, Operator, PastRow, Position, Pruned, RelayId,
    Remains, Result, Retention, Room, RowId, RowState, RowView, Standing, StoreStatus, Subject, Timestamp, past_ids,
};

use super::MemoryStore;
use super::tables::{Delivered, Stored, Tables};
use crate::failures::{between, found_no_route, latest};
use crate::page::Filling;

/// The operator's side.
#[derive(Debug)]
pub(super) struct MemoryOperator(pub(super) MemoryStore);

const EXPLAINED: usize = 100;
const RECENT: usize = 5;
const HELD_KEYS: usize = 5;
const UNROUTED: usize = 5;

/// The most topics that are told.
const TOPICS: usize = 100;

#[async_trait]
impl Operator for MemoryOperator {
    async fn topics(&mut self) -> Result<Vec<String>> {
        let tables = self.0.lock();
        let waiting = tables.rows.values().filter(|stored| live(stored));
        let topics: BTreeSet<String> = waiting.map(|stored| stored.message.topic.as_str().to_owned()).collect();
        Ok(topics.into_iter().take(TOPICS).collect())
    }

    async fn status(&mut self, bound: u32) -> Result<StoreStatus> {
        let tables = self.0.lock();
        let now = tables.now();
        let count = |holds: &dyn Fn(&Stored) -> bool| {
            let n = tables.rows.values().filter(|stored| holds(stored)).count() as u64;
            if n <= u64::from(bound) { Measured::Exact(n) } else { Measured::Estimated(n) }
        };
        let waits = |stored: &Stored| stored.message.deliver_at.is_some_and(|at| at > now);
        let oldest = tables.rows.values().filter(|stored| live(stored) && !waits(stored)).map(|stored| {
            let since = stored.message.deliver_at.map_or(stored.created_at, |at| at.max(stored.created_at));
            between(since, now)
        });
        let mut retried: Vec<&Stored> = tables
            .rows
            .values()
            .filter(|stored| stored.state == RowState::Pending && stored.errors.is_some())
            .collect();
        retried.sort_by_key(|stored| std::cmp::Reverse(stored.last_attempt_at));
        let unrouted: BTreeSet<String> = retried
            .iter()
            .filter(|stored| stored.dead_reason.is_none() && stored.errors.as_deref().is_some_and(found_no_route))
            .map(|stored| stored.message.topic.as_str().to_owned())
            .collect();
        Ok(StoreStatus {
            pending: count(&live),
            retrying: count(&|stored| stored.state == RowState::Pending && stored.next_attempt_at.is_some()),
            delayed: count(&|stored| stored.ordinary() && waits(stored)),
            set_aside: count(&|stored| stored.state == RowState::SetAside),
            dead: count(&dead),
            holding: count(&|stored| stored.state == RowState::Holding),
            held_back: count(&|stored| stored.state == RowState::SetAside && is_held(&tables, stored)),
            held: held_keys(&tables, bound),
            oldest_age: oldest.max(),
            recent_errors: retried.iter().filter_map(|stored| latest(stored.errors.as_deref()?)).take(RECENT).collect(),
            unrouted: unrouted.into_iter().take(UNROUTED).collect(),
            members: tables.members.keys().filter_map(|id| member(&tables, *id)).collect(),
            lanes: tables
                .leases
                .iter()
                .map(|(lane, lease)| LaneStatus { lane: *lane, owner: lease.owner.map(|o| o.0), term: lease.term })
                .collect(),
        })
    }

    async fn explain(&mut self, subject: &Subject, _timeout: Duration) -> Result<Vec<Explained>> {
        let tables = self.0.lock();
        let now = tables.now();
        let meant = |message: &Message| match subject {
            Subject::Id(id) => message.id == *id,
            Subject::Key(key) => message.key.as_ref() == Some(key),
        };
        let here = tables.rows.iter().filter(|(_, stored)| meant(&stored.message)).map(|(id, stored)| Explained {
            standing: Standing::Outbox(Box::new(view(*id, stored))),
            held: held(&tables, *id, stored),
            owner: tables.leases.get(&stored.lane).and_then(|lease| member(&tables, lease.owner?)),
            now,
        });
        let gone = tables.delivered.iter().filter(|row| meant(&row.message)).map(|row| Explained {
            standing: Standing::Delivered {
                row: row.row,
                id: row.message.id,
                key: row.message.key.clone(),
                topic: row.message.topic.as_str().to_owned(),
                settled_at: row.settled_at,
            },
            held: None,
            owner: None,
            now,
        });
        Ok(here.chain(gone).take(EXPLAINED).collect())
    }

    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
        let tables = self.0.lock();
        let rows = meant(&tables, filter).filter(|(id, _)| *id > position.after);
        Ok(rows.take(position.limit as usize).map(|(id, stored)| view(id, stored)).collect())
    }

    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
        let tables = self.0.lock();
        let now = tables.now();
        let mut groups: BTreeMap<(String, Option<i16>), DeadGroup> = BTreeMap::new();
        for (_, stored) in meant(&tables, filter) {
            let topic = stored.message.topic.as_str().to_owned();
            let reason = stored.dead_reason;
            let group = groups.entry((topic.clone(), reason.map(DeadReason::code))).or_insert(DeadGroup {
                topic,
                reason,
                count: 0,
                oldest: Duration::ZERO,
            });
            group.count += 1;
            group.oldest = group.oldest.max(stored.dead_at.map_or(Duration::ZERO, |at| between(at, now)));
        }
        Ok(groups.into_values().collect())
    }

    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let mut tables = self.0.lock();
        let now = tables.now();
        let rows: Vec<RowId> = meant(&tables, filter).take(limit as usize).map(|(id, _)| id).collect();
        let mut ids = Vec::new();
        for id in rows {
            if let Some(mut stored) = tables.take(id) {
                ids.push(stored.message.id);
                stored.state = RowState::Pending;
                stored.attempts = 0;
                stored.progress.clear();
                stored.next_attempt_at = Some(now);
                stored.message.expires_at = Some(Timestamp::NEVER);
                stored.dead_at = None;
                stored.dead_reason = None;
                tables.put(id, stored);
            }
        }
        Ok(ids)
    }

    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let mut tables = self.0.lock();
        let rows: Vec<RowId> = meant(&tables, filter).take(limit as usize).map(|(id, _)| id).collect();
        Ok(rows.into_iter().filter_map(|id| tables.remove_dead(id)).map(|stored| stored.message.id).collect())
    }

    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned> {
        let mut tables = self.0.lock();
        let (delivered, dead) = past(&tables, retention);
        let limit = limit as usize;
        let pruned = Pruned { delivered: delivered.len().min(limit) as u64, dead: dead.len().min(limit) as u64 };
        for id in dead.into_iter().take(limit) {
            tables.remove_dead(id);
        }
        let gone: Vec<RowId> = delivered.into_iter().take(limit).collect();
        tables.delivered.retain(|row| !gone.contains(&row.row));
        Ok(pruned)
    }

    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        let tables = self.0.lock();
        let (delivered, dead) = past(&tables, retention);
        let of = |row: &Delivered| {
            PastRow::Delivered(Box::new(DeliveredView {
                row: row.row,
                message: row.message.clone(),
                attempts: row.attempts,
                settled_at: row.settled_at,
            }))
        };
        let history = tables.delivered.iter().filter(|row| delivered.contains(&row.row)).map(of);
        let dead = dead.into_iter().filter_map(|id| Some(PastRow::Dead(Box::new(view(id, tables.rows.get(&id)?)))));
        Ok(fitting(history, room).chain(fitting(dead, room)).collect())
    }

    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        let mut tables = self.0.lock();
        let (mut delivered, mut dead) = past(&tables, retention);
        let (shown, shown_dead) = past_ids(rows);
        delivered.retain(|id| shown.contains(id));
        dead.retain(|id| shown_dead.contains(id));
        tables.delivered.retain(|row| !delivered.contains(&row.row));
        let pruned = Pruned { delivered: delivered.len() as u64, dead: dead.len() as u64 };
        for id in dead {
            tables.remove_dead(id);
        }
        Ok(pruned)
    }

    async fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        let (delivered, dead) = past(&self.0.lock(), retention);
        Ok(Pruned { delivered: delivered.len() as u64, dead: dead.len() as u64 })
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<()> {
        for message in messages {
            message.validate().map_err(|invalid| {
                Error::new(ErrorKind::Rejected, format!("message {} was not enqueued", message.id)).because(invalid)
            })?;
        }
        self.0.enqueue_committed(messages);
        Ok(())
    }

    async fn check(&mut self) -> Result<Vec<Finding>> {
        Ok(vec![Finding {
            level: Level::Warning,
            subject: "durability".to_owned(),
            found: "messages live in memory and end with the process".to_owned(),
            advice: "use the memory store in tests only".to_owned(),
        }])
    }

    /// Nobody receives in memory: there is nothing to forget.
    async fn forget(&mut self, _keep: Duration, _limit: u32) -> Result<Forgotten> {
        Ok(Forgotten::default())
    }
}

fn live(stored: &Stored) -> bool {
    matches!(stored.state, RowState::Pending | RowState::SetAside)
}

fn dead(stored: &Stored) -> bool {
    matches!(stored.state, RowState::Dead | RowState::Holding)
}

/// Whether the row's key is held. (What is set aside stands behind what holds it.)
fn is_held(tables: &Tables, stored: &Stored) -> bool {
    let holds = |id: RowId| tables.rows.get(&id).is_some_and(|row| row.state == RowState::Holding);
    stored.message.key.as_ref().is_some_and(|key| tables.exceptions(key).any(holds))
}

fn held_keys(tables: &Tables, bound: u32) -> Vec<HeldKey> {
    let now = tables.now();
    let mut held: BTreeMap<&Key, &Stored> = BTreeMap::new();
    for stored in tables.rows.values().filter(|stored| stored.state == RowState::Holding) {
        if let Some(key) = &stored.message.key {
            held.entry(key).or_insert(stored);
        }
    }
    let mut heads: Vec<(&Key, &Stored)> = held.into_iter().collect();
    heads.sort_by_key(|(_, head)| head.dead_at);
    let waiting = |key: &Key| {
        let aside = |id: &RowId| tables.rows.get(id).is_some_and(|row| row.state == RowState::SetAside);
        let n = tables.exceptions(key).filter(aside).count() as u64;
        if n <= u64::from(bound) { Measured::Exact(n) } else { Measured::Estimated(n) }
    };
    let told = heads.into_iter().take(HELD_KEYS).map(|(key, head)| HeldKey {
        key: key.clone(),
        by: head.message.id,
        since: head.dead_at.map_or(Duration::ZERO, |at| between(at, now)),
        waiting: waiting(key),
    });
    told.collect()
}

fn meant<'a>(tables: &'a Tables, filter: &'a DeadFilter) -> impl Iterator<Item = (RowId, &'a Stored)> {
    let now = tables.now();
    let holds = move |stored: &Stored| {
        let message = &stored.message;
        dead(stored)
            && (filter.ids.is_empty() || filter.ids.contains(&message.id))
            && filter.topic.as_ref().is_none_or(|topic| message.topic.as_str() == topic)
            && filter.key.as_ref().is_none_or(|key| message.key.as_ref() == Some(key))
            && filter.state.is_none_or(|state| stored.state == state)
            && filter.reason.is_none_or(|reason| stored.dead_reason == Some(reason))
            && filter.older_than.is_none_or(|age| stored.dead_at.is_some_and(|at| between(at, now) >= age))
    };
    tables.rows.iter().filter(move |(_, stored)| holds(stored)).map(|(id, stored)| (*id, stored))
}

/// As many as there is room for, and the first whatever it weighs.
fn fitting(rows: impl Iterator<Item = PastRow>, room: Room) -> impl Iterator<Item = PastRow> {
    let mut page = Filling::new(room);
    rows.take_while(move |row| page.admit(row.weight()))
}

fn past(tables: &Tables, retention: &Retention) -> (Vec<RowId>, Vec<RowId>) {
    let now = tables.now();
    let age = |at: Timestamp| between(at, now);
    let delivered = tables.delivered.iter().filter(|row| retention.removes(Remains::History, age(row.settled_at)));
    let is_gone =
        |stored: &Stored| stored.dead_at.is_some_and(|at| retention.removes(Remains::Outbox(stored.state), age(at)));
    let gone = tables.rows.iter().filter(|(_, stored)| is_gone(stored));
    (delivered.map(|row| row.row).collect(), gone.map(|(id, _)| *id).collect())
}

fn member(tables: &Tables, id: RelayId) -> Option<MemberStatus> {
    let found = tables.members.get(&id)?;
    let lease_left = between(tables.now(), found.expires_at);
    Some(MemberStatus { id: id.0, name: found.name.clone(), lease_left })
}

fn held(tables: &Tables, id: RowId, stored: &Stored) -> Option<Held> {
    let behind = tables.first_exception(stored).filter(|first| live(stored) && *first < id)?;
    let first = tables.rows.get(&behind)?;
    Some(Held { behind, id: first.message.id, state: first.state })
}

fn view(row: RowId, stored: &Stored) -> RowView {
    let message = Message { created_at: Some(stored.created_at), ..stored.message.clone() };
    let names = |names: &Vec<postrider_core::DestinationName>| names.iter().map(ToString::to_string).collect();
    RowView {
        row,
        lane: stored.lane,
        state: Some(stored.state),
        message,
        attempts: stored.attempts,
        last_attempt_at: stored.last_attempt_at,
        next_attempt_at: stored.next_attempt_at,
        waiting_for: stored.waiting_for.as_ref().map(names),
        errors: stored.errors.clone(),
        dead_at: stored.dead_at,
        dead_reason: stored.dead_reason,
    }
}
