//! The careful start: which message kills its relay.
//!
//! A relay that died may have died of a message that it had in its hands. Its successor therefore reads the rows that
//! may have been there as heads, without their payloads, and takes them in small batches: suspicion is recorded, then
//! the payload is fetched, then it is sent; any answer clears the suspicion. As soon as one of the next rows is suspect
//! already, they are taken one by one, so that only the one that kills goes on collecting.
//!
//! What may have been in the dead relay's hands: of each lane the first rows by each way of finding them, as many as a
//! window holds, because rows are found in that order and leave the window only by being settled. Were the dead relay's
//! window larger, or had rows been committed behind it since, each further death would settle a window of rows in
//! front of the one that kills: it is reached.

use std::collections::{BTreeMap, BTreeSet};

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::Wanted;
use super::outlet::Turn;
use crate::error::ErrorKind;
use crate::lane::{HeldLane, Lane, Start};
use crate::message::MessageId;
use crate::row::{Content, Row, RowId};
use crate::seams::{DeadReason, Outcome, Page};

/// The most suspected messages in memory at once, while none of the next ones was suspect before.
const BATCH: usize = 128;
/// A message is given up when so many relays in a row died with it in their hands.
const DEATHS: u16 = 3;

/// What a row in the window still needs before its message may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Nothing: its message is here, and no suspicion stands in the table.
    None,
    /// Everything: only its head is here, with this suspicion.
    Head(u16),
    /// Suspicion is being recorded.
    Marking,
    /// Its message is to be fetched.
    Marked,
    /// Its message is here, and may be sent; the settle clears the suspicion.
    Taken,
    /// Its message is here; the suspicion is being cleared.
    Clearing,
}

/// How many rows of a lane are to be handled carefully yet, by the way in which they are found.
#[derive(Debug, Clone, Copy)]
struct Left {
    new: usize,
    due: usize,
    aside: usize,
}

/// What is handled carefully.
#[derive(Debug, Default)]
pub(super) struct Careful {
    lanes: BTreeMap<Lane, Left>,
    /// Heads in the window; some may have left it.
    heads: BTreeSet<RowId>,
    /// Rows that were taken; some may have left the window, or need no care any more.
    hands: BTreeSet<RowId>,
    /// The row that was taken by itself: nothing is taken beside it.
    alone: Option<RowId>,
}

impl Careful {
    pub(super) fn begin(&mut self, held: &HeldLane, window: usize) {
        match held.start {
            Start::Careful => self.lanes.insert(held.lane, Left { new: window, due: window, aside: window }),
            Start::Clean => self.lanes.remove(&held.lane),
        };
    }

    pub(super) fn forget(&mut self, lane: Lane) {
        self.lanes.remove(&lane);
    }

    pub(super) fn is_over(&self) -> bool {
        self.lanes.is_empty() && self.heads.is_empty() && self.hands.is_empty()
    }

    fn start(&self, lane: Lane, wanted: &Wanted) -> Start {
        let left = self.lanes.get(&lane).map_or(0, |left| match wanted {
            Wanted::New => left.new,
            Wanted::Due(_) => left.due,
            Wanted::Key(..) => left.aside,
            Wanted::Sweep(..) => left.new + left.due + left.aside,
            Wanted::Walk(..) | Wanted::Rows(_) => 0,
        });
        if left > 0 { Start::Careful } else { Start::Clean }
    }
}

impl Machine {
    /// The lanes held, as a read of this kind is to treat them.
    pub(super) fn lanes_for(&self, wanted: &Wanted) -> Vec<HeldLane> {
        let lanes = self.held.values();
        lanes.map(|held| HeldLane { start: self.careful.start(held.lane, wanted), ..*held }).collect()
    }

