//! When to read what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Machine;
use super::events::{Action, Read, Wanted};
use super::keys::KeySlot;
use crate::lane::{HeldLane, Lane, Term};
use crate::message::Key;
use crate::row::RowId;
use crate::seams::Room;
use crate::tick::Tick;

/// The shortest pause between two reads that find nothing more. A look costs the database as much as two inserts of the
/// application, and a settle follows where it finds something: looked for four times as often, messages came a millisecond
/// and a half earlier, and where commits take milliseconds the application's own p99 was 1.4 times as long (docs/adr/0004).
const SHORTEST_PAUSE: Duration = Duration::from_millis(4);
/// The most keys of one page of a walk.
pub(super) const WALK_PAGE: usize = 100;
/// The most rows of one look at a key.
const LOOK_PAGE: usize = 256;
/// The most rows of the first look at a key: enough to see that it is held.
const PEEK: usize = 16;
/// The most rows of one look for due rows.
const DUE_PAGE: usize = 1_024;
/// A settle that the relay gave up may take effect so much later: its bytes lie in a connection that is gone.
const LATE_EFFECT: Duration = Duration::from_secs(30);
/// A step of a sweep is followed by the next one so much later: nothing hangs on its haste, and everything else goes on
/// between the two.
const SWEEP_PAUSE: Duration = Duration::from_millis(20);
/// While no lane is read up to date, this long passes until a sweep is tried again.
const SWEEP_AGAIN: Duration = Duration::from_secs(1);
/// Looks at keys that may wait before a walk asks for more keys.
const MAX_LOOKS: usize = 1_000;

/// The timetable of the reads: one at a time, because a source is one connection. Only in a backlog a read is asked for
/// ahead of the answer to a read of new rows, so that the source does not wait while a page is taken in. What is free in
/// the window is promised once.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    under_way: usize,
    /// What is promised to the read that was sent last.
    promised: Room,
    /// There are more new rows behind a full page of light ones.
    in_backlog: bool,
    last: Kind,
    next_new: Tick,
    pause: Duration,
    next_due: Tick,
    walks: VecDeque<(Lane, Option<Key>)>,
    /// Lanes that are walked then.
    walks_to_come: BTreeMap<Lane, Tick>,
    /// The next lane's turn to have its waiting keys walked, and whose turn was last.
    next_turn: Tick,
    last_turn: Option<Lane>,
    /// The next step of the sweep, and the row after which it goes on, if one is under way.
    next_sweep: Tick,
    swept_to: Option<RowId>,
    new_is_quiet: bool,
    due_is_quiet: bool,
    rest_until: Tick,
    /// Lanes that have rows waiting in the table for a paused destination.
    missed: BTreeSet<Lane>,
    /// Lanes not yet read up to date since they were gained, each with the last row that was read: a row that was set
    /// aside or is to be tried again goes only when the reading has come as far as it, because it would overtake an
    /// ordinary one that the relay before left behind.
    behind: BTreeMap<Lane, RowId>,
    /// The term under which each lane was last read: what the source may remember of it.
    told: BTreeMap<Lane, Term>,
    /// Lanes that the next read of new rows leaves out, so that the source forgets what it remembers of them.
    left_out: BTreeSet<Lane>,
}

/// Nothing of a lane is read.
const NOTHING: RowId = RowId(i64::MIN);

/// The kinds of reads, in the order in which they take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    New,
    Due,
    Look,
    Walk,
    Sweep,
}

impl Kind {
    const fn next(self) -> Self {
        match self {
            Self::New => Self::Due,
            Self::Due => Self::Look,
            Self::Look => Self::Walk,
            Self::Walk => Self::Sweep,
            Self::Sweep => Self::New,
        }
    }
}

impl Schedule {
    pub(super) fn look_now(&mut self, now: Tick) {
        self.next_new = now;
        self.next_due = now;
        self.pause = SHORTEST_PAUSE;
        self.new_is_quiet = false;
        self.due_is_quiet = false;
    }

    pub(super) fn look_for_new(&mut self, now: Tick) {
        self.next_new = self.next_new.min(now);
    }

    pub(super) fn look_for_due(&mut self, now: Tick) {
        self.next_due = self.next_due.min(now);
    }

    /// When the next read is due; far away while one is under way.
    pub(super) fn next(&self, now: Tick) -> Tick {
        self.next_but_new(now).min(if self.is_reading() { Tick::FAR } else { self.next_new.max(self.rest_until) })
    }

