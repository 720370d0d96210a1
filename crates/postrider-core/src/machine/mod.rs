//! The relay, decided purely: events in, actions out.
//!
//! [`Machine::on`] takes one [`Event`] with the local time; [`Machine::actions`] says what is to be done now;
//! [`Machine::wake_at`] says when to ask again. The machine does no I/O, reads no clock and spawns nothing, so that
//! a test can play any schedule. The driver in `postrider-relay` carries its actions out.
//!
//! What it keeps to:
//! - per (key, destination) first in, first out: a key with an unresolved message sends nothing further there;
//! - rows that cannot go now leave memory: retries are scheduled in the table, their successors are set aside there,
//!   and both are found again by their own indexes;
//! - a row counts in the window from its reading to the answer of its settle, once, whatever its destinations;
//! - nothing is published or settled past the trusted time, and nothing new is published while the store is away.

mod absence;
mod admit;
mod answer;
mod careful;
mod closed;
mod delayed;
mod destinations;
mod due;
mod events;
mod expire;
mod giving_up;
mod handback;
mod keys;
mod ordering;
mod outlet;
mod placing;
mod publish;
mod queue;
mod reads;
mod remembered;
mod row_queue;
mod schedule;
mod settings;
mod settle;
mod slots;
mod topics;
mod troubles;
mod window;
mod witnesses;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

pub use careful::{DEATHS, is_convicted};
pub use destinations::DestinationIndex;
pub use events::{Action, Answer, Deliveries, Event, Flight, Note, Read, Settle, Ticket, Wanted};
pub use ordering::Ordering;
pub use settings::{DestinationSettings, MAX_DESTINATIONS, Route, Settings};

use crate::address::DestinationName;
use crate::error::ErrorKind;
use crate::lane::{HeldLane, Lane};
use crate::retry::Jitter;
use crate::tick::Tick;
use absence::Absence;
use careful::{Care, Careful};
use delayed::Delayed;
use handback::HandBack;
use keys::Keys;
use outlet::{Outlet, Turn};
use reads::Reads;
use schedule::Schedule;
use settle::Settling;
use window::Window;

/// Without anything to wait for, the machine is asked again this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A destination as it is now, for status and metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct DestinationView {
    /// Its name.
    pub name: DestinationName,
    /// Why it pauses and since when, if it does.
    pub paused: Option<(ErrorKind, String, Tick)>,
    /// Since when it has answered nothing, if what waits for it leaves memory for that, so that others get room.
    pub silent_since: Option<Tick>,
    /// Publish calls under way.
    pub flights: usize,
}

/// The state of one relay.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    /// The lanes that are read.
    held: BTreeMap<Lane, HeldLane>,
    hand_back: HandBack,
    trusted_until: Tick,
    stopping: bool,
    window: Window,
    keys: Keys,
    outlets: Vec<Outlet>,
    reads: Reads,
    schedule: Schedule,
    settling: Settling,
    absence: Absence,
    careful: Careful,
    delayed: Delayed,
    jitter: Jitter,
    /// A logical clock: what was sent and what failed, in order.
    moment: u64,
    /// The local time of the last call.
    latest: Tick,
    /// Whether any policy has a maximum age.
    limits_age: bool,
    next_flight: u64,
    deliveries: Deliveries,
    notes: Vec<Note>,
}

impl Machine {
    /// A machine that holds no lane yet.
    pub fn new(settings: Settings) -> Self {
        let destinations = settings.destinations.len();
        Self {
            window: Window::new(settings.window_rows.max(1), settings.window_bytes.max(1)),
            keys: Keys::new(destinations, settings.ordering),
            outlets: (0..destinations).map(|_| Outlet::default()).collect(),
            reads: Reads::default(),
            schedule: Schedule::default(),
            settling: Settling::default(),
            absence: Absence::default(),
            careful: Careful::default(),
            delayed: Delayed::default(),
            jitter: Jitter::seeded(settings.seed),
            held: BTreeMap::new(),
            hand_back: HandBack::default(),
            trusted_until: Tick::ZERO,
            stopping: false,
            moment: 0,
            latest: Tick::ZERO,
            limits_age: settings.retry.iter().any(|(_, policy)| policy.max_age.is_some()),
            next_flight: 0,
            deliveries: Deliveries::Counted,
            notes: Vec::new(),
            settings,
        }
    }

