//! What people and the housekeeping need.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    DeadFilter, DeadGroup, DeadReason, DeliveredView, Error, ErrorKind, Explained, Finding, Held, HeldKey, Key,
    LaneStatus, Level, Measured, MemberStatus, Message, MessageId, Operator, PastRow, Position, Pruned, RelayId,
    Remains, Result, Retention, Room, RowId, RowState, RowView, Standing, StoreStatus, Subject, Timestamp, past_ids,
};

use crate::JournalStore;
use crate::journal::Change;
use crate::record::{Columns, Record};
use crate::tables::{Tables, said};

const EXPLAINED: usize = 100;
const FEW: usize = 5;
const TOPICS: usize = 100;

/// The operator's side.
#[derive(Debug)]
pub struct JournalOperator(pub JournalStore);

#[async_trait]
impl Operator for JournalOperator {
    async fn status(&mut self, bound: u32) -> Result<StoreStatus> {
        let tables = self.0.lock();
        let now = tables.now();
        let rows = || tables.rows.values();
        let count = |is_meant: &dyn Fn(&Record) -> bool| measured(rows().filter(|row| is_meant(row)).count(), bound);
        let waits = |row: &Record| row.columns.deliver_at.is_some_and(|at| at > now.0);
        let since = |row: &Record| row.columns.deliver_at.map_or(row.created_at, |at| at.max(row.created_at));
        let mut retried: Vec<&Record> =
            rows().filter(|row| row.state() == RowState::Pending && !row.errors.is_empty()).collect();
        retried.sort_by_key(|row| std::cmp::Reverse(row.last_attempt_at));
        let unrouted: BTreeSet<&str> = retried
            .iter()
            .filter(|row| row.dead_reason.is_none() && row.last_error().is_some_and(|(place, _)| place.is_empty()))
            .map(|row| row.columns.topic.as_str())
            .collect();
        Ok(StoreStatus {
            pending: count(&|row| row.is_live()),
            retrying: count(&|row| row.state() == RowState::Pending && row.next_attempt_at.is_some()),
            delayed: count(&|row| row.is_ordinary() && waits(row)),
            set_aside: count(&|row| row.state() == RowState::SetAside),
            dead: count(&|row| row.is_dead()),
            holding: count(&|row| row.state() == RowState::Holding),
            held_back: count(&|row| row.state() == RowState::SetAside && is_held(&tables, row)),
            held: held_keys(&tables, bound),
            oldest_age: rows()
                .filter(|row| row.is_live() && !waits(row))
                .map(|row| now.since(Timestamp(since(row))))
                .max(),
            recent_errors: retried.iter().filter_map(|row| row.last_error().map(said)).take(FEW).collect(),
            unrouted: unrouted.into_iter().take(FEW).map(str::to_owned).collect(),
            members: tables.members.keys().filter_map(|id| member(&tables, *id)).collect(),
            lanes: tables
                .leases
                .iter()
                .map(|(lane, record)| LaneStatus {
                    lane: *lane,
                    owner: record.owner.map(|owner| owner.0),
                    term: record.term,
                })
                .collect(),
        })
    }

    async fn topics(&mut self) -> Result<Vec<String>> {
        let tables = self.0.lock();
        let waiting = tables.rows.values().filter(|row| row.is_live());
        let topics: BTreeSet<&str> = waiting.map(|row| row.columns.topic.as_str()).collect();
        Ok(topics.into_iter().take(TOPICS).map(str::to_owned).collect())
    }