    /// When the next read is due that is not for new rows.
    pub(super) fn next_but_new(&self, now: Tick) -> Tick {
        if self.is_reading() {
            return now + super::LONGEST_SLEEP;
        }
        let next_walk = self.walks_to_come.values().min().copied().unwrap_or(Tick::FAR);
        self.next_due.min(self.next_turn).min(self.next_sweep).min(next_walk).max(self.rest_until)
    }

    fn is_reading(&self) -> bool {
        self.under_way > 0
    }

    /// Whether one more read may be asked for now: ahead of the answer to another one only where that is allowed.
    fn may_read(&self, ahead: bool) -> bool {
        match self.under_way {
            0 => true,
            // A read ahead may not be made.
            1 if !self.left_out.is_empty() => false,
            1 => ahead && self.in_backlog && matches!(self.last, Kind::New | Kind::Walk),
            _ => false,
        }
    }

    /// What is promised of the window, where one more read may be asked for.
    fn promised(&self) -> Room {
        if self.is_reading() { self.promised } else { Room::NONE }
    }

    pub(super) fn read_ended(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether new rows are read page after page, of which the window holds several.
    pub(super) const fn set_backlog(&mut self, in_backlog: bool) {
        self.in_backlog = in_backlog;
    }

    /// Whether the last page of new rows was followed by another one.
    pub(super) const fn is_in_backlog(&self) -> bool {
        self.in_backlog
    }

    /// The lane was gained, and everything of it is to be read.
    ///
    /// A source takes a lane for new by its term. Tables that are put in the place of others count terms from their
    /// beginning, so that a lane may come back under the term under which it was lost.
    pub(super) fn catch_up(&mut self, held: &HeldLane) {
        self.behind.insert(held.lane, NOTHING);
        if self.told.get(&held.lane) == Some(&held.term) {
            self.left_out.insert(held.lane);
        }
    }

    /// Whether a read that is answered now was sent since the lane was gained. Until the source forgot what it remembers of
    /// it, none was that hangs on that memory.
    pub(super) fn is_told(&self, lane: Lane) -> bool {
        !self.left_out.contains(&lane)
    }

    /// What a read of new rows tells the source of these lanes.
    fn tell(&mut self, lanes: &mut Vec<HeldLane>) {
        let left_out = std::mem::take(&mut self.left_out);
        lanes.retain(|held| !left_out.contains(&held.lane));
        self.told.extend(lanes.iter().map(|held| (held.lane, held.term)));
    }

    /// Whether any lane is not read up to date.
    pub(super) fn is_catching_up(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Whether anything of the lane was read since it was gained.
    fn is_begun(&self, lane: Lane) -> bool {
        self.behind.get(&lane).is_none_or(|read_to| *read_to > NOTHING)
    }

    /// Whether everything of the lane is read that stands before this row.
    pub(super) fn is_read_to(&self, lane: Lane, row: RowId) -> bool {
        self.behind.get(&lane).is_none_or(|read_to| row <= *read_to)
    }

    /// The lane is read as far as this row.
    pub(super) fn has_read(&mut self, lane: Lane, row: RowId) {
        if let Some(read_to) = self.behind.get_mut(&lane) {
            *read_to = row.max(*read_to);
        }
    }

    /// Nothing is left to read of the lane.
    pub(super) fn has_read_all(&mut self, lane: Lane) {
        self.has_read(lane, RowId(i64::MAX));
    }

    /// How far the lanes are read that were not read up to date before.
    pub(super) fn take_read_to(&mut self) -> BTreeMap<Lane, RowId> {
        let read_to = self.behind.clone();
        self.behind.retain(|_, read_to| *read_to < RowId(i64::MAX));
        read_to
    }

    pub(super) fn missed(&mut self, lane: Lane) {
        self.missed.insert(lane);
    }

    pub(super) fn walk_missed(&mut self) {
        std::mem::take(&mut self.missed).into_iter().for_each(|lane| self.walk(lane));
    }

    pub(super) fn walk(&mut self, lane: Lane) {
        if !self.walks.iter().any(|(known, after)| *known == lane && after.is_none()) {
            self.walks.push_back((lane, None));
        }
    }

    /// A settle of this lane was given up that sets rows aside. Should it take effect after a newer one of the same row,
    /// it undoes that: a row that is to be tried again is set aside, and no due query brings it. A walk finds it.
    pub(super) fn walk_after_late_effects(&mut self, now: Tick, lane: Lane) {
        self.walks_to_come.insert(lane, now + LATE_EFFECT);
    }

    fn begin_walks(&mut self, now: Tick) {
        let due: Vec<Lane> = self.walks_to_come.iter().filter(|(_, at)| **at <= now).map(|(lane, _)| *lane).collect();
        for lane in due {
            self.walks_to_come.remove(&lane);
            self.walk(lane);
        }
    }

    /// Whether a walk is under way.
    pub(super) fn is_walking(&self) -> bool {
        self.is_reading() && self.last == Kind::Walk
    }

    /// The lanes of which a walk is to be made, now or when a pause ends.
    pub(super) fn lanes_to_walk(&self) -> BTreeSet<Lane> {
        self.missed.iter().copied().chain(self.walks.iter().map(|(lane, _)| *lane)).collect()
    }

    pub(super) fn walk_on(&mut self, lane: Lane, after: Key) {
        self.walks.push_front((lane, Some(after)));
    }

    /// A step of a sweep behind a row came as far as another; not at all where no lane was read up to date. One that came
    /// no further is the last one, as that to the end.
    pub(super) fn swept(&mut self, now: Tick, after: RowId, reached: Option<RowId>, round: Duration) {
        let (pause, next) = match reached {
            Some(row) if row <= after || row.0 == i64::MAX => (round, None),
            Some(_) => (SWEEP_PAUSE, reached),
            None => (SWEEP_AGAIN.min(round), self.swept_to),
        };
        self.swept_to = next;
        self.next_sweep = now + pause;
    }

    pub(super) fn forget(&mut self, lane: Lane) {
        self.walks.retain(|(known, _)| *known != lane);
        self.walks_to_come.remove(&lane);
        self.missed.remove(&lane);
        self.behind.remove(&lane);
    }

    pub(super) fn is_quiet(&self) -> bool {
        let walked = self.walks.is_empty() && self.missed.is_empty();
        let under_way = self.is_reading() && matches!(self.last, Kind::Look | Kind::Walk);
        self.new_is_quiet && self.due_is_quiet && walked && !under_way && !self.is_catching_up()
    }

    /// New rows came, or did not: the pause until the next look starts at the shortest and doubles while nothing comes.
    pub(super) fn new_answered(&mut self, now: Tick, rows: usize, more: bool, longest: Duration) {
        self.new_is_quiet = rows == 0 && !more;
        self.pause = match (more, rows) {
            (true, _) => Duration::ZERO,
            (false, 0) => (self.pause * 2).clamp(SHORTEST_PAUSE, longest),
            (false, _) => SHORTEST_PAUSE.min(longest),
        };
        self.next_new = now + self.pause;
    }

    pub(super) fn due_answered(&mut self, now: Tick, rows: usize, more: bool, interval: Duration) {
        self.due_is_quiet = rows == 0 && !more;
        self.next_due = if more { now } else { now + interval };
    }

    pub(super) const fn rest(&mut self, until: Tick) {
        self.rest_until = until;
    }
}

impl Machine {
    pub(super) fn read_next(&mut self, now: Tick, actions: &mut Vec<Action>) {
        self.schedule.begin_walks(now);
        self.take_turns(now);
        while self.read_one(now, actions) {}
    }

    fn read_one(&mut self, now: Tick, actions: &mut Vec<Action>) -> bool {
        // What an answer says of the careful start decides how the next read is made.
        let may_read = self.schedule.may_read(self.careful.is_over());
        if self.held.is_empty() || !may_read || now < self.schedule.rest_until {
            return false;
        }
        let rows = self.to_load();
        if !rows.is_empty() {
            // They are in the window already.
            let room = Room { rows: rows.len(), bytes: self.settings.window_bytes };
            self.read(Wanted::Rows(rows), room, actions);
            return true;
        }
        let Some(room) = self.window.room_beside(self.schedule.promised(), self.settings.page_rows) else {
            return false;
        };
        let most = if self.schedule.in_backlog { self.settings.window_bytes / 2 } else { usize::MAX };
        let mut kind = self.schedule.last;
        for _ in 0..5 {
            kind = kind.next();
            let room = Room { bytes: room.bytes.min(most), ..room };
            let Some((wanted, room)) = self.wanted(now, kind, room) else { continue };
            self.schedule.last = kind;
            self.read(wanted, room, actions);
            return true;
        }
        false
    }

    fn read(&mut self, wanted: Wanted, room: Room, actions: &mut Vec<Action>) {
        let ahead = self.schedule.is_reading();
        self.schedule.under_way += 1;
        self.schedule.promised = room;
        let ticket = self.reads.send();
        let mut lanes = self.lanes_for(&wanted);
        match wanted {
            Wanted::New => self.schedule.tell(&mut lanes),
            // Until a lane is read anew, what was read of it is what was read under an earlier term.
            Wanted::Sweep(_) => lanes.retain(|held| self.schedule.is_begun(held.lane)),
            Wanted::Due(_) | Wanted::Key(..) | Wanted::Walk(..) | Wanted::Rows(_) => {}
        }
        actions.push(Action::Read(Read { ticket, wanted, lanes, room, ahead }));
    }

    /// What a read of this kind would ask for now, if it is its time, and for how much.
    fn wanted(&mut self, now: Tick, kind: Kind, free: Room) -> Option<(Wanted, Room)> {
        let room = |rows| Room { rows, ..free };
        match kind {
            Kind::New => (now >= self.schedule.next_new && !self.everything_waits()).then_some((Wanted::New, free)),
            Kind::Due if now < self.schedule.next_due => None,
            Kind::Due => Some((Wanted::Due(self.left_out_of_due()), room(free.rows.min(DUE_PAGE)))),
            Kind::Look => {
                let key = self.next_look()?;
                let record = self.keys.get(key)?;
                let most = if record.peek { PEEK } else { LOOK_PAGE };
                let rows = free.rows.min(most).max(record.look.rows) + record.members;
                let bytes = free.bytes.max(record.look.bytes);
                Some((Wanted::Key(record.lane, record.key.clone()), Room { rows, bytes }))
            }
            Kind::Walk if self.keys.looks_waiting() >= MAX_LOOKS => None,
            Kind::Walk => {
                let (lane, after) = self.schedule.walks.pop_front()?;
                Some((Wanted::Walk(lane, after), room(WALK_PAGE)))
            }
            Kind::Sweep => self.next_step(now).map(|after| (Wanted::Sweep(after), free)),
        }
    }

    /// The rows that the due query could bring for nothing, in order.
    fn left_out_of_due(&self) -> Vec<RowId> {
        let mut rows = self.window.scheduled();
        rows.extend(self.delayed.not_yet());
        rows.sort_unstable();
        rows
    }

    /// The next key whose exceptional rows are to be looked at. What stands before it may have changed since it was
    /// asked for.
    fn next_look(&mut self) -> Option<KeySlot> {
        let paused = self.paused();
        while let Some(key) = self.keys.pop_look() {
            let Some(record) = self.keys.get_mut(key).filter(|record| record.looking) else { continue };
            if !self.held.contains_key(&record.lane) {
                record.looking = false;
            } else if record.can_look(paused) {
                record.look_again = false;
                record.held_back_from = None;
                record.look_is_sent();
                return Some(key);
            } else {
                record.looking = false;
                self.review(key);
            }
        }
        None
    }

    /// The row behind which the next step of a sweep begins, if it is its time.
    fn next_step(&mut self, now: Tick) -> Option<RowId> {
        if now < self.schedule.next_sweep {
            return None;
        }
        if !self.held.keys().any(|lane| self.schedule.is_begun(*lane)) {
            self.schedule.next_sweep = now + SWEEP_AGAIN.min(self.settings.sweep_round);
            return None;
        }
        Some(self.schedule.swept_to.unwrap_or(RowId(0)))
    }

    /// One lane after the other has its waiting keys walked. The first turn is also when the first sweep begins.
    fn take_turns(&mut self, now: Tick) {
        if self.held.is_empty() || now < self.schedule.next_turn {
            return;
        }
        let lanes = u32::try_from(self.held.len()).unwrap_or(u32::MAX).max(1);
        let first_turn = self.schedule.next_turn == Tick::ZERO;
        self.schedule.next_turn = now + self.settings.sweep_round / lanes;
        if first_turn {
            self.schedule.next_sweep = self.schedule.next_turn;
            return;
        }
        let last = self.schedule.last_turn;
        let next = self.held.keys().find(|lane| Some(**lane) > last).or_else(|| self.held.keys().next()).copied();
        let Some(lane) = next else { return };
        self.schedule.last_turn = Some(lane);
        self.schedule.walk(lane);
    }
}
