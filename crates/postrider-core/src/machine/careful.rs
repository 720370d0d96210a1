//! The careful start: which message kills its relay.
//!
//! A relay that died may have died of a message that it had in its hands. Its successor therefore reads the rows that
//! may have been there as heads, without their payloads, and takes them in small batches: suspicion is recorded, then
//! the payload is fetched, then it is sent; any answer clears the suspicion. The fewest suspicions go first: what is
//! suspect already is taken only when nothing else can go and nothing is in hands, one by one, the least suspected first;
//! others that are suspected as much follow, so that what stood behind all of them goes side by side and not key by key.
//! So a relay that dies over others raises the suspicion of those others, and one that is killed from outside, again and
//! again, spreads it over all of them; only the message that kills goes on collecting by itself. What stands behind a
//! suspect in the order of its key waits with it. Where many are suspected nearly as much as the first, the deaths speak
//! against none of them, and more deaths are asked for ([`is_convicted`]).
//!
//! What may have been in the dead relay's hands: of each lane the first new and the first due rows, as many as a window
//! holds, because they are found in that order and leave the window only by being settled. Were the dead relay's window
//! larger, or had rows been committed behind it since, each further death would settle a window of rows in front of the
//! one that kills: it is reached. Rows that were set aside are looked at in the order of what happened to their keys,
//! and may stay in the table after it: all of them, until every exceptional key was looked at once. A row that goes back
//! to the table untried, because its destination pauses or it stands behind another one, comes as a head again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::Wanted;
use super::keys::{KeySlot, Keys};
use super::outlet::Turn;
use super::window::{Entry, Window};
use crate::error::ErrorKind;
use crate::lane::{HeldLane, Lane, Start};
use crate::row::{Content, Row, RowId};
use crate::seams::{DeadReason, Outcome, Page};

/// The most suspected messages in memory at once, while none of the next ones was suspect before.
const BATCH: usize = 128;
/// The most suspects that go one after the other while what stood behind the first ones waits.
const RUN: usize = 32;
/// A message is given up when so many relays died with it in their hands, and no other one is suspected nearly as much.
pub const DEATHS: u16 = 3;
/// So many deaths more, at most, where others are suspected nearly as much.
const DOUBT: u16 = 3;

/// Whether a message with which so many relays died is what killed them, where so many others came to all but [`DEATHS`]
/// deaths or more.
///
/// One death more is asked for with each of the others, three more at most. A message that kills collects deaths by
/// itself, while whoever kills relays from outside spreads them over whatever can go: with 20 keys and 100 kills, each in
/// the moment in which a suspect is published and not settled, innocents came to three deaths
/// (`docs/adr/0003-deaths-beside-other-suspects.md`). The bound makes an end where many messages kill.
#[must_use]
pub fn is_convicted(deaths: u16, others: usize) -> bool {
    deaths >= DEATHS + u16::try_from(others).unwrap_or(DOUBT).min(DOUBT)
}

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
    /// It was not sent; this suspicion, which it had before it was taken, is being put back.
    Returning(u16),
}

/// What of a lane is to be handled carefully yet, by the way in which it is found.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// So many rows.
    new: usize,
    /// So many rows.
    due: usize,
    /// Whatever was set aside.
    aside: bool,
}

/// Suspects that were taken by themselves, one after the other.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    taken: usize,
    /// What the last one was suspected of.
    suspicion: u16,
}

impl Run {
    /// Whether a suspect goes before what nobody suspects.
    fn goes_on_with(self, suspicion: u16) -> bool {
        (1..RUN).contains(&self.taken) && suspicion <= self.suspicion
    }
}

impl Left {
    fn is_over(self) -> bool {
        self.new + self.due == 0 && !self.aside
    }
}