    /// A page was read: what it brought need not be handled carefully again, and nor need anything, where it was all.
    pub(super) fn read_carefully(&mut self, wanted: &Wanted, lanes: &[HeldLane], page: &Page) {
        if self.careful.lanes.is_empty() {
            return;
        }
        let left = |left: &mut Left, spend: &dyn Fn(usize) -> usize| match wanted {
            Wanted::New => left.new = spend(left.new),
            Wanted::Due(_) => left.due = spend(left.due),
            Wanted::Key(..) => left.aside = spend(left.aside),
            Wanted::Walk(..) | Wanted::Sweep(..) | Wanted::Rows(_) => {}
        };
        for row in &page.rows {
            if let Some(lane) = self.careful.lanes.get_mut(&row.lane) {
                left(lane, &|rows| rows.saturating_sub(1));
            }
        }
        let read = lanes.iter().filter(|held| self.held.get(&held.lane).is_some_and(|now| now.term == held.term));
        for held in read {
            if !page.more
                && matches!(wanted, Wanted::New | Wanted::Due(_))
                && let Some(lane) = self.careful.lanes.get_mut(&held.lane)
            {
                left(lane, &|_| 0);
            }
        }
    }

    /// Lanes whose walk is over, and every look that it asked for, have nothing set aside that was not looked at.
    fn end_careful_lanes(&mut self) {
        if self.careful.lanes.is_empty() {
            return;
        }
        let (keys, schedule, held) = (&self.keys, &self.schedule, &mut self.held);
        self.careful.lanes.retain(|lane, left| {
            let only_aside = left.new + left.due == 0 && left.aside > 0;
            if only_aside && !schedule.is_walking(*lane) && keys.is_quiet() {
                left.aside = 0;
            }
            let over = left.new + left.due + left.aside == 0;
            if let Some(held) = held.get_mut(lane).filter(|_| over) {
                held.start = Start::Clean;
            }
            !over
        });
    }

    /// A head came into the window.
    pub(super) fn admit_head(&mut self, row: RowId, id: Option<MessageId>, suspicion: u16) {
        if suspicion >= DEATHS {
            let text = format!("{suspicion} relays in a row died while they had this message in their hands");
            self.bury_unsent(row, id, DeadReason::RelayDied, ErrorKind::Unknown, &text);
            return;
        }
        self.careful.heads.insert(row);
        self.resolve(row);
    }

    /// Takes the next careful rows, and clears the suspicion of those that a pause keeps from being sent.
    pub(super) fn take_care(&mut self) {
        self.end_careful_lanes();
        if self.careful.is_over() || self.stopping {
            return;
        }
        let paused = self.paused();
        let window = &self.window;
        self.careful
            .hands
            .retain(|row| window.get(*row).is_some_and(|entry| !matches!(entry.care, Care::None | Care::Head(_))));
        let rests = |row: &RowId| {
            window.get(*row).is_some_and(|entry| {
                let waits = !entry.waiting.is_empty() && entry.waiting.without(paused).is_empty();
                entry.care == Care::Taken && !entry.settling && entry.flying.is_empty() && waits
            })
        };
        let resting: Vec<RowId> = self.careful.hands.iter().copied().filter(rests).collect();
        resting.into_iter().for_each(|row| self.clear(row));
        if !self.settling.store_is_away() {
            self.take_heads(paused);
            self.take_what_stands_in_front();
        }
    }

    /// A head that came later may stand before a row that was taken, in the order of its key: it goes first.
    fn take_what_stands_in_front(&mut self) {
        let (window, keys) = (&self.window, &self.keys);
        let in_front = |row: &RowId| {
            let entry = window.get(*row).filter(|entry| entry.care == Care::Taken && entry.flying.is_empty())?;
            let record = keys.get(entry.key.as_ref()?)?;
            let front = |destination: DestinationIndex| record.queues.get(destination.get())?.waiting.front().copied();
            entry.waiting.iter().filter_map(front).find_map(|front| match window.get(front)?.care {
                Care::Head(suspicion) => Some((front, suspicion)),
                Care::None | Care::Marking | Care::Marked | Care::Taken | Care::Clearing => None,
            })
        };
        let taken: BTreeMap<RowId, u16> = self.careful.hands.iter().filter_map(in_front).collect();
        self.take(taken);
    }

