//! A relay's process: its loop around the machine, as `postrider-relay` runs it.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::machine::{Action, DestinationIndex, Event, Flight, Machine, Note, Read, Settle, Wanted};
use postrider_core::{HeldLane, Lane, LaneCount, RelayId, Start, Term, Tick};

use super::broker::{Poison, row_of};
use super::coverage::Sight;
use super::faults::{Moment, StoreMode};
use super::history::Rows;
use super::holder::{Holder, Order};
use super::plan::Plan;
use super::source::SimSource;
use super::wire::{Call, Request};
use super::world::{Op, World};

/// More turns of a loop than this within a millisecond are a busy loop.
const MOST_TURNS: u32 = 2_000;

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Down,
    Running,
    /// Its machine is put down; its lanes are being released.
    Leaving,
}

/// A publish call under way.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) destination: DestinationIndex,
    pub(super) flight: Flight,
    pub(super) rows: Vec<(i64, Term)>,
}

/// A read under way.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) number: u64,
    pub(super) read: Read,
    pub(super) sent: u64,
}

/// One relay.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) place: usize,
    ppm: i64,
    pub(super) epoch: u32,
    pub(super) life: Life,
    started_at: u64,
    pub(super) paused_until: Option<u64>,
    stashed: Vec<Op>,
    pub(super) machine: Machine,
    pub(super) holder: Holder,
    pub(super) me: Option<RelayId>,
    /// So often the leaseholder was told to join again and has not left yet: what it says until then is not heard.
    pub(super) leaving: u32,
    /// By its own clock.
    pub(super) trusted_until: u64,
    pub(super) reading: Option<Reading>,
    /// A read that was asked for ahead of the answer to the one under way.
    pub(super) ahead: Option<Read>,
    /// How long a read took at most until its answer was taken in.
    pub(super) longest_read: u64,
    pub(super) settling: Option<u64>,
    /// A settle that was asked for ahead of the answer to the one under way, and the member that it was then.
    pub(super) settle_ahead: Option<(RelayId, Settle)>,
    pub(super) flights: BTreeMap<u64, Flying>,
    pub(super) lease_call: Option<u64>,
    /// The leases of outcomes that could not be recorded, and were not since.
    pub(super) unsettled: Vec<HeldLane>,
    /// Those of the settle under way.
    pub(super) settles: Vec<HeldLane>,
    stop_at: Option<u64>,
    /// By its own clock: when it ends although its lanes are not released.
    pub(super) leaves_by: u64,
    pub(super) restart_after: u64,
    /// It carries out what it was told to do.
    pub(super) is_busy: bool,
    /// Something was told to it meanwhile.
    pub(super) asks_again: bool,
    pub(super) connection: u64,
    pub(super) source: SimSource,
    pub(super) cut: Option<(StoreMode, u64)>,
    wakes_at: u64,
    pub(super) keeps_at: u64,
    turns: (u64, u32),
}

impl Relay {
    pub(super) fn new(place: usize, ppm: i64, plan: &Plan) -> Self {
        Self {
            place,
            ppm,
            epoch: 0,
            life: Life::Down,
            started_at: 0,
            paused_until: None,
            stashed: Vec::new(),
            machine: Machine::new(plan.settings.clone()),
            holder: Holder::new(
                plan.ttl,
                plan.deadlines.fresh_lease,
                LaneCount::new(plan.lanes).unwrap_or(LaneCount::ONE),
            ),
            me: None,
            leaving: 0,
            trusted_until: 0,
            reading: None,
            ahead: None,
            longest_read: 0,
            settling: None,
            settle_ahead: None,
            flights: BTreeMap::new(),
            lease_call: None,
            unsettled: Vec::new(),
            settles: Vec::new(),
            stop_at: None,
            leaves_by: u64::MAX,
            restart_after: 0,
            is_busy: false,
            asks_again: false,
            connection: 0,
            source: SimSource::default(),
            cut: None,
            wakes_at: u64::MAX,
            keeps_at: u64::MAX,
            turns: (0, 0),
        }
    }