/// What is handled carefully.
#[derive(Debug, Default)]
pub(super) struct Careful {
    lanes: BTreeMap<Lane, Left>,
    /// Heads in the window; some may have left it.
    heads: BTreeSet<RowId>,
    /// Rows that were taken, with their suspicion before that; some may have left the window, or need no care any more.
    hands: BTreeMap<RowId, u16>,
    /// The row that was taken by itself: nothing is taken beside it.
    alone: Option<RowId>,
    /// Since rows were taken together last.
    run: Run,
    /// The row that was taken to be the next probe of a destination that pauses.
    probe: Option<RowId>,
    /// Rows that went back to the table untried.
    outside: BTreeSet<(Lane, RowId)>,
    /// Rows that came with all but [`DEATHS`] deaths or more, whatever became of them, until the careful start is over.
    suspects: BTreeSet<RowId>,
}

impl Careful {
    pub(super) fn begin(&mut self, held: &HeldLane, window: usize) {
        match held.start {
            Start::Careful => self.lanes.insert(held.lane, Left { new: window, due: window, aside: true }),
            Start::Clean => self.lanes.remove(&held.lane),
        };
    }

    pub(super) fn forget(&mut self, lane: Lane) {
        self.lanes.remove(&lane);
        self.outside.retain(|(of, _)| *of != lane);
        // With other lanes, what nobody suspects goes first again.
        self.run = Run::default();
    }

    fn has_outside(&self, lane: Lane) -> bool {
        self.outside.range((lane, RowId(i64::MIN))..=(lane, RowId(i64::MAX))).next().is_some()
    }

    /// How the next owner of a lane is to begin, were it given away now.
    fn left(&self, lane: Lane, window: &Window) -> Start {
        let is_careful = self.lanes.contains_key(&lane) || self.has_outside(lane);
        if is_careful || self.untried(window).any(|entry| entry.lane == lane) { Start::Careful } else { Start::Clean }
    }

    /// Rows in the window that need care still.
    fn untried<'a>(&'a self, window: &'a Window) -> impl Iterator<Item = &'a Entry> {
        let entries = self.heads.iter().chain(self.hands.keys()).filter_map(|row| window.get(*row));
        entries.filter(|entry| !matches!(entry.care, Care::None))
    }

    pub(super) fn is_over(&self) -> bool {
        self.lanes.is_empty() && self.heads.is_empty() && self.hands.is_empty()
    }

    /// A sweep and a look at a key bring rows again that are in the window, and with the due ones come those that went back
    /// untried: as heads, as long as they need care. `untried` are the lanes of which the window has some.
    fn start(&self, lane: Lane, wanted: &Wanted, untried: &BTreeSet<Lane>, window: &Window, keys: &Keys) -> Start {
        let again = match wanted {
            Wanted::Due(_) => self.has_outside(lane),
            Wanted::Sweep(_) => self.has_outside(lane) || untried.contains(&lane),
            Wanted::Key(of, key) if *of == lane => {
                self.has_outside(lane) || self.untried(window).any(|entry| entry.is_of(key, keys))
            }
            _ => false,
        };
        let left = self.lanes.get(&lane).is_some_and(|left| match wanted {
            Wanted::New => left.new > 0,
            Wanted::Due(_) => left.due > 0,
            Wanted::Key(..) => left.aside,
            Wanted::Sweep(_) => !left.is_over(),
            Wanted::Walk(..) | Wanted::Rows(_) => false,
        });
        if left || again { Start::Careful } else { Start::Clean }
    }
}

impl Machine {
    /// A lane on its way to another owner. Where a message may kill its relay still, it is to be looked for there too.
    pub(super) fn as_left(&self, held: HeldLane) -> HeldLane {
        HeldLane { start: self.careful.left(held.lane, &self.window), ..held }
    }

    /// The lanes held, as a read of this kind is to treat them.
    pub(super) fn lanes_for(&self, wanted: &Wanted) -> Vec<HeldLane> {
        let untried = match wanted {
            Wanted::Sweep(_) => self.careful.untried(&self.window).map(|entry| entry.lane).collect(),
            _ => BTreeSet::new(),
        };
        let start = |held: &HeldLane| self.careful.start(held.lane, wanted, &untried, &self.window, &self.keys);
        self.held.values().map(|held| HeldLane { start: start(held), ..*held }).collect()
    }

