//! The rows in memory: bounded by number and by bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::careful::Care;
use super::destinations::{DestinationIndex, Destinations};
use super::keys::{KeySlot, Keys};
use super::slots::{Slot, Slots};
use super::troubles::Troubles;
use crate::lane::{Lane, Term};
use crate::message::{Key, Message, MessageId, Topic};
use crate::row::{GivenUp, Head, RowId, RowMap};
use crate::seams::{Attempt, Room};
use crate::tick::Tick;

/// One row from being read to having its settle answered.
#[derive(Debug)]
pub(super) struct Entry {
    /// Tells this stay in the window from an earlier one of the same row, before its lane was lost and regained.
    pub(super) stay: u64,
    pub(super) lane: Lane,
    pub(super) term: Term,
    /// Of the message, whether that is here or not; none where it could not be read.
    pub(super) id: Option<MessageId>,
    pub(super) message: Option<Arc<Message>>,
    pub(super) key: Option<KeySlot>,
    pub(super) weight: usize,
    /// Whether `waiting_for` in the table is null.
    pub(super) owes_every_route: bool,
    /// Whether the due query could bring it again.
    pub(super) scheduled: bool,
    pub(super) attempts: u32,
    pub(super) troubles: Troubles,
    /// The last attempt that was made at it in this stay; 0 before the first.
    pub(super) attempt: Attempt,
    /// Queued.
    pub(super) waiting: Destinations,
    /// Sent, not answered.
    pub(super) flying: Destinations,
    /// Sent and answered in this stay, whatever the answer.
    pub(super) answered: Destinations,
    pub(super) accepted: Destinations,
    /// Must wait for the key's head there: to be set aside.
    pub(super) parked: Destinations,
    /// To be tried again later there.
    pub(super) failed: Destinations,
    /// Of the failed, those whose attempts are used up.
    pub(super) exhausted: Destinations,
    pub(super) settling: bool,
    /// Why it was given up, when it is forwarded.
    pub(super) given_up: Option<Arc<GivenUp>>,
    /// What it still needs before it may be sent.
    pub(super) care: Care,
    /// What was read of it before its message, where it is handled carefully.
    pub(super) head: Option<Box<Head>>,
    /// When it is over.
    pub(super) ends_at: Option<Tick>,
    /// Its time has passed.
    pub(super) is_over: bool,
    /// Where it was still to be sent when its time had passed.
    pub(super) lapsed: Destinations,
    /// Its key sends nothing before it has left the window.
    pub(super) holds_key: bool,
}

impl Entry {
    /// Whether its message is here.
    pub(super) fn is_loaded(&self) -> bool {
        !matches!(self.care, Care::Head(_) | Care::Marking | Care::Marked | Care::Returning(_))
    }

    /// Whether a look at this key may bring it: for the order that it keeps, or for the key that its row has, though it
    /// waits for nobody.
    pub(super) fn is_of(&self, key: &Key, keys: &Keys) -> bool {
        let of_row = self.head.as_ref().and_then(|head| head.key.as_ref());
        let of_order = self.key.and_then(|key| keys.get(key)).map(|record| &record.key);
        of_order == Some(key) || of_row == Some(key)
    }

    /// Whether it was sent in this stay.
    pub(super) fn was_sent(&self) -> bool {
        self.attempt > Attempt(0)
    }

    /// Whether what is being recorded is a suspicion, and not what became of it.
    pub(super) fn is_being_suspected(&self) -> bool {
        self.settling && matches!(self.care, Care::Marking | Care::Clearing | Care::Returning(_))
    }

    /// Its id and topic, whether its message is here or not.
    pub(super) fn named(&self) -> Option<(Option<MessageId>, Topic)> {
        let of_message = self.message.as_ref().map(|message| (Some(message.id), message.topic.clone()));
        of_message.or_else(|| self.head.as_ref().map(|head| (head.id, head.topic.clone())))
    }
}

/// The rows in memory.
#[derive(Debug)]
pub(super) struct Window {
    rows: RowMap<Slot>,
    entries: Slots<Entry>,
    /// Rows that will be over, by time; those whose time has passed are not among them.
    ends: BTreeSet<(Tick, RowId)>,
    bytes: usize,
    max_rows: usize,
    max_bytes: usize,
}

