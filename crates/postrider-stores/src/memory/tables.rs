//! The tables and their indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use postrider_core::{
    Closed, Content, DeadReason, DestinationName, Due, Head, HeldLane, Key, Lane, LaneCount, LaneRecord, Lifetime,
    Message, RelayId, Retrying, Row, RowId, RowState, Start, Timestamp, lane_of,
};

use crate::History;
use crate::failures::{between, micros, to_be_forwarded};

/// A row of the outbox.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) message: Message,
    pub(super) malformed: Option<String>,
    pub(super) lane: Lane,
    pub(super) created_at: Timestamp,
    pub(super) state: RowState,
    pub(super) attempts: u32,
    pub(super) last_attempt_at: Option<Timestamp>,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) waiting_for: Option<Vec<DestinationName>>,
    pub(super) progress: BTreeMap<DestinationName, u32>,
    pub(super) errors: Option<String>,
    pub(super) suspicion: u16,
    pub(super) dead_at: Option<Timestamp>,
    pub(super) dead_reason: Option<DeadReason>,
}

impl Stored {
    /// Whether the row is among the exceptions of its key.
    pub(super) fn exceptional(&self) -> bool {
        matches!(self.state, RowState::SetAside | RowState::Holding) || self.next_attempt_at.is_some()
    }

    /// When the row is found by the due query, if it is found there at all.
    pub(super) fn scheduled(&self) -> Option<Timestamp> {
        if self.state == RowState::Pending { self.next_attempt_at.or(self.message.deliver_at) } else { None }
    }

    /// Whether the row is found by its id: pending, without a scheduled attempt.
    pub(super) fn ordinary(&self) -> bool {
        self.state == RowState::Pending && self.next_attempt_at.is_none()
    }
}

/// A row of the history.
#[derive(Debug, Clone)]
pub(super) struct Delivered {
    pub(super) row: RowId,
    pub(super) message: Message,
    pub(super) attempts: u32,
    pub(super) settled_at: Timestamp,
}

/// A relay.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) expires_at: Timestamp,
}

/// Everything the store knows.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) rows: BTreeMap<RowId, Stored>,
    pub(super) exceptional: BTreeSet<(Key, RowId)>,
    pub(super) due: BTreeSet<(Timestamp, RowId)>,
    pub(super) delivered: Vec<Delivered>,
    pub(super) members: BTreeMap<RelayId, Member>,
    pub(super) leases: BTreeMap<Lane, LaneRecord>,
    lanes: LaneCount,
    history: History,
    last_id: i64,
    advanced: Duration,
}