    /// The reader may have forgotten how far it had read, and bring every row again: those that need care still as heads.
    pub(super) fn read_carefully_again(&mut self) {
        let lanes: BTreeSet<Lane> = self.careful.untried(&self.window).map(|entry| entry.lane).collect();
        for lane in lanes {
            let left = self.careful.lanes.entry(lane).or_insert(Left { new: 0, due: 0, aside: false });
            left.new = self.settings.window_rows;
        }
    }

    /// New rows were read: they need not be handled carefully again, and nor need any, where these were all.
    pub(super) fn read_carefully(&mut self, lanes: &[HeldLane], page: &Page) {
        if self.careful.lanes.is_empty() {
            return;
        }
        for row in &page.rows {
            if let Some(left) = self.careful.lanes.get_mut(&row.lane) {
                left.new = left.new.saturating_sub(1);
            }
        }
        for held in lanes.iter().filter(|_| !page.more) {
            let ours = self.is_ours(lanes, held.lane);
            if let Some(left) = self.careful.lanes.get_mut(&held.lane).filter(|_| ours) {
                left.new = 0;
            }
        }
    }

    /// Due rows were read: those that came into the window need not be handled carefully again, and nor need any, where
    /// these were all. One that waits is due again.
    pub(super) fn read_due_carefully(&mut self, lanes: &[HeldLane], rows: &[(Lane, RowId)], more: bool) {
        let mut waiting = self.delayed.lanes();
        for (lane, row) in rows {
            let Some(left) = self.careful.lanes.get_mut(lane) else { continue };
            if self.window.contains(*row) {
                left.due = left.due.saturating_sub(1);
            } else {
                waiting.insert(*lane);
            }
        }
        for held in lanes.iter().filter(|held| !more && !waiting.contains(&held.lane)) {
            let ours = self.is_ours(lanes, held.lane);
            if let Some(left) = self.careful.lanes.get_mut(&held.lane).filter(|_| ours) {
                left.due = 0;
            }
        }
    }

    /// Lanes whose walk is over, and every look that came of it, have nothing set aside that was not looked at.
    fn end_careful_lanes(&mut self) {
        if self.careful.lanes.is_empty() || self.schedule.is_walking() {
            return;
        }
        let (walks, held) = (self.schedule.lanes_to_walk(), &mut self.held);
        let only_aside = |lane: Lane, left: &Left| left.new + left.due == 0 && left.aside && !walks.contains(&lane);
        let unseen = match self.careful.lanes.iter().any(|(lane, left)| only_aside(*lane, left)) {
            true => self.keys.lanes_with_exceptions(),
            false => BTreeSet::new(),
        };
        self.careful.lanes.retain(|lane, left| {
            if only_aside(*lane, left) && !unseen.contains(lane) {
                left.aside = false;
            }
            let over = left.is_over();
            if let Some(held) = held.get_mut(lane).filter(|_| over) {
                held.start = Start::Clean;
            }
            !over
        });
    }

    /// A head came into the window.
    pub(super) fn admit_head(&mut self, row: RowId, suspicion: u16) {
        if suspicion >= DEATHS - 1 {
            self.careful.suspects.insert(row);
        }
        self.careful.heads.insert(row);
        self.resolve(row);
    }

    /// Takes the next careful rows, and lets go of those that cannot be sent now.
    pub(super) fn take_care(&mut self) {
        if self.stopping {
            return;
        }
        self.end_careful_lanes();
        if self.careful.is_over() {
            self.careful.suspects.clear();
            return;
        }
        let paused = self.paused();
        let window = &self.window;
        let needs_care = |row: &RowId, _: &mut u16| {
            window.get(*row).is_some_and(|entry| !matches!(entry.care, Care::None | Care::Head(_)))
        };
        self.careful.hands.retain(needs_care);
        self.careful.probe = self.careful.probe.filter(|row| self.careful.hands.contains_key(row));
        let resting: Vec<RowId> = self.careful.hands.keys().copied().filter(|row| self.rests(*row, paused)).collect();
        resting.into_iter().for_each(|row| self.let_go(row));
        if !self.settling.store_is_away() {
            self.take_heads(paused);
            self.take_probe(paused);
        }
    }