impl Window {
    pub(super) fn new(max_rows: usize, max_bytes: usize) -> Self {
        Self {
            rows: RowMap::default(),
            entries: Slots::default(),
            ends: BTreeSet::new(),
            bytes: 0,
            max_rows,
            max_bytes,
        }
    }

    pub(super) fn contains(&self, row: RowId) -> bool {
        self.rows.contains_key(&row)
    }

    pub(super) fn get_mut(&mut self, row: RowId) -> Option<&mut Entry> {
        self.entries.get_mut(*self.rows.get(&row)?)
    }

    pub(super) fn get(&self, row: RowId) -> Option<&Entry> {
        self.entries.get(*self.rows.get(&row)?)
    }

    pub(super) fn insert(&mut self, row: RowId, entry: Entry) {
        self.bytes += entry.weight;
        if let Some(end) = entry.ends_at {
            self.ends.insert((end, row));
        }
        self.rows.insert(row, self.entries.insert(entry));
    }

    pub(super) fn remove(&mut self, row: RowId) -> Option<Entry> {
        let entry = self.entries.remove(self.rows.remove(&row)?)?;
        self.bytes -= entry.weight;
        if let Some(end) = entry.ends_at {
            self.ends.remove(&(end, row));
        }
        Some(entry)
    }

    /// Says anew when a row whose message has just come is over.
    pub(super) fn set_end(&mut self, row: RowId, end: Option<Tick>) {
        let Some(entry) = self.get_mut(row) else { return };
        if let Some(before) = std::mem::replace(&mut entry.ends_at, end) {
            self.ends.remove(&(before, row));
        }
        self.ends.extend(end.map(|end| (end, row)));
    }

    /// When the next row is over.
    pub(super) fn next_end(&self) -> Option<Tick> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The next row that is over, once.
    pub(super) fn take_expired(&mut self, now: Tick) -> Option<RowId> {
        self.next_end().filter(|end| *end <= now)?;
        self.ends.pop_first().map(|(_, row)| row)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a row is in the window, and has not left it since this stay began.
    pub(super) fn stays(&self, row: RowId, stay: u64) -> bool {
        self.get(row).is_some_and(|entry| entry.stay == stay)
    }

    /// Every row, in order.
    pub(super) fn ids(&self) -> Vec<RowId> {
        let mut ids: Vec<_> = self.rows.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Whether a row of this weight may come in beside what is there: by its weight one row at most is too many.
    pub(super) fn admits(&self) -> bool {
        self.rows.len() < self.max_rows && self.bytes < self.max_bytes
    }

    /// The rows that the due query could bring again.
    pub(super) fn scheduled(&self) -> Vec<RowId> {
        self.iter().filter(|(_, entry)| entry.scheduled).map(|(row, _)| row).collect()
    }

    /// The keys of the rows that wait for this destination.
    pub(super) fn keys_that_wait_for(&self, destination: DestinationIndex) -> impl Iterator<Item = KeySlot> {
        self.entries.values().filter(move |entry| entry.waiting.contains(destination)).filter_map(|entry| entry.key)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RowId, &Entry)> {
        self.rows.iter().filter_map(|(row, slot)| Some((*row, self.entries.get(*slot)?)))
    }

    /// The lane of each row.
    pub(super) fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.entries.values().map(|entry| entry.lane)
    }

    pub(super) fn of_lane(&self, lane: Lane) -> Vec<RowId> {
        self.iter().filter(|(_, entry)| entry.lane == lane).map(|(row, _)| row).collect()
    }

    /// What is free for one more read of at most `page` rows; none when a read would not pay.
    ///
    /// An eighth of the window must be free, so that a slow destination does not turn every answer into a read. A row
    /// heavier than the whole window comes when the window is empty.
    pub(super) fn room(&self, page: usize) -> Option<Room> {
        self.room_beside(Room::NONE, page)
    }

    /// The same beside what is promised to a read under way.
    pub(super) fn room_beside(&self, promised: Room, page: usize) -> Option<Room> {
        let taken = self.rows.len() + promised.rows;
        let rows = self.max_rows.saturating_sub(taken).min(page);
        let bytes = self.max_bytes.saturating_sub(self.bytes + promised.bytes);
        let pays = taken == 0 || (rows >= page.min(self.max_rows / 8).max(1) && bytes >= self.max_bytes / 8);
        (pays && rows > 0).then_some(Room { rows, bytes })
    }
}