    /// Its own clock, in microseconds since it started.
    pub(super) fn local(&self, now: u64) -> u64 {
        let passed = i128::from(now.saturating_sub(self.started_at));
        u64::try_from(passed * i128::from(1_000_000 + self.ppm) / 1_000_000).unwrap_or(0)
    }

    /// The true time at which its own clock shows this.
    pub(super) fn true_time(&self, local: u64) -> u64 {
        let rate = i128::from(1_000_000 + self.ppm);
        let passed = (i128::from(local) * 1_000_000 + rate - 1) / rate;
        self.started_at.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX / 4))
    }

    fn tick(&self, now: u64) -> Tick {
        Tick::after_start(Duration::from_micros(self.local(now)))
    }

    /// How many lanes it holds.
    pub(super) fn lanes(&self) -> usize {
        if self.life == Life::Running { self.machine.held().len() } else { 0 }
    }

    /// Whether there is nothing that it has to do.
    pub(super) fn is_idle(&self) -> bool {
        let idle = self.machine.held().is_empty() || self.machine.is_idle();
        self.life == Life::Running && idle && self.flights.is_empty() && self.settling.is_none()
    }

    /// The lanes that it holds, with their terms.
    pub(super) fn terms(&self) -> Vec<(Lane, Term)> {
        self.machine.held().iter().map(|held| (held.lane, held.term)).collect()
    }

    /// Whether it runs with nothing wrong: no call is unanswered that was made before this one, but for calls to a
    /// destination that is away, and no lane is begun carefully.
    pub(super) fn is_calm(&self, now: u64, last_call: u64, away: usize) -> bool {
        let runs =
            self.life == Life::Running && self.paused_until.is_none() && self.stop_at.is_none() && self.leaving == 0;
        let reading = self.reading.as_ref().map(|reading| reading.number);
        let flights =
            self.flights.iter().filter(|(_, flying)| flying.destination.get() != away).map(|(number, _)| *number);
        let is_answered = reading.into_iter().chain(self.settling).chain(flights).all(|number| number > last_call);
        let is_clean = self.machine.held().iter().all(|held| held.start == Start::Clean);
        let is_cut = self.cut.is_some_and(|(_, until)| until > now);
        runs && is_answered && is_clean && !is_cut && self.unsettled.is_empty()
    }

    pub(super) fn summary(&self) -> String {
        let (rows, _) = self.machine.window();
        format!("relay {}: {:?}, {} lanes, {rows} rows", self.place, self.life, self.lanes())
    }
}

impl World {
    pub(super) fn is_frozen(&self, relay: usize) -> bool {
        self.relays[relay].paused_until.is_some()
    }

    /// What reaches a process that stands still waits in its sockets.
    pub(super) fn stash(&mut self, relay: usize, op: Op) {
        if matches!(op, Op::Depart(_)) {
            self.see(Sight::PausedInCall);
        }
        self.relays[relay].stashed.push(op);
    }

    pub(super) fn start(&mut self, place: usize) {
        if self.relays[place].life != Life::Down {
            return;
        }
        if self.relays.iter().any(|relay| relay.lanes() > 0) {
            self.see(Sight::Joined);
        }
        let (epoch, ppm) = (self.relays[place].epoch + 1, self.relays[place].ppm);
        let mut relay = Relay::new(place, ppm, &self.plan);
        relay.epoch = epoch;
        relay.life = Life::Running;
        relay.started_at = self.now;
        relay.connection = self.relays[place].connection + 1;
        relay.cut = self.relays[place].cut;
        self.relays[place] = relay;
        self.history.tell(self.now, || format!("** relay {place} starts"));
        self.keep(place, epoch);
        self.turn(place);
    }

    pub(super) fn crash(&mut self, place: usize, down: u64) {
        let relay = &mut self.relays[place];
        if relay.life == Life::Down {
            return;
        }
        let in_call = !relay.flights.is_empty() || relay.settling.is_some();
        relay.epoch += 1;
        relay.life = Life::Down;
        relay.paused_until = None;
        relay.stashed.clear();
        let lanes: Vec<Lane> = relay.machine.held().iter().map(|held| held.lane).collect();
        if in_call {
            self.see(Sight::Crashed);
        }
        if self.ledger.is_any_unsettled(&self.store, &lanes) {
            self.see(Sight::CrashedUnsettled);
        }
        self.after(down, Op::Start(place));
    }