    /// Takes in what happened.
    pub fn on(&mut self, now: Tick, event: Event) {
        self.latest = self.latest.max(now);
        match event {
            Event::Gained(lanes) => self.gain(now, lanes),
            Event::Lost(lanes) => lanes.into_iter().for_each(|lane| self.lose(lane)),
            Event::HandBack(lanes) => self.hand_back(lanes),
            Event::Trusted(until) => self.trusted_until = until,
            Event::Answered(read, answer) => self.answered(now, read, answer),
            Event::Published(flight, results) => self.published(now, flight, results),
            Event::Settled(answer) => self.settled(now, answer),
            Event::NotSettled => self.not_settled(),
            Event::Checked(destination, answer) => self.checked(now, destination, answer),
            Event::Hint => self.schedule.look_now(now),
            Event::Stop => self.stop(),
        }
    }

    /// What is to be done now.
    pub fn actions(&mut self, now: Tick) -> Vec<Action> {
        let mut actions = Vec::new();
        self.latest = self.latest.max(now);
        if !self.is_trusted(now) {
            return actions;
        }
        if !self.stopping {
            self.expire(now);
        }
        self.take_care();
        self.settle_next(now, &mut actions);
        if !self.stopping {
            self.publish_next(now, &mut actions);
            // It may have decided that rows leave memory.
            self.settle_next(now, &mut actions);
            self.read_next(now, &mut actions);
        }
        self.release_next(&mut actions);
        actions
    }

    /// When [`actions`](Self::actions) is to be asked again, at the latest, if nothing happens before.
    pub fn wake_at(&self, now: Tick) -> Tick {
        let mut wake = now + LONGEST_SLEEP;
        if !self.is_trusted(now) {
            return wake;
        }
        if let Some(settle) = self.settling.next_at() {
            wake = wake.min(settle);
        }
        if self.stopping || self.held.is_empty() {
            return wake.max(now);
        }
        if self.window.room(self.settings.page_rows).is_some() {
            let waits = self.everything_waits();
            wake = wake.min(if waits { self.schedule.next_but_new(now) } else { self.schedule.next(now) });
        }
        if let Some(end) = self.window.next_end() {
            wake = wake.min(end);
        }
        if self.settling.store_is_away() {
            return wake.max(now);
        }
        for place in 0..self.outlets.len() {
            if let Some(at) = self.next_probe_at(DestinationIndex::new(place)) {
                wake = wake.min(at);
            }
        }
        wake.max(now)
    }

    /// How much is noted of what is delivered from now on. It changes nothing of what is decided.
    pub fn note_deliveries(&mut self, deliveries: Deliveries) {
        self.deliveries = deliveries;
    }

    /// What people want to know since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// The lanes owned, with their terms, in order: those on their way back too, until they are released. After a stop
    /// each says how its next owner is to begin.
    pub fn held(&self) -> Vec<HeldLane> {
        let mut lanes: Vec<HeldLane> = self.held.values().copied().chain(self.hand_back.lanes()).collect();
        lanes.sort_unstable_by_key(|held| held.lane);
        lanes
    }

    /// Whether the leases can be relied on now: past that time nothing is published or settled.
    pub fn is_trusted(&self, now: Tick) -> bool {
        now < self.trusted_until
    }

    /// Rows and bytes in the window.
    pub fn window(&self) -> (usize, usize) {
        (self.window.len(), self.window.bytes())
    }

