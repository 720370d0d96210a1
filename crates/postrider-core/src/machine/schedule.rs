//! When to read what.

use std::collections::VecDeque;
use std::time::Duration;

use super::events::{Action, Read, Wanted};
use super::{Machine, Settings};
use crate::lane::Lane;
use crate::message::Key;
use crate::row::RowId;
use crate::seams::Room;
use crate::tick::Tick;

/// The shortest pause between two reads that find nothing more.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// The pause after a read that failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);
/// The most keys of one page of a walk.
pub(super) const WALK_PAGE: usize = 100;
/// The most rows of one look at a key.
const LOOK_PAGE: usize = 256;
/// Looks at keys that may wait before a walk asks for more keys.
const MAX_LOOKS: usize = 1_000;

/// The timetable of the reads.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    next_new: Tick,
    pause: Duration,
    pub(super) reading_new: bool,
    next_due: Tick,
    pub(super) reading_due: bool,
    pub(super) looking: bool,
    pub(super) walking: bool,
    walks: VecDeque<(Lane, Option<Key>)>,
    pub(super) sweeping: bool,
    sweeps: VecDeque<(Lane, RowId)>,
    next_sweep: Tick,
    last_swept: Option<Lane>,
    new_is_quiet: bool,
    due_is_quiet: bool,
    rest_until: Tick,
}

impl Schedule {
    pub(super) fn look_now(&mut self, now: Tick) {
        self.next_new = now;
        self.pause = SHORTEST_PAUSE;
        self.new_is_quiet = false;
        self.due_is_quiet = false;
    }

    pub(super) fn next(&self, settings: &Settings) -> Tick {
        let mut next = self.rest_until + settings.sweep_round;
        if !self.reading_new {
            next = next.min(self.next_new);
        }
        if !self.reading_due {
            next = next.min(self.next_due);
        }
        if !self.sweeping {
            next = next.min(self.next_sweep);
        }
        next.max(self.rest_until)
    }

    pub(super) fn walk(&mut self, lane: Lane) {
        if !self.walks.iter().any(|(known, after)| *known == lane && after.is_none()) {
            self.walks.push_back((lane, None));
        }
    }

    pub(super) fn walk_on(&mut self, lane: Lane, after: Key) {
        self.walks.push_front((lane, Some(after)));
    }

    pub(super) fn sweep_on(&mut self, lane: Lane, after: RowId) {
        self.sweeps.push_front((lane, after));
    }

    pub(super) fn forget(&mut self, lane: Lane) {
        self.walks.retain(|(known, _)| *known != lane);
        self.sweeps.retain(|(known, _)| *known != lane);
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.new_is_quiet && self.due_is_quiet && self.walks.is_empty() && !self.walking && !self.looking
    }

    /// New rows came, or did not: the pause until the next look starts at 1 ms and doubles while nothing comes.
    pub(super) fn new_answered(&mut self, now: Tick, rows: usize, more: bool, longest: Duration) {
        self.reading_new = false;
        self.new_is_quiet = rows == 0 && !more;
        self.pause = match (more, rows) {
            (true, _) => Duration::ZERO,
            (false, 0) => (self.pause * 2).clamp(SHORTEST_PAUSE, longest),
            (false, _) => SHORTEST_PAUSE.min(longest),
        };
        self.next_new = now + self.pause;
    }

    pub(super) fn due_answered(&mut self, now: Tick, rows: usize, more: bool, interval: Duration) {
        self.reading_due = false;
        self.due_is_quiet = rows == 0 && !more;
        self.next_due = if more { now } else { now + interval };
    }

    pub(super) fn failed(&mut self, now: Tick) {
        self.rest_until = now + PAUSE_AFTER_FAILURE;
    }
}

impl Machine {
    pub(super) fn read_next(&mut self, now: Tick, actions: &mut Vec<Action>) {
        if self.held.is_empty() || now < self.schedule.rest_until {
            return;
        }
        let Some(room) = self.window.room(self.settings.page_rows) else { return };
        if !self.schedule.reading_due && now >= self.schedule.next_due {
            self.schedule.reading_due = true;
            let window = self.window.scheduled();
            let room = Room { rows: room.rows.min(LOOK_PAGE * 4), ..room };
            self.read(Wanted::Due(window), room, actions);
        }
        if !self.schedule.looking
            && let Some((lane, key)) = self.keys.next_look()
        {
            self.schedule.looking = true;
            let members = self.keys.get(&key).map_or(0, |record| record.members);
            if let Some(record) = self.keys.get_mut(&key) {
                record.look_again = false;
            }
            self.read(Wanted::Key(lane, key), Room { rows: room.rows.min(LOOK_PAGE) + members, ..room }, actions);
        }
        if !self.schedule.walking
            && self.keys.looks_waiting() < MAX_LOOKS
            && let Some((lane, after)) = self.schedule.walks.pop_front()
        {
            self.schedule.walking = true;
            self.read(Wanted::Walk(lane, after), Room { rows: WALK_PAGE, ..room }, actions);
        }
        self.sweep_next(now, room, actions);
        if !self.schedule.reading_new && now >= self.schedule.next_new {
            self.schedule.reading_new = true;
            self.read(Wanted::New, room, actions);
        }
    }

    fn sweep_next(&mut self, now: Tick, room: Room, actions: &mut Vec<Action>) {
        if self.schedule.sweeping {
            return;
        }
        if self.schedule.sweeps.is_empty() {
            if now < self.schedule.next_sweep {
                return;
            }
            let lanes = u32::try_from(self.held.len()).unwrap_or(u32::MAX).max(1);
            let first_round = self.schedule.next_sweep == Tick::ZERO;
            self.schedule.next_sweep = now + self.settings.sweep_round / lanes;
            if first_round {
                return;
            }
            let after = self.schedule.last_swept;
            let next = self.held.keys().find(|lane| Some(**lane) > after).or_else(|| self.held.keys().next()).copied();
            let Some(lane) = next else { return };
            self.schedule.last_swept = Some(lane);
            self.schedule.walk(lane);
            self.schedule.sweeps.push_back((lane, RowId(0)));
        }
        if let Some((lane, after)) = self.schedule.sweeps.pop_front() {
            self.schedule.sweeping = true;
            self.read(Wanted::Sweep(lane, after), room, actions);
        }
    }

    fn read(&mut self, wanted: Wanted, room: Room, actions: &mut Vec<Action>) {
        let ticket = self.reads.send();
        actions.push(Action::Read(Read { ticket, wanted, lanes: self.held(), room }));
    }
}
