//! What the journal says, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Closed, Content, Due, GivenUp, Head, HeldLane, Key, Lane, LaneCount, LaneRecord, Lifetime, RelayId, Result,
    Retrying, Row, RowId, RowState, RowView, Start, Term, Timestamp, lane_of,
};

use crate::Clock;
use crate::journal::{Change, Journal};
use crate::record::{Columns, Delivered, Record};

/// A relay that shares the outbox. Members end with the process, and so they are not in the journal.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: String,
    pub expires_at: i64,
}

/// Everything the store knows.
pub struct Tables {
    journal: Journal,
    clock: Clock,
    lanes: LaneCount,
    last_id: i64,
    pub rows: BTreeMap<RowId, Record>,
    pub delivered: BTreeMap<RowId, Delivered>,
    pub leases: BTreeMap<Lane, LaneRecord>,
    pub members: BTreeMap<RelayId, Member>,
    /// The exceptional rows by what keeps its order with them.
    exceptional: BTreeSet<(Key, RowId)>,
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("journal", &self.journal).field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl Tables {
    pub fn open(path: &Path, lanes: LaneCount, clock: Clock) -> Result<Self> {
        let mut read = Vec::new();
        let journal = Journal::open(path, |changes| read.push(changes))?;
        let mut tables = Self {
            journal,
            clock,
            lanes,
            last_id: 0,
            rows: BTreeMap::new(),
            delivered: BTreeMap::new(),
            leases: lanes.all().map(|lane| (lane, LaneRecord::NEW)).collect(),
            members: BTreeMap::new(),
            exceptional: BTreeSet::new(),
        };
        read.into_iter().flatten().for_each(|change| tables.apply(change));
        Ok(tables)
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Makes a transaction durable, and then part of the tables.
    pub fn commit(&mut self, changes: Vec<Change>) -> Result<()> {
        if !changes.is_empty() {
            self.journal.write(&changes)?;
        }
        changes.into_iter().for_each(|change| self.apply(change));
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Row(id, record) => {
                self.take(RowId(id));
                self.last_id = self.last_id.max(id);
                if let (true, Some(group)) = (record.is_exceptional(), self.group(&record)) {
                    self.exceptional.insert((group, RowId(id)));
                }
                self.rows.insert(RowId(id), *record);
            }
            Change::Gone(id) => self.take(RowId(id)),
            Change::Delivered(id, delivered) => {
                self.last_id = self.last_id.max(id);
                self.delivered.insert(RowId(id), *delivered);
            }
            Change::Forgotten(id) => drop(self.delivered.remove(&RowId(id))),
            Change::Lane(lane, term, clean) => {
                // Whoever owned it is gone with the process that wrote this, unless that is us: then `change_lane` says who.
                self.leases.insert(Lane(lane), LaneRecord { term: Term(term), clean, ..LaneRecord::NEW });
            }
        }
    }

    fn take(&mut self, id: RowId) {
        if let Some(record) = self.rows.remove(&id)
            && let Some(group) = self.group(&record)
        {
            self.exceptional.remove(&(group, id));
        }
    }

    pub fn enqueue(&mut self, rows: Vec<Columns>) -> Result<()> {
        let now = self.now().0;
        let changes = rows.into_iter().zip(self.last_id + 1..).map(|(columns, id)| {
            let lane = lane_of(columns.key.as_deref().unwrap_or(&columns.message_id), self.lanes);
            Change::Row(id, Box::new(Record::new(columns, lane.0, now)))
        });
        let changes = changes.collect();
        self.commit(changes)
    }

    /// Changes a lane and writes down how it would be found after a crash.
    pub fn change_lane<T>(&mut self, lane: Lane, change: impl FnOnce(&mut LaneRecord) -> T) -> Result<T> {
        let mut record = self.leases.get(&lane).copied().unwrap_or(LaneRecord::NEW);
        let answer = change(&mut record);
        // A lane that is owned was not given back: its next owner starts carefully.
        self.commit(vec![Change::Lane(lane.0, record.term.0, record.clean)])?;
        self.leases.insert(lane, record);
        Ok(answer)
    }

    pub fn holds(&self, me: RelayId, held: HeldLane) -> bool {
        self.leases.get(&held.lane).is_some_and(|lane| lane.admits(me, held.term))
    }

    /// What the rows that keep their order with this one are found by; none when it keeps none.
    fn group(&self, record: &Record) -> Option<Key> {
        if self.lanes == LaneCount::ONE { Some(Key::everything()) } else { record.columns.key() }
    }

    /// The exceptional rows of a key by ascending id; of all by [`Key::everything`], where all have one order.
    pub fn exceptions<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = RowId> + 'a {
        let (first, last) = ((key.clone(), RowId(i64::MIN)), (key.clone(), RowId(i64::MAX)));
        self.exceptional.range(first..=last).map(|(_, id)| *id)
    }