    /// A message has killed the relay that has it in its hands.
    pub(super) fn killed(&mut self, place: usize) {
        self.see(Sight::Killed);
        self.history.tell(self.now, || format!("** relay {place} dies of a message"));
        let down = self.rng.below(500_000);
        self.crash(place, down);
    }

    pub(super) fn stop(&mut self, place: usize, down: u64) {
        let deadline = self.plan.deadlines.stop;
        let (now, relay) = (self.now, &mut self.relays[place]);
        if relay.life != Life::Running || relay.stop_at.is_some() || relay.paused_until.is_some() {
            return;
        }
        relay.stop_at = Some(relay.local(now) + deadline);
        relay.restart_after = down;
        if !relay.flights.is_empty() || relay.settling.is_some() {
            self.see(Sight::Stopped);
        }
        self.tell(place, Event::Stop);
        self.turn(place);
    }

    pub(super) fn hint(&mut self, place: usize) {
        if self.relays[place].life == Life::Running && !self.is_frozen(place) {
            self.see(Sight::Hinted);
            self.tell(place, Event::Hint);
            self.turn(place);
        }
    }

    pub(super) fn resume(&mut self, place: usize, epoch: u32) {
        let relay = &mut self.relays[place];
        if relay.epoch != epoch || relay.paused_until.is_none() {
            return;
        }
        relay.paused_until = None;
        let stashed = std::mem::take(&mut relay.stashed);
        self.history.tell(self.now, || format!("** relay {place} resumes"));
        // Which of its tasks gets to run first is nobody's promise.
        let timers_first = self.rng.chance(500);
        if timers_first {
            self.turn(place);
        }
        for op in stashed {
            let delay = self.rng.below(50);
            self.after(delay, op);
        }
        self.after(60, Op::Wake(place, epoch));
        self.relays[place].wakes_at = self.now + 60;
        self.keep(place, epoch);
    }

    pub(super) fn wake(&mut self, place: usize, epoch: u32) {
        let relay = &mut self.relays[place];
        if relay.epoch == epoch && relay.wakes_at <= self.now && relay.paused_until.is_none() {
            relay.wakes_at = u64::MAX;
            self.turn(place);
        }
    }

    /// Tells the machine what happened.
    pub(super) fn tell(&mut self, place: usize, event: Event) {
        self.history.tell(self.now, || format!("{place} <- {}", heard(&event)));
        let tick = self.relays[place].tick(self.now);
        self.relays[place].machine.on(tick, event);
    }

    /// One turn of the loop: what is to be done is begun, what is new is passed on, and the next wake is set.
    pub(super) fn turn(&mut self, place: usize) {
        if self.relays[place].life != Life::Running || self.relays[place].paused_until.is_some() {
            return;
        }
        // It was told to stop at an awkward moment of what it just began: it asks again when it has begun the rest.
        if std::mem::replace(&mut self.relays[place].is_busy, true) {
            self.relays[place].asks_again = true;
            return;
        }
        let epoch = self.relays[place].epoch;
        let tick = self.relays[place].tick(self.now);
        loop {
            for action in self.relays[place].machine.actions(tick) {
                self.perform(place, action);
                // Something may have happened to the process at such a moment.
                if self.relays[place].epoch != epoch {
                    return;
                }
            }
            if !std::mem::take(&mut self.relays[place].asks_again) || self.relays[place].paused_until.is_some() {
                break;
            }
        }
        self.relays[place].is_busy = false;
        self.look_around(place);
        if self.relays[place].epoch != epoch || self.relays[place].life != Life::Running {
            return;
        }
        let (now, relay) = (self.now, &mut self.relays[place]);
        if relay.stop_at.is_some_and(|at| relay.local(now) >= at)
            || relay.stop_at.is_some() && relay.machine.is_drained()
        {
            self.end(place);
            return;
        }
        let wake = relay.machine.wake_at(tick).since_start();
        let wake = u64::try_from(wake.as_micros()).unwrap_or(u64::MAX / 4).min(relay.stop_at.unwrap_or(u64::MAX));
        let at = relay.true_time(wake).max(now + 1);
        if relay.turns.0 != now / 1_000 {
            relay.turns = (now / 1_000, 0);
        }
        relay.turns.1 += 1;
        let busy = relay.turns.1 > MOST_TURNS;
        if relay.paused_until.is_none() && at != relay.wakes_at {
            relay.wakes_at = at;
            self.at(at, Op::Wake(place, epoch));
        }
        if busy {
            self.violated("P7", format!("relay {place} turns without end"), Vec::new());
        }
    }

