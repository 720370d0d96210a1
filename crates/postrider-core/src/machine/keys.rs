//! What the machine remembers of a key while it has rows of it in memory, or owes it a look at the table.

use std::collections::{HashMap, VecDeque};

use super::destinations::{DestinationIndex, Destinations};
use crate::lane::Lane;
use crate::message::Key;
use crate::row::RowId;

/// The rows of a key that wait for one destination.
#[derive(Debug, Default, Clone)]
pub(super) struct Queue {
    /// By ascending row.
    pub(super) waiting: VecDeque<RowId>,
    /// How many are sent and not answered.
    pub(super) flying: usize,
    /// Whether the key stands in the destination's line already.
    pub(super) in_line: bool,
}

impl Queue {
    pub(super) fn insert(&mut self, row: RowId) {
        let place = self.waiting.iter().rposition(|known| *known < row).map_or(0, |before| before + 1);
        self.waiting.insert(place, row);
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.flying == 0
    }
}

/// One key.
#[derive(Debug)]
pub(super) struct KeyRecord {
    pub(super) lane: Lane,
    pub(super) queues: Vec<Queue>,
    /// Where exceptional rows of this key may stand in the table: later rows must not overtake them.
    pub(super) aside: Destinations,
    /// The head is scheduled in the table, so that the due query will bring it: no need to look.
    pub(super) head_is_scheduled: bool,
    /// Something was set aside, or arrived closed, since the last look at the table was sent.
    pub(super) look_again: bool,
    /// A look at the table is asked for or under way.
    pub(super) looking: bool,
    /// Rows of this key in the window.
    pub(super) members: usize,
    /// Of these, those whose retry or set-aside is not settled yet.
    pub(super) unsettled: usize,
    /// Where a row failed whose retry is not settled yet.
    pub(super) failing: Destinations,
    /// Rows given up whose end is not settled yet: their successors wait for that in memory, because a crash would
    /// bring the row back.
    pub(super) burying: usize,
}

impl KeyRecord {
    fn new(lane: Lane, destinations: usize) -> Self {
        Self {
            lane,
            queues: vec![Queue::default(); destinations],
            aside: Destinations::NONE,
            head_is_scheduled: false,
            look_again: false,
            looking: false,
            members: 0,
            unsettled: 0,
            failing: Destinations::NONE,
            burying: 0,
        }
    }

    /// Whether the exceptional rows in the table are to be looked at now: nothing of the key is on its way to the
    /// destinations they wait for, and nothing about to be written.
    pub(super) fn wants_look(&self, paused: Destinations) -> bool {
        let wanted = self.aside.without(paused);
        !wanted.is_empty()
            && !self.looking
            && !self.head_is_scheduled
            && self.unsettled == 0
            && wanted.iter().all(|d| self.queues.get(d.get()).is_none_or(Queue::is_idle))
    }

    /// Whether a row that did not go there must wait in the table instead of in memory.
    pub(super) fn is_closed(&self, destination: DestinationIndex) -> bool {
        self.failing.contains(destination) || (self.head_is_scheduled && self.aside.contains(destination))
    }

    fn is_idle(&self) -> bool {
        self.members == 0 && !self.looking && self.unsettled == 0
    }
}

/// Every key that the machine knows of.
#[derive(Debug)]
pub(super) struct Keys {
    records: HashMap<Key, KeyRecord>,
    destinations: usize,
    /// Closed keys without rows in memory, kept while a read is under way that was sent before they closed.
    lingering: VecDeque<(u64, Key)>,
    /// Keys whose exceptional rows are to be looked at, in order.
    looks: VecDeque<Key>,
}

impl Keys {
    pub(super) fn new(destinations: usize) -> Self {
        Self { records: HashMap::new(), destinations, lingering: VecDeque::new(), looks: VecDeque::new() }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&KeyRecord> {
        self.records.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut KeyRecord> {
        self.records.get_mut(key)
    }

    pub(super) fn entry(&mut self, key: &Key, lane: Lane) -> &mut KeyRecord {
        let destinations = self.destinations;
        self.records.entry(key.clone()).or_insert_with(|| KeyRecord::new(lane, destinations))
    }

    pub(super) fn queue(&mut self, key: &Key, destination: DestinationIndex) -> Option<&mut Queue> {
        self.records.get_mut(key)?.queues.get_mut(destination.get())
    }

    /// Asks for a look at the table if the key wants one, and forgets the key when nothing keeps it.
    ///
    /// Nobody looks for what waits for a paused destination: the walk that follows the pause finds it.
    pub(super) fn review(&mut self, key: &Key, mark: u64, read_before_mark: bool, paused: Destinations) {
        let Some(record) = self.records.get_mut(key) else { return };
        if record.wants_look(paused) {
            record.looking = true;
            self.looks.push_back(key.clone());
        } else if record.is_idle() {
            if !record.aside.is_empty() && read_before_mark {
                self.lingering.push_back((mark, key.clone()));
            } else {
                self.records.remove(key);
            }
        }
    }

    /// The next key to look at.
    pub(super) fn next_look(&mut self) -> Option<(Lane, Key)> {
        while let Some(key) = self.looks.pop_front() {
            if let Some(record) = self.records.get(&key) {
                return Some((record.lane, key));
            }
        }
        None
    }

    pub(super) fn looks_waiting(&self) -> usize {
        self.looks.len()
    }

    /// Forgets closed keys that no read under way can contradict any more.
    pub(super) fn expire(&mut self, any_before: impl Fn(u64) -> bool) {
        while let Some((mark, _)) = self.lingering.front() {
            if any_before(*mark) {
                break;
            }
            let Some((_, key)) = self.lingering.pop_front() else { break };
            if self.records.get(&key).is_some_and(|record| record.is_idle()) {
                self.records.remove(&key);
            }
        }
    }

    pub(super) fn forget_lane(&mut self, lane: Lane) {
        self.records.retain(|_, record| record.lane != lane);
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.looks.is_empty() && self.records.values().all(|record| !record.looking)
    }
}