impl Tables {
    pub(super) fn new(lanes: LaneCount, history: History) -> Self {
        Self {
            rows: BTreeMap::new(),
            exceptional: BTreeSet::new(),
            due: BTreeSet::new(),
            delivered: Vec::new(),
            members: BTreeMap::new(),
            leases: lanes.all().map(|lane| (lane, LaneRecord::NEW)).collect(),
            lanes,
            history,
            last_id: 0,
            advanced: Duration::ZERO,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(micros(since_epoch.saturating_add(self.advanced)))
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.advanced = self.advanced.saturating_add(by);
    }

    pub(super) fn insert(&mut self, message: Message, malformed: Option<String>) -> RowId {
        let malformed = malformed.or_else(|| message.validate().err().map(|invalid| invalid.to_string()));
        let lane = match &message.key {
            Some(key) => lane_of(key.as_str(), self.lanes),
            None => lane_of(&message.id.to_string(), self.lanes),
        };
        self.last_id += 1;
        let id = RowId(self.last_id);
        let stored = Stored {
            message,
            malformed,
            lane,
            created_at: self.now(),
            state: RowState::Pending,
            attempts: 0,
            last_attempt_at: None,
            next_attempt_at: None,
            waiting_for: None,
            progress: BTreeMap::new(),
            errors: None,
            suspicion: 0,
            dead_at: None,
            dead_reason: None,
        };
        self.put(id, stored);
        id
    }

    /// What the rows that keep their order with this one are found by; none when it keeps none.
    fn group(&self, stored: &Stored) -> Option<Key> {
        if self.lanes == LaneCount::ONE { Some(Key::everything()) } else { stored.message.key.clone() }
    }

    /// Writes a row and its index entries.
    pub(super) fn put(&mut self, id: RowId, stored: Stored) {
        self.take(id);
        if let (true, Some(group)) = (stored.exceptional(), self.group(&stored)) {
            self.exceptional.insert((group, id));
        }
        if let Some(at) = stored.scheduled() {
            self.due.insert((at, id));
        }
        self.rows.insert(id, stored);
    }

    /// Removes a row and its index entries.
    pub(super) fn take(&mut self, id: RowId) -> Option<Stored> {
        let stored = self.rows.remove(&id)?;
        if let Some(group) = self.group(&stored) {
            self.exceptional.remove(&(group, id));
        }
        if let Some(at) = stored.scheduled() {
            self.due.remove(&(at, id));
        }
        Some(stored)
    }

    /// Removes a dead letter for good. When it held its key, the first row set aside for it is made due: nothing else
    /// would look for what an operator changed.
    pub(super) fn remove_dead(&mut self, id: RowId) -> Option<Stored> {
        let removed = self.take(id)?;
        let now = self.now();
        let group = self.group(&removed).filter(|_| removed.state == RowState::Holding);
        let waits = |row: &RowId| self.rows.get(row).is_some_and(|row| row.state == RowState::SetAside);
        let freed = group.and_then(|group| self.exceptions(&group).find(waits));
        if let Some((id, mut stored)) = freed.and_then(|id| Some((id, self.take(id)?))) {
            stored.state = RowState::Pending;
            stored.next_attempt_at = Some(now);
            self.put(id, stored);
        }
        Some(removed)
    }

    /// Removes a row that was delivered, into the history where one is kept.
    pub(super) fn deliver(&mut self, id: RowId) {
        let settled_at = self.now();
        if let (Some(stored), History::Kept) = (self.take(id), self.history) {
            let message = Message { created_at: Some(stored.created_at), ..stored.message };
            self.delivered.push(Delivered { row: id, message, attempts: stored.attempts, settled_at });
        }
    }

    pub(super) fn steal(&mut self, lane: Lane, thief: RelayId) {
        if let Some(record) = self.leases.get_mut(&lane) {
            record.free();
            record.acquire(lane, thief);
        }
    }

    pub(super) fn holds(&self, me: RelayId, held: HeldLane) -> bool {
        self.leases.get(&held.lane).is_some_and(|lane| lane.admits(me, held.term))
    }

    /// The first exceptional row that this one keeps its order with; it may be itself.
    pub(super) fn first_exception(&self, stored: &Stored) -> Option<RowId> {
        self.exceptions(&self.group(stored)?).next()
    }

    /// The exceptional rows of a key by ascending id; of all by [`Key::everything`], where all have one order.
    pub(super) fn exceptions<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = RowId> + 'a {
        let (first, last) = ((key.clone(), RowId(i64::MIN)), (key.clone(), RowId(i64::MAX)));
        self.exceptional.range(first..=last).map(|(_, id)| *id)
    }

    /// The row as a source reads it in a lane that starts like this.
    pub(super) fn view_as(&self, id: RowId, stored: &Stored, start: Start) -> Row {
        let row = self.view(id, stored);
        match (&row.content, start) {
            (Content::Message(message), Start::Careful) => {
                let head = Head {
                    id: Some(message.id),
                    topic: message.topic.clone(),
                    key: message.key.clone(),
                    suspicion: stored.suspicion,
                    has_retry: message.retry.is_some(),
                };
                Row { content: Content::Head(head), ..row }
            }
            (Content::Message(_) | Content::Malformed { .. } | Content::Head(_), _) => row,
        }
    }

    /// The row as a source reads it, with what stands before it.
    pub(super) fn view(&self, id: RowId, stored: &Stored) -> Row {
        let now = self.now();
        let due = match stored.next_attempt_at.or(stored.message.deliver_at) {
            Some(at) if at > now => Due::In(between(now, at)),
            Some(_) | None => Due::Now,
        };
        let content = match &stored.malformed {
            Some(reason) => Content::Malformed {
                id: Some(stored.message.id),
                key: stored.message.key.clone(),
                reason: reason.clone(),
            },
            None => {
                let created_at = Some(stored.created_at);
                Content::Message(Arc::new(Message { created_at, ..stored.message.clone() }))
            }
        };
        Row {
            id,
            lane: stored.lane,
            content,
            weight: stored.message.weight(),
            state: stored.state,
            due,
            lifetime: Lifetime::at(now, Some(stored.created_at), stored.message.expires_at),
            retrying: if stored.next_attempt_at.is_some() { Retrying::Yes } else { Retrying::No },
            attempts: stored.attempts,
            waiting_for: stored.waiting_for.clone(),
            progress: stored.progress.clone(),
            closed: self.closed(id, stored),
            given_up: to_be_forwarded(stored.state, stored.dead_reason, stored.attempts, stored.errors.as_deref()),
        }
    }

    fn closed(&self, id: RowId, stored: &Stored) -> Closed {
        let Some(group) = self.group(stored) else { return Closed::Open };
        let mut owed = BTreeSet::new();
        for before in self.exceptions(&group).take_while(|before| *before < id) {
            match self.rows.get(&before).and_then(|row| row.waiting_for.as_ref()) {
                Some(destinations) => owed.extend(destinations.iter().cloned()),
                None => return Closed::ForAll,
            }
        }
        if owed.is_empty() { Closed::Open } else { Closed::For(owed.into_iter().collect()) }
    }
}