    /// Whether a row that was taken can be sent nowhere now: wherever it waits, the destination pauses, or a head that
    /// came later stands before it in the order of its key.
    fn rests(&self, row: RowId, paused: Destinations) -> bool {
        let Some(entry) = self.window.get(row) else { return false };
        let is_probe = self.careful.probe == Some(row) && !entry.waiting.without(entry.answered).is_empty();
        let paused = if is_probe { Destinations::NONE } else { paused };
        if entry.care != Care::Taken || entry.settling || !entry.flying.is_empty() || entry.waiting.is_empty() {
            return false;
        }
        let record = entry.key.and_then(|key| self.keys.get(key));
        let behind_a_head = |destination: DestinationIndex| {
            let queue = record.and_then(|record| record.queues.get(destination.get()));
            let front = queue.and_then(|queue| queue.waiting.front()).and_then(|front| self.window.get(front));
            front.is_some_and(|front| matches!(front.care, Care::Head(_)))
        };
        entry.waiting.without(paused).iter().all(behind_a_head)
    }

    fn take_heads(&mut self, paused: Destinations) {
        if self.careful.hands.is_empty() {
            let window = &self.window;
            let is_head = |row: &RowId| matches!(window.get(*row).map(|entry| entry.care), Some(Care::Head(_)));
            self.careful.alone = None;
            self.careful.heads.retain(is_head);
        } else if self.careful.alone.is_some() || self.careful.hands.len() >= BATCH {
            return;
        }
        loop {
            let most = BATCH - self.careful.hands.len();
            let (mut unsuspected, suspect) =
                self.next_heads(paused, if self.careful.run.taken > 0 { usize::MAX } else { most });
            let goes_on = suspect.is_some_and(|(_, suspicion)| self.careful.run.goes_on_with(suspicion));
            if !unsuspected.is_empty() && !goes_on {
                self.careful.run = Run::default();
                unsuspected.truncate(most);
                return self.take(unsuspected.into_iter().map(|row| (row, 0)));
            }
            let Some((row, suspicion)) = suspect.filter(|_| self.careful.hands.is_empty()) else { return };
            let others = self.careful.suspects.len() - usize::from(self.careful.suspects.contains(&row));
            if !is_convicted(suspicion, others) {
                self.careful.alone = Some(row);
                self.careful.run = Run { taken: self.careful.run.taken + 1, suspicion };
                return self.take([(row, suspicion)]);
            }
            if self.more_heads_come() {
                return;
            }
            self.convict(row, suspicion);
        }
    }

    /// Where a paused destination is to be probed and every message in memory was tried there without success, one that was
    /// not is taken: those may be why it pauses, and no head could end it. Not while heads can go elsewhere: a suspect must
    /// be alone.
    fn take_probe(&mut self, paused: Destinations) {
        let is_busy = self.careful.probe.is_some() || self.careful.alone.is_some() || self.careful.hands.len() >= BATCH;
        let is_due = |place: &DestinationIndex| self.next_probe_at(*place).is_some_and(|at| at <= self.latest);
        if is_busy || !paused.iter().any(|place| is_due(&place)) {
            return;
        }
        let (unsuspected, suspect) = self.next_heads(paused, 1);
        if !unsuspected.is_empty() || suspect.is_some() {
            return;
        }
        let untried_is_next = |place: &DestinationIndex| is_due(place) && self.all_were_tried(*place);
        let head = paused.iter().filter(untried_is_next).find_map(|place| self.untried_head(place));
        let Some((row, suspicion)) = head.filter(|(_, suspicion)| *suspicion < DEATHS) else { return };
        if suspicion > 0 {
            if !self.careful.hands.is_empty() {
                return;
            }
            self.careful.alone = Some(row);
        }
        self.careful.probe = Some(row);
        self.take([(row, suspicion)]);
    }