    /// Each destination as it is now.
    pub fn destinations(&self) -> Vec<DestinationView> {
        let views = self.settings.destinations.iter().zip(&self.outlets);
        views
            .map(|(settings, outlet)| DestinationView {
                name: settings.name.clone(),
                paused: outlet.pause.as_ref().map(|pause| (pause.kind, pause.text.clone(), pause.since)),
                silent_since: outlet.silent_since(),
                flights: outlet.flights.len(),
            })
            .collect()
    }

    /// Whether everything sent has been answered and settled, so that the lanes may be released.
    pub fn is_drained(&self) -> bool {
        self.settling.is_idle() && self.outlets.iter().all(|outlet| outlet.flights.is_empty())
    }

    /// Whether the last reads of every kind found nothing, and nothing is in memory.
    pub fn is_idle(&self) -> bool {
        self.window.is_empty()
            && self.is_drained()
            && self.schedule.is_quiet()
            && self.keys.is_quiet()
            && (self.delayed.is_empty() || self.everything_waits())
    }

    fn gain(&mut self, now: Tick, lanes: Vec<HeldLane>) {
        for held in lanes {
            self.lose(held.lane);
            self.held.insert(held.lane, held);
            self.careful.begin(&held, self.settings.window_rows);
            self.schedule.walk(held.lane);
            self.schedule.catch_up(&held);
        }
        self.schedule.look_now(now);
    }

    fn lose(&mut self, lane: Lane) {
        if self.held.remove(&lane).or_else(|| self.hand_back.forget(lane)).is_none() {
            return;
        }
        self.drop_rows(&self.window.of_lane(lane));
        self.keys.forget_lane(lane);
        let (window, keys) = (&self.window, &self.keys);
        for outlet in &mut self.outlets {
            outlet.line.retain(|turn| match turn {
                Turn::Key(key) => keys.get(*key).is_some(),
                Turn::Row(row) => window.contains(*row),
            });
            outlet.alone.retain(|row| window.contains(*row));
        }
        self.settling.forget_lane(lane);
        self.schedule.forget(lane);
        self.careful.forget(lane);
        self.delayed.forget(lane);
    }

    fn stop(&mut self) {
        self.stopping = true;
        let lanes: Vec<HeldLane> = self.held.values().map(|held| self.as_left(*held)).collect();
        self.held = lanes.into_iter().map(|held| (held.lane, held)).collect();
        for row in self.window.ids() {
            self.leave_nothing_waiting(row);
            self.resolve(row);
        }
    }

    /// On a stop, and of a lane that goes back, nothing more is sent: what has not begun is forgotten, and of what has,
    /// the rest waits in the table, so that nothing that was accepted is sent again.
    pub(super) fn leave_nothing_waiting(&mut self, row: crate::row::RowId) {
        let Some(entry) = self.window.get(row).filter(|entry| !entry.settling) else { return };
        let has_begun = !entry.accepted.with(entry.failed).with(entry.parked).is_empty();
        if has_begun {
            let waiting = entry.waiting;
            waiting.iter().for_each(|destination| self.park(row, destination));
        } else if entry.flying.is_empty() {
            match entry.care {
                Care::None | Care::Head(_) => self.drop_rows(&[row]),
                Care::Marking | Care::Marked | Care::Taken | Care::Clearing | Care::Returning(_) => self.let_go(row),
            }
        }
    }

    pub(super) fn drop_rows(&mut self, rows: &[crate::row::RowId]) {
        for row in rows {
            let Some(entry) = self.window.remove(*row) else { continue };
            let Some(record) = entry.key.and_then(|key| self.keys.get_mut(key)) else { continue };
            record.members = record.members.saturating_sub(1);
            record.let_go(*row, entry.parked.with(entry.failed), entry.failed);
            record.burying = record.burying.saturating_sub(usize::from(entry.holds_key));
            record.queues.iter_mut().for_each(|queue| queue.waiting.remove(*row));
        }
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }
}