    /// Notes, and what must hold at every moment.
    fn look_around(&mut self, place: usize) {
        for note in self.relays[place].machine.take_notes() {
            self.history.tell(self.now, || format!("{place} -- {note:?}"));
            match note {
                Note::Fenced(held) => {
                    self.see(Sight::Fenced);
                    self.relays[place].holder.order(Order::Release(vec![held]));
                }
                Note::NumbersCameAgain(held) => self.relays[place].holder.order(Order::Release(vec![held])),
                Note::SweepFound(rows) => {
                    self.violated("P1", format!("the sweep found {rows} rows that everything else had missed"), vec![]);
                }
                Note::Paused(..) => self.see(Sight::DestinationPaused),
                Note::Retry { .. } => self.see(Sight::Retried),
                Note::Dead { .. } => self.see(Sight::Buried),
                _ => {}
            }
        }
        let epoch = self.relays[place].epoch;
        self.keep(place, epoch);
        let (rows, bytes) = self.relays[place].machine.window();
        let settings = &self.plan.settings;
        let heaviest = 5_100;
        if rows > settings.window_rows || bytes > settings.window_bytes + heaviest {
            self.violated("P7", format!("relay {place} has {rows} rows and {bytes} bytes in its window"), Vec::new());
        } else if rows == settings.window_rows || bytes >= settings.window_bytes {
            self.see(Sight::WindowFull);
        }
        let relay = &self.relays[place];
        if rows > 0 && relay.local(self.now) >= relay.trusted_until {
            self.see(Sight::TrustRanOut);
        }
    }

    fn perform(&mut self, place: usize, action: Action) {
        self.history.tell(self.now, || format!("{place} -> {}", done(&action)));
        match action {
            Action::Read(read) => {
                match &read.wanted {
                    Wanted::Key(..) => self.see(Sight::Looked),
                    Wanted::Walk(..) => self.see(Sight::Walked),
                    Wanted::Rows(..) => self.see(Sight::Beheaded),
                    Wanted::New | Wanted::Due(_) | Wanted::Sweep(_) => {}
                }
                let relay = &mut self.relays[place];
                let is_reading = relay.reading.is_some();
                if read.ahead != is_reading || relay.ahead.is_some() {
                    self.violated("P7", format!("relay {place} reads more at once than it knows"), Vec::new());
                } else if is_reading {
                    relay.ahead = Some(read);
                } else {
                    self.begin_read(place, read);
                }
            }
            Action::Settle(settle) => {
                self.trusts(place, "settles", settle.rows.iter().map(|one| (one.row.0, one.lane)));
                settle.rows.iter().for_each(|settlement| self.settling(place, settlement));
                let relay = &mut self.relays[place];
                let is_settling = relay.settling.is_some();
                let Some(me) = relay.me else {
                    self.violated("P6", format!("relay {place} settles without being a member"), Vec::new());
                    return;
                };
                if settle.ahead != is_settling || relay.settle_ahead.is_some() {
                    self.violated("P7", format!("relay {place} settles more at once than it knows"), Vec::new());
                } else if is_settling {
                    relay.settle_ahead = Some((me, settle));
                } else {
                    self.begin_settle(place, me, settle);
                }
            }
            Action::Publish(destination, flight, batch) => {
                self.publishing(place, destination, &batch);
                let kills = |row| self.poison(row).is_some_and(|(_, poison)| poison == Poison::KillsPublisher);
                if batch.iter().any(|outgoing| kills(row_of(outgoing))) {
                    self.killed(place);
                    return;
                }
                let rows = batch.iter().map(|outgoing| (row_of(outgoing), outgoing.term)).collect();
                let number = self.call(place, Request::Publish(destination, batch));
                self.relays[place].flights.insert(number, Flying { destination, flight, rows });
                self.moment(place, Moment::Publishing);
            }
            Action::Release(lanes) => {
                self.releasing(place, &lanes);
                self.relays[place].holder.order(Order::Release(lanes));
            }
            Action::Check(destination) => {
                self.see(Sight::Checked);
                self.call(place, Request::Check(destination));
            }
        }
    }