    /// Whether the next probe there is a message that is not here yet.
    pub(super) fn probe_comes(&self, destination: DestinationIndex) -> bool {
        let probe = self.careful.probe.and_then(|row| self.window.get(row));
        probe.is_some_and(|entry| entry.waiting.contains(destination) && !entry.is_loaded())
    }

    /// The least suspected head in front of its key there.
    fn untried_head(&self, destination: DestinationIndex) -> Option<(RowId, u16)> {
        let heads = self.careful.heads.iter().filter_map(|row| {
            let entry = self.window.get(*row).filter(|entry| entry.waiting.contains(destination) && !entry.settling)?;
            let Care::Head(suspicion) = entry.care else { return None };
            let is_in_front = self.is_in_front(*row, destination);
            is_in_front.then_some((*row, suspicion))
        });
        heads.min_by_key(|(_, suspicion)| *suspicion)
    }

    /// Whether new rows of a careful lane are still to be read, and can be: they may be as suspect as those that are here.
    fn more_heads_come(&self) -> bool {
        let has_room = self.window.room(self.settings.page_rows).is_some() && !self.everything_waits();
        has_room && self.careful.lanes.values().any(|left| left.new > 0)
    }

    /// The row is what relays died of.
    fn convict(&mut self, row: RowId, suspicion: u16) {
        self.careful.heads.remove(&row);
        let id = self.window.get(row).and_then(Entry::named).and_then(|(id, _)| id);
        let text = format!("{suspicion} relays died while they had this message in their hands");
        self.bury_unsent(row, id, DeadReason::RelayDied, ErrorKind::Unknown, &text);
    }

    /// The heads that may go now and stand behind none that is to wait: up to so many that are not suspect, and of the
    /// others the one that is suspected least, if no other one goes before it.
    fn next_heads(&self, paused: Destinations, most: usize) -> (Vec<RowId>, Option<(RowId, u16)>) {
        let mut waits: HashMap<KeySlot, Destinations> = HashMap::new();
        let (mut unsuspected, mut suspect) = (Vec::new(), None);
        for row in &self.careful.heads {
            let Some(entry) = self.window.get(*row) else { continue };
            let Care::Head(suspicion) = entry.care else { continue };
            let goes = entry.waiting.without(paused);
            if entry.settling || goes.is_empty() {
                continue;
            }
            let in_front = entry.key.and_then(|key| waits.get(&key)).copied().unwrap_or(Destinations::NONE);
            let stands_behind = !in_front.both(goes).is_empty();
            if suspicion == 0 && !stands_behind {
                unsuspected.push(*row);
                if unsuspected.len() >= most {
                    break;
                }
                continue;
            }
            if !stands_behind && suspect.is_none_or(|(_, least)| suspicion < least) {
                suspect = Some((*row, suspicion));
            }
            if let Some(key) = entry.key {
                waits.insert(key, in_front.with(goes));
            }
        }
        (unsuspected, suspect)
    }

    fn take(&mut self, rows: impl IntoIterator<Item = (RowId, u16)>) {
        for (row, suspicion) in rows {
            if let Some(entry) = self.window.get_mut(row) {
                entry.care = Care::Marking;
            }
            self.careful.heads.remove(&row);
            self.careful.hands.insert(row, suspicion);
            self.record(row, Outcome::Suspected { suspicion: suspicion + 1 });
        }
    }

    /// The suspicion of a row that goes back to the table. The relay lives: one that was answered wherever it is owed is
    /// not the one that kills, and of another one nothing is known that was not known before it came.
    pub(super) fn suspicion_left(&self, row: RowId) -> u16 {
        let Some(entry) = self.window.get(row) else { return 0 };
        let before = match entry.care {
            Care::None => return 0,
            Care::Head(suspicion) | Care::Returning(suspicion) => suspicion,
            Care::Marking | Care::Marked | Care::Taken | Care::Clearing => {
                self.careful.hands.get(&row).copied().unwrap_or(0)
            }
        };
        let unanswered = entry.waiting.with(entry.parked).without(entry.answered);
        if entry.was_sent() && unanswered.is_empty() { 0 } else { before }
    }