    /// The keys of exceptional rows of a lane, each once, after another one.
    pub fn exceptional_keys(&self, lane: Lane, after: Option<&Key>, limit: usize) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for (key, id) in &self.exceptional {
            let is_of_lane = self.rows.get(id).is_some_and(|record| record.lane == lane.0);
            if is_of_lane && after.is_none_or(|after| key > after) && keys.last() != Some(key) && keys.len() < limit {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// The first exceptional row that this one keeps its order with; it may be itself.
    pub fn first_exception(&self, record: &Record) -> Option<RowId> {
        self.exceptions(&self.group(record)?).next()
    }

    /// What removing a dead letter for good takes: when it held its key, the first row that was set aside for it is made
    /// due, because nothing else would look for what an operator changed. That one may stand before it, when its own moment
    /// came later.
    pub fn burial(&self, id: RowId) -> Vec<Change> {
        let Some(dead) = self.rows.get(&id) else { return Vec::new() };
        let mut changes = vec![Change::Gone(id.0)];
        let waits = |row: &RowId| self.rows.get(row).is_some_and(|row| row.state() == RowState::SetAside);
        let group = self.group(dead).filter(|_| dead.state() == RowState::Holding);
        let freed = group.and_then(|group| self.exceptions(&group).find(waits));
        if let Some((id, record)) = freed.and_then(|id| Some((id, self.rows.get(&id)?))) {
            let mut record = record.clone();
            record.state = RowState::Pending.code();
            record.next_attempt_at = Some(self.now().0);
            changes.push(Change::Row(id.0, Box::new(record)));
        }
        changes
    }

    /// The row as a source reads it in a lane that starts like this, with what stands before it.
    pub fn row(&self, id: RowId, record: &Record, start: Start) -> Row {
        let now = self.now();
        let (message, problem) = record.columns.message(record.created_at);
        let weight = message.weight();
        let lifetime = Lifetime::at(now, message.created_at, message.expires_at);
        let due = match record.next_attempt_at.or(record.columns.deliver_at) {
            Some(at) if at > now.0 => Due::In(Timestamp(at).since(now)),
            Some(_) | None => Due::Now,
        };
        let content = match (problem, start) {
            (Some(reason), _) => Content::Malformed { id: record.columns.id(), key: record.columns.key(), reason },
            (None, Start::Clean) => Content::Message(Arc::new(message)),
            (None, Start::Careful) => Content::Head(Head {
                id: record.columns.id(),
                topic: message.topic,
                key: message.key,
                suspicion: record.suspicion,
                has_retry: record.columns.retry.is_some(),
            }),
        };
        let progress = record.progress.iter().map(|(name, count)| (postrider_core::DestinationName::new(name), *count));
        Row {
            id,
            lane: Lane(record.lane),
            content,
            weight,
            state: record.state(),
            due,
            lifetime,
            retrying: if record.next_attempt_at.is_some() { Retrying::Yes } else { Retrying::No },
            attempts: record.attempts,
            waiting_for: record.owed(),
            progress: progress.collect(),
            closed: self.closed(id, record),
            given_up: record.reason().filter(|_| record.is_live()).map(|reason| GivenUp {
                reason,
                attempts: record.attempts,
                error: record.last_error().map(said).unwrap_or_default(),
            }),
        }
    }

    fn closed(&self, id: RowId, record: &Record) -> Closed {
        let Some(group) = self.group(record) else { return Closed::Open };
        let mut owed = BTreeSet::new();
        for before in self.exceptions(&group).take_while(|before| *before < id) {
            match self.rows.get(&before).and_then(Record::owed) {
                Some(destinations) => owed.extend(destinations),
                None => return Closed::ForAll,
            }
        }
        if owed.is_empty() { Closed::Open } else { Closed::For(owed.into_iter().collect()) }
    }

    /// The row as people look at it.
    pub fn view(&self, id: RowId, record: &Record) -> RowView {
        RowView {
            row: id,
            lane: Lane(record.lane),
            state: RowState::from_code(record.state),
            message: record.columns.message(record.created_at).0,
            attempts: record.attempts,
            last_attempt_at: record.last_attempt_at.map(Timestamp),
            next_attempt_at: record.next_attempt_at.map(Timestamp),
            waiting_for: record.waiting_for.clone(),
            errors: (!record.errors.is_empty()).then(|| serde_json::Value::Array(record.errors.clone()).to_string()),
            dead_at: record.dead_at.map(Timestamp),
            dead_reason: record.reason(),
        }
    }
}

/// A failure as people read it.
pub fn said((destination, text): (String, String)) -> String {
    if destination.is_empty() { text } else { format!("{destination}: {text}") }
}

/// A length of time in microseconds, as far as they reach.
pub fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