    pub(super) fn begin_settle(&mut self, place: usize, me: RelayId, settle: Settle) {
        self.relays[place].settles = settle.touched();
        let number = self.call(place, Request::Settle(me, settle.leases, settle.rows));
        self.relays[place].settling = Some(number);
        self.moment(place, Moment::Settling);
    }

    pub(super) fn begin_read(&mut self, place: usize, read: Read) {
        let number = self.call(place, Request::Read(read.clone()));
        let sent = self.now;
        self.relays[place].reading = Some(Reading { number, read, sent });
    }

    /// The stop is over: calls under way are abandoned, the lanes are released.
    fn end(&mut self, place: usize) {
        let relay = &mut self.relays[place];
        let drained = relay.machine.is_drained();
        relay.life = Life::Leaving;
        relay.flights.clear();
        (relay.settling, relay.settle_ahead) = (None, None);
        (relay.reading, relay.ahead) = (None, None);
        let lanes: Vec<HeldLane> = relay.machine.held();
        relay.holder.order(Order::Leave(lanes.clone()));
        relay.leaves_by = relay.local(self.now) + self.plan.ttl;
        let epoch = relay.epoch;
        if drained {
            self.is_recorded(place, &lanes);
        } else {
            self.see(Sight::StopAtDeadline);
        }
        self.keep(place, epoch);
    }

    /// A request is made.
    pub(super) fn call(&mut self, place: usize, request: Request) -> u64 {
        self.last_call += 1;
        let number = self.last_call;
        let relay = &self.relays[place];
        let call = Call::new(place, relay.epoch, number, request);
        let delay = self.rng.below(200);
        self.after(delay, Op::Depart(Box::new(call)));
        number
    }
}

fn done(action: &Action) -> String {
    match action {
        Action::Read(read) => format!("read {:?} {:?} {:?}", read.ticket, read.wanted, read.room),
        Action::Publish(destination, flight, batch) => {
            format!("publish to {} {flight:?}: {}", destination.get(), Rows(batch.iter().map(row_of)))
        }
        Action::Settle(settle) => {
            let rows: Vec<String> = settle.rows.iter().map(|one| format!("#{} {:?}", one.row.0, one.outcome)).collect();
            format!("settle {}", rows.join(", "))
        }
        Action::Release(lanes) => format!("release {lanes:?}"),
        Action::Check(destination) => format!("check {}", destination.get()),
    }
}

fn heard(event: &Event) -> String {
    match event {
        Event::Answered(read, postrider_core::machine::Answer::Page(page)) => {
            let rows: Vec<String> = page
                .rows
                .iter()
                .map(|row| {
                    format!("#{} {:?} {:?} {:?} owes {:?}", row.id.0, row.state, row.due, row.closed, row.waiting_for)
                })
                .collect();
            format!("read {:?}: {}{}", read.ticket, rows.join(", "), if page.more { " and more" } else { "" })
        }
        Event::Settled(Ok(settled)) => {
            format!("settled {} in {:?}", Rows(settled.rows.iter().map(|row| row.0)), settled.lanes)
        }
        other => format!("{other:?}"),
    }
}