    fn take_heads(&mut self, paused: Destinations) {
        let Careful { heads, hands, alone, .. } = &mut self.careful;
        let window = &self.window;
        let suspicion = |row: RowId| match window.get(row).map(|entry| entry.care) {
            Some(Care::Head(suspicion)) => Some(suspicion),
            _ => None,
        };
        if hands.is_empty() {
            *alone = None;
            heads.retain(|row| suspicion(*row).is_some());
        } else if alone.is_some() || hands.len() >= BATCH {
            return;
        }
        let can_go = |row: RowId| {
            window.get(row).is_some_and(|entry| !entry.settling && !entry.waiting.without(paused).is_empty())
        };
        let next = heads.iter().copied().filter(|row| can_go(*row));
        let next = next.filter_map(|row| Some((row, suspicion(row)?))).take(BATCH);
        let mut next: Vec<(RowId, u16)> = next.collect();
        if next.iter().any(|(_, suspicion)| *suspicion > 0) {
            if !hands.is_empty() {
                return;
            }
            next.truncate(1);
            *alone = next.first().map(|(row, _)| *row);
        }
        next.truncate(BATCH - hands.len());
        self.take(next);
    }

    fn take(&mut self, rows: impl IntoIterator<Item = (RowId, u16)>) {
        for (row, suspicion) in rows {
            if let Some(entry) = self.window.get_mut(row) {
                entry.care = Care::Marking;
            }
            self.careful.heads.remove(&row);
            self.careful.hands.insert(row);
            self.record(row, Outcome::Suspected { suspicion: suspicion + 1 });
        }
    }

    /// The relay lives, and the row is not on its way: it is not the one.
    pub(super) fn clear(&mut self, row: RowId) {
        let Some(entry) = self.window.get_mut(row) else { return };
        entry.care = Care::Clearing;
        self.record(row, Outcome::Suspected { suspicion: 0 });
    }

    /// Suspicion was recorded, or cleared.
    pub(super) fn suspected(&mut self, row: RowId, changed: bool) {
        let Some(entry) = self.window.get_mut(row) else { return };
        entry.settling = false;
        if !changed && entry.flying.is_empty() {
            self.vanished(row);
            return;
        }
        entry.care = if entry.care == Care::Clearing { Care::None } else { Care::Marked };
        if self.is_leaving(row) {
            self.leave_nothing_waiting(row);
        }
        self.resolve(row);
    }

    /// The rows whose messages are to be fetched next.
    pub(super) fn to_load(&self) -> Vec<RowId> {
        let marked =
            |row: &&RowId| self.window.get(**row).is_some_and(|entry| entry.care == Care::Marked && !entry.settling);
        self.careful.hands.iter().filter(marked).copied().collect()
    }

    /// Messages were fetched; what is missing is gone.
    pub(super) fn loaded(&mut self, lanes: &[HeldLane], asked: &[RowId], page: Page) {
        let mut missing: BTreeSet<RowId> = asked.iter().copied().collect();
        for row in page.rows {
            missing.remove(&row.id);
            if self.is_ours(lanes, row.lane) {
                self.load_one(row);
            }
        }
        if page.more {
            return;
        }
        for row in missing {
            let entry = self.window.get(row).filter(|entry| entry.care == Care::Marked && !entry.settling);
            if entry.is_some_and(|entry| self.is_ours(lanes, entry.lane)) {
                self.vanished(row);
            }
        }
    }

    fn load_one(&mut self, row: Row) {
        let id = row.id;
        let Some(entry) = self.window.get_mut(id) else { return };
        if entry.care != Care::Marked || entry.settling {
            return;
        }
        entry.care = Care::Taken;
        match row.content {
            Content::Message(message) => entry.message = Some(message),
            Content::Malformed { id: message, reason, .. } => return self.bury_malformed(id, message, reason),
            Content::Head(_) => return entry.care = Care::Marked,
        }
        let (waiting, key) = (entry.waiting, entry.key.clone());
        for destination in waiting.iter() {
            match &key {
                Some(key) => self.line_up(key, destination),
                None => {
                    if let Some(outlet) = self.outlets.get_mut(destination.get()) {
                        outlet.line.push_back(Turn::Row(id));
                    }
                }
            }
        }
    }

    /// Somebody deleted the row, or gave it up, before it was sent.
    fn vanished(&mut self, row: RowId) {
        self.reads.settle(row);
        let key = self.window.get(row).and_then(|entry| entry.key.clone());
        self.drop_rows(&[row]);
        let Some(key) = key else { return };
        if let Some(record) = self.keys.get_mut(&key) {
            record.look_again |= !record.aside.is_empty();
        }
        for place in 0..self.outlets.len() {
            self.line_up(&key, DestinationIndex::new(place));
        }
        self.review(&key);
    }
}