    async fn explain(&mut self, subject: &Subject, _timeout: Duration) -> Result<Vec<Explained>> {
        let tables = self.0.lock();
        let now = tables.now();
        let is_meant = |columns: &Columns| match subject {
            Subject::Id(id) => columns.id() == Some(*id),
            Subject::Key(key) => columns.key().as_ref() == Some(key),
        };
        let here = tables.rows.iter().filter(|(_, row)| is_meant(&row.columns)).map(|(id, row)| Explained {
            standing: Standing::Outbox(Box::new(tables.view(*id, row))),
            held: held(&tables, *id, row),
            owner: tables.leases.get(&postrider_core::Lane(row.lane)).and_then(|lease| member(&tables, lease.owner?)),
            now,
        });
        let gone = tables.delivered.iter().filter(|(_, row)| is_meant(&row.columns)).map(|(id, row)| Explained {
            standing: Standing::Delivered {
                row: *id,
                id: row.columns.id().unwrap_or(MessageId(uuid::Uuid::nil())),
                key: row.columns.key(),
                topic: row.columns.topic.clone(),
                settled_at: Timestamp(row.settled_at),
            },
            held: None,
            owner: None,
            now,
        });
        Ok(here.chain(gone).take(EXPLAINED).collect())
    }

    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
        let tables = self.0.lock();
        let rows = meant(&tables, filter).into_iter().filter(|id| *id > position.after);
        let rows = rows.take(position.limit as usize).filter_map(|id| Some((id, tables.rows.get(&id)?)));
        Ok(rows.map(|(id, row)| tables.view(id, row)).collect())
    }

    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
        let tables = self.0.lock();
        let now = tables.now();
        let mut groups: BTreeMap<(String, Option<i16>), DeadGroup> = BTreeMap::new();
        for row in meant(&tables, filter).iter().filter_map(|id| tables.rows.get(id)) {
            let (topic, reason) = (row.columns.topic.clone(), row.reason());
            let new = DeadGroup { topic: topic.clone(), reason, count: 0, oldest: Duration::ZERO };
            let group = groups.entry((topic, reason.map(DeadReason::code))).or_insert(new);
            group.count += 1;
            group.oldest = group.oldest.max(age(now, row.dead_at));
        }
        Ok(groups.into_values().collect())
    }

    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let mut tables = self.0.lock();
        let now = tables.now().0;
        let (mut ids, mut changes) = (Vec::new(), Vec::new());
        for id in meant(&tables, filter).into_iter().take(limit as usize) {
            let Some(mut row) = tables.rows.get(&id).cloned() else { continue };
            ids.push(row.columns.id().unwrap_or(MessageId(uuid::Uuid::nil())));
            row.state = RowState::Pending.code();
            row.attempts = 0;
            row.progress.clear();
            row.next_attempt_at = Some(now);
            row.columns.expires_at = Some(Timestamp::NEVER.0);
            row.suspicion = 0;
            (row.dead_at, row.dead_reason) = (None, None);
            changes.push(Change::Row(id.0, Box::new(row)));
        }
        tables.commit(changes)?;
        Ok(ids)
    }

    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let mut tables = self.0.lock();
        let mut ids = Vec::new();
        for id in meant(&tables, filter).into_iter().take(limit as usize) {
            ids.extend(tables.rows.get(&id).map(|row| row.columns.id().unwrap_or(MessageId(uuid::Uuid::nil()))));
            bury(&mut tables, id)?;
        }
        Ok(ids)
    }

    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned> {
        let mut tables = self.0.lock();
        let (mut delivered, mut dead) = past(&tables, retention);
        delivered.truncate(limit as usize);
        dead.truncate(limit as usize);
        remove(&mut tables, &delivered, &dead)
    }

    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        let tables = self.0.lock();
        let (delivered, dead) = past(&tables, retention);
        let delivered = delivered.into_iter().filter_map(|id| {
            let row = tables.delivered.get(&id)?;
            let (message, _) = row.columns.message(row.created_at);
            let (attempts, settled_at) = (row.attempts, Timestamp(row.settled_at));
            Some(PastRow::Delivered(Box::new(DeliveredView { row: id, message, attempts, settled_at })))
        });
        let dead =
            dead.into_iter().filter_map(|id| Some(PastRow::Dead(Box::new(tables.view(id, tables.rows.get(&id)?)))));
        let mut rows = fitting(delivered, room);
        rows.extend(fitting(dead, room));
        Ok(rows)
    }

    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        let mut tables = self.0.lock();
        let (mut delivered, mut dead) = past(&tables, retention);
        let (shown, shown_dead) = past_ids(rows);
        delivered.retain(|id| shown.contains(id));
        dead.retain(|id| shown_dead.contains(id));
        remove(&mut tables, &delivered, &dead)
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
        self.0.enqueue(messages)
    }

    async fn check(&mut self) -> Result<Vec<Finding>> {
        Ok(vec![Finding {
            level: Level::Warning,
            subject: "processes".to_owned(),
            found: "the journal belongs to one process".to_owned(),
            advice: "use a database where several relays share the work".to_owned(),
        }])
    }
}

fn measured(count: usize, bound: u32) -> Measured {
    let count = count as u64;
    if count <= u64::from(bound) { Measured::Exact(count) } else { Measured::Estimated(count) }
}

fn age(now: Timestamp, since: Option<i64>) -> Duration {
    since.map_or(Duration::ZERO, |at| now.since(Timestamp(at)))
}