    /// A row leaves memory and stays in the table.
    pub(super) fn goes_back(&mut self, row: RowId, entry: &Entry) {
        let unanswered = entry.waiting.with(entry.parked).without(entry.answered);
        if entry.care != Care::None && !(entry.was_sent() && unanswered.is_empty()) {
            self.careful.outside.insert((entry.lane, row));
        }
    }

    /// A row came into memory.
    pub(super) fn came_back(&mut self, lane: Lane, row: RowId) {
        self.careful.outside.remove(&(lane, row));
    }

    /// The relay lives, and the row is not on its way. One that was answered wherever it waits is not the one that kills;
    /// of another one nothing is known that was not known before, and it is suspected again before it is sent.
    pub(super) fn let_go(&mut self, row: RowId) {
        let before = self.careful.hands.get(&row).copied().unwrap_or(0);
        let Some(entry) = self.window.get_mut(row) else { return };
        let is_innocent = entry.was_sent() && entry.waiting.without(entry.answered).is_empty();
        if is_innocent {
            entry.care = Care::Clearing;
        } else {
            entry.care = Care::Returning(before);
            entry.message = None;
        }
        self.record(row, Outcome::Suspected { suspicion: if is_innocent { 0 } else { before } });
    }

    /// Suspicion was recorded, cleared, or put back.
    pub(super) fn suspected(&mut self, row: RowId, changed: bool) {
        let Some(entry) = self.window.get_mut(row) else { return };
        entry.settling = false;
        if !changed && entry.flying.is_empty() {
            self.vanished(row);
            return;
        }
        match entry.care {
            Care::Clearing => entry.care = Care::None,
            Care::Returning(suspicion) => {
                entry.care = Care::Head(suspicion);
                self.careful.hands.remove(&row);
                self.careful.heads.insert(row);
            }
            Care::None | Care::Head(_) | Care::Marking | Care::Marked | Care::Taken => entry.care = Care::Marked,
        }
        if self.is_leaving(row) {
            self.leave_nothing_waiting(row);
        }
        self.resolve(row);
    }

    /// The rows whose messages are to be fetched next.
    pub(super) fn to_load(&self) -> Vec<RowId> {
        let marked =
            |row: &&RowId| self.window.get(**row).is_some_and(|entry| entry.care == Care::Marked && !entry.settling);
        self.careful.hands.keys().filter(marked).copied().collect()
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
        let (id, ends_at) = (row.id, self.ends_at(&row));
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
        let (waiting, key) = (entry.waiting, entry.key);
        self.window.set_end(id, ends_at);
        if ends_at.is_some_and(|end| end <= self.latest) {
            return self.end(id);
        }
        let is_probe = self.careful.probe == Some(id);
        for destination in waiting.iter() {
            match key {
                Some(key) => self.line_up(key, destination),
                None => {
                    if let Some(outlet) = self.outlets.get_mut(destination.get()) {
                        outlet.line.push_back(Turn::Row(id));
                    }
                }
            }
            if let Some(outlet) = self.outlets.get_mut(destination.get()).filter(|_| is_probe) {
                outlet.last_is_first();
            }
        }
    }

    /// Somebody deleted the row, or gave it up, before it was sent.
    fn vanished(&mut self, row: RowId) {
        let Some((id, key)) = self.window.get(row).map(|entry| (entry.id, entry.key)) else { return };
        self.reads.settle(row, id);
        self.drop_rows(&[row]);
        let Some(key) = key else { return };
        if let Some(record) = self.keys.get_mut(key) {
            record.look_again |= !record.aside.is_empty();
        }
        for place in 0..self.outlets.len() {
            self.line_up(key, DestinationIndex::new(place));
        }
        self.review(key);
    }
}