/// As many as there is room for, and the first whatever it weighs.
fn fitting(rows: impl Iterator<Item = PastRow>, room: Room) -> Vec<PastRow> {
    let (mut taken, mut left) = (Vec::new(), room.bytes);
    for row in rows.take(room.rows) {
        let weight = row.weight();
        if weight > left && !taken.is_empty() {
            break;
        }
        left = left.saturating_sub(weight);
        taken.push(row);
    }
    taken
}

/// Whether the row's key is held. (What is set aside stands behind what holds it.)
fn is_held(tables: &Tables, row: &Record) -> bool {
    let holds = |id: RowId| tables.rows.get(&id).is_some_and(|row| row.state() == RowState::Holding);
    row.columns.key().is_some_and(|key| tables.exceptions(&key).any(holds))
}

fn held_keys(tables: &Tables, bound: u32) -> Vec<HeldKey> {
    let mut heads: BTreeMap<Key, &Record> = BTreeMap::new();
    for row in tables.rows.values().filter(|row| row.state() == RowState::Holding) {
        if let Some(key) = row.columns.key() {
            heads.entry(key).or_insert(row);
        }
    }
    let mut heads: Vec<(Key, &Record)> = heads.into_iter().collect();
    heads.sort_by_key(|(_, head)| head.dead_at);
    let now = tables.now();
    let waiting = |key: &Key| {
        let is_aside = |id: &RowId| tables.rows.get(id).is_some_and(|row| row.state() == RowState::SetAside);
        measured(tables.exceptions(key).filter(is_aside).count(), bound)
    };
    let told = heads.into_iter().take(FEW).map(|(key, head)| HeldKey {
        by: head.columns.id().unwrap_or(MessageId(uuid::Uuid::nil())),
        since: age(now, head.dead_at),
        waiting: waiting(&key),
        key,
    });
    told.collect()
}

/// The dead letters that a filter means, by ascending row.
fn meant(tables: &Tables, filter: &DeadFilter) -> Vec<RowId> {
    let now = tables.now();
    let is_meant = |row: &Record| {
        row.is_dead()
            && (filter.ids.is_empty() || row.columns.id().is_some_and(|id| filter.ids.contains(&id)))
            && filter.topic.as_ref().is_none_or(|topic| row.columns.topic == *topic)
            && filter.key.as_ref().is_none_or(|key| row.columns.key().as_ref() == Some(key))
            && filter.state.is_none_or(|state| row.state() == state)
            && filter.reason.is_none_or(|reason| row.reason() == Some(reason))
            && filter.older_than.is_none_or(|least| row.dead_at.is_some() && age(now, row.dead_at) >= least)
    };
    tables.rows.iter().filter(|(_, row)| is_meant(row)).map(|(id, _)| *id).collect()
}

/// The rows that are past their retention: of the history, and the dead letters.
fn past(tables: &Tables, retention: &Retention) -> (Vec<RowId>, Vec<RowId>) {
    let now = tables.now();
    let is_old = |what: Remains, since: i64| retention.removes(what, age(now, Some(since)));
    let delivered = tables.delivered.iter().filter(|(_, row)| is_old(Remains::History, row.settled_at));
    let dead = tables
        .rows
        .iter()
        .filter(|(_, row)| row.is_dead() && row.dead_at.is_some_and(|at| is_old(Remains::Outbox(row.state()), at)));
    (delivered.map(|(id, _)| *id).collect(), dead.map(|(id, _)| *id).collect())
}

fn remove(tables: &mut Tables, delivered: &[RowId], dead: &[RowId]) -> Result<Pruned> {
    tables.commit(delivered.iter().map(|id| Change::Forgotten(id.0)).collect())?;
    dead.iter().try_for_each(|id| bury(tables, *id))?;
    Ok(Pruned { delivered: delivered.len() as u64, dead: dead.len() as u64 })
}

fn bury(tables: &mut Tables, id: RowId) -> Result<()> {
    let changes = tables.burial(id);
    tables.commit(changes)
}

fn member(tables: &Tables, id: RelayId) -> Option<MemberStatus> {
    let found = tables.members.get(&id)?;
    let lease_left = Timestamp(found.expires_at).since(tables.now());
    Some(MemberStatus { id: id.0, name: found.name.clone(), lease_left })
}

fn held(tables: &Tables, id: RowId, row: &Record) -> Option<Held> {
    let behind = tables.first_exception(row).filter(|first| row.is_live() && *first < id)?;
    let first = tables.rows.get(&behind)?;
    Some(Held { behind, id: first.columns.id().unwrap_or(MessageId(uuid::Uuid::nil())), state: first.state() })
}
