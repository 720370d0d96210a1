//! A small world around the machine: a table, brokers, leases, a clock, and delays drawn from a seed.

mod brief;
mod checks;
mod operator;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brief::brief;

use super::broker::{Broker, Mode};
use super::rng::Rng;
use super::table::{Stored, Table};
use crate::machine::*;
use crate::*;

/// What is under way or will happen.
#[derive(Debug)]
enum Op {
    Read(u64, Read),
    Publish(u64, DestinationIndex, Flight, Vec<Outgoing>),
    Settle(u64, Settle),
    Check(u64, DestinationIndex),
    Answer(u64, Event),
    Happens(Happening),
}

/// What the script lets happen.
#[derive(Debug, Clone)]
pub enum Happening {
    Commit(i64, Box<Stored>),
    Broker(usize, Mode),
    Store(Option<ErrorKind>),
    Lose(Vec<Lane>),
    Gain(Vec<Lane>),
    /// Lanes are wanted elsewhere; they come back some time after they were released.
    HandBack(Vec<Lane>),
    Crash,
    Start,
    Stop,
    Replay,
    /// An operator replays or discards every row that holds its key.
    Open,
    Delete(i64),
    Trust(u64),
    Hint,
}

/// How often the interesting things happened.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    pub set_aside: u64,
    pub looks: u64,
    pub stale: u64,
    pub probes: u64,
    pub alone: u64,
    pub burials: u64,
    pub expired: u64,
    pub dropped: BTreeSet<i64>,
    pub holds: u64,
    pub forwards: u64,
    /// Rows accepted at a destination at which their key was held.
    pub overtook: u64,
    pub lost_in_flight: u64,
    pub swept: u64,
    pub fenced: u64,
    pub charged: u64,
    pub walks: u64,
    pub paused: u64,
    pub suspected: u64,
    pub died: u64,
    pub handed_back: u64,
    pub handed_back_in_flight: u64,
    pub reads_ahead: u64,
    /// Reads asked for ahead that were not made.
    pub not_made: u64,
    pub settled_ahead: u64,
    /// Settles asked for ahead that were not made.
    pub not_settled: u64,
}

pub struct World {
    pub now: u64,
    pub rng: Rng,
    pub table: Table,
    pub brokers: Vec<Broker>,
    pub machine: Machine,
    pub settings: Settings,
    pub notes: Vec<Note>,
    pub seen: Seen,
    pub settles: Vec<Settlement>,
    /// Microseconds that a store takes to begin, and to answer, at most.
    pub store_latency: (u64, u64),
    pub ids: BTreeMap<MessageId, i64>,
    pub keys: BTreeMap<i64, Key>,
    pub replayed: Vec<i64>,
    pub discarded: Vec<i64>,
    pub reads: Vec<Wanted>,
    /// Lanes whose owner died.
    pub unclean: BTreeSet<Lane>,
    /// How often each lane was begun carefully.
    pub careful_starts: BTreeMap<Lane, u16>,
    pub crashes: u64,
    /// Rows that each of them asked for.
    pub rooms: Vec<usize>,
    reading: bool,
    /// A read that was asked for ahead of the answer to the one under way.
    ahead: Option<Read>,
    pub heaviest: usize,
    pub trace: bool,
    store: Option<ErrorKind>,
    operations: BTreeMap<(u64, u64), Op>,
    sequence: u64,
    last_id: i64,
    epoch: u64,
    stopping: bool,
    /// Between a crash and the next start.
    down: bool,
    calls: (u64, u32),
    /// What was sent and is not answered, by the machine's life and the call.
    flying: BTreeMap<(u64, Flight), Vec<(Lane, Term)>>,
    /// The lanes of what is being settled.
    settling: Vec<HeldLane>,
    /// A settle that was asked for ahead of the answer to the one under way.
    settle_ahead: Option<Settle>,
}

impl World {
    pub fn new(seed: u64, brokers: Vec<Broker>, lanes: u16) -> Self {
        let routes = (0..brokers.len())
            .map(|place| Route { topics: topics_of(place), destination: DestinationIndex::new(place) })
            .collect();
        let destinations = brokers
            .iter()
            .enumerate()
            .map(|(place, broker)| DestinationSettings {
                name: name(place),
                profile: broker.profile.clone(),
                template: DestinationTemplate::topic(),
            })
            .collect();
        let mut settings = Settings::new(destinations, routes);
        settings.retry = vec![(
            TopicPattern::every(),
            RetryPolicy {
                initial: Duration::from_millis(200),
                maximum: Duration::from_secs(2),
                multiplier: 2.0,
                attempts: Attempts::AtMost(4),
                ..RetryPolicy::default()
            },
        )];
        settings.seed = seed;
        (settings.settle_pause, settings.sweep_round) = (Duration::ZERO, Duration::from_secs(360_000));
        Self {
            now: 0,
            rng: Rng(seed),
            table: Table::new(lanes),
            brokers,
            machine: Machine::new(settings.clone()),
            settings,
            notes: Vec::new(),
            seen: Seen::default(),
            settles: Vec::new(),
            store_latency: (300, 300),
            ids: BTreeMap::new(),
            keys: BTreeMap::new(),
            replayed: Vec::new(),
            discarded: Vec::new(),
            reads: Vec::new(),
            unclean: BTreeSet::new(),
            careful_starts: BTreeMap::new(),
            crashes: 0,
            rooms: Vec::new(),
            reading: false,
            ahead: None,
            heaviest: 0,
            trace: std::env::var_os("POSTRIDER_TRACE").is_some(),
            store: None,
            operations: BTreeMap::new(),
            sequence: 0,
            last_id: 0,
            epoch: 0,
            stopping: false,
            down: false,
            calls: (0, 0),
            flying: BTreeMap::new(),
            settling: Vec::new(),
            settle_ahead: None,
        }
    }

    /// One broker, two lanes, started.
    pub fn small(order: OrderInBatch, isolation: Isolation) -> Self {
        let mut world = Self::new(1, vec![Broker::new(order, isolation)], 2);
        world.start();
        world
    }

    /// Two brokers, two lanes, started.
    pub fn two(order: OrderInBatch, isolation: Isolation) -> Self {
        let mut world = Self::new(1, vec![Broker::new(order, isolation), Broker::new(order, isolation)], 2);
        world.start();
        world
    }

    fn tick(&self) -> Tick {
        Tick::after_start(Duration::from_micros(self.now))
    }

    /// A new machine takes every lane over.
    pub fn start(&mut self) {
        self.epoch += 1;
        (self.stopping, self.down) = (false, false);
        self.machine = Machine::new(self.settings.clone());
        self.settling.clear();
        (self.reading, self.ahead, self.settle_ahead) = (false, None, None);
        let trusted = Event::Trusted(Tick::after_start(Duration::from_secs(1_000_000)));
        self.machine.on(self.tick(), trusted);
        let lanes = (0..self.table.lanes).map(Lane).collect();
        self.gain(lanes);
    }

    fn gain(&mut self, lanes: Vec<Lane>) {
        let mut gained = Vec::new();
        for lane in lanes {
            if self.machine.held().iter().any(|held| held.lane == lane && self.table.terms[&lane] == held.term) {
                continue;
            }
            let term = self.table.terms.get_mut(&lane).unwrap();
            term.0 += 1;
            let start = if self.unclean.remove(&lane) { Start::Careful } else { Start::Clean };
            *self.careful_starts.entry(lane).or_default() += u16::from(start == Start::Careful);
            gained.push(HeldLane { lane, term: *term, start });
        }
        self.machine.on(self.tick(), Event::Gained(gained));
    }

    /// The key of a row, as long as it is remembered.
    pub fn key(&self, row: i64) -> Option<Key> {
        self.keys.get(&row).cloned()
    }

    pub fn id(&self, row: i64) -> MessageId {
        MessageId(uuid::Uuid::from_u128(u128::try_from(row).unwrap()))
    }

    /// Something happens `after` microseconds from now.
    pub fn happens(&mut self, after: u64, happening: Happening) {
        self.later(after, Op::Happens(happening));
    }

    fn later(&mut self, after: u64, op: Op) {
        self.sequence += 1;
        self.operations.insert((self.now + after, self.sequence), op);
    }

    fn answer(&mut self, epoch: u64, latency: u64, event: Event) {
        let after = self.rng.below(latency + 1);
        self.later(after, Op::Answer(epoch, event));
    }

    /// Lets the world go on for so many milliseconds.
    pub fn run(&mut self, millis: u64) {
        let end = self.now + millis * 1_000;
        self.run_until(end, |_| false);
    }

    /// Lets the world go on until a condition holds, for at most so many seconds; whether it came to hold.
    pub fn until(&mut self, seconds: u64, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + seconds * 1_000_000;
        self.run_until(end, &done);
        done(self)
    }

    fn run_until(&mut self, end: u64, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            self.act();
            let wake = self.machine.wake_at(self.tick()).since_start();
            assert!(wake > self.tick().since_start(), "a busy loop: nothing to do, and asked to come back at once");
            let wake = u64::try_from(wake.as_micros()).unwrap().max(self.now + 1);
            let operation = self.operations.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            if wake.min(operation) > end {
                self.now = end;
                return;
            }
            if operation <= wake {
                let ((at, _), op) = self.operations.pop_first().unwrap();
                self.now = self.now.max(at);
                self.carry_on(op);
                self.look_around();
            } else {
                self.now = wake;
            }
        }
    }

    /// Carries out what the machine wants, until it wants nothing more.
    fn act(&mut self) {
        loop {
            if self.calls.0 != self.now / 1_000 {
                self.calls = (self.now / 1_000, 0);
            }
            self.calls.1 += 1;
            assert!(self.calls.1 < 2_000, "more than 2,000 calls within a millisecond");
            let actions = self.machine.actions(self.tick());
            if actions.is_empty() {
                break;
            }
            actions.into_iter().for_each(|action| self.begin(action));
            self.look_around();
        }
        if self.stopping && self.machine.is_drained() {
            let lanes = self.machine.held();
            self.left_careful(&lanes);
            self.start();
            self.act();
        }
    }

    fn begin(&mut self, action: Action) {
        if self.trace {
            println!("{:>9} -> {}", self.now, brief(&action));
        }
        let epoch = self.epoch;
        let begins = self.rng.below(self.store_latency.0 + 1);
        match action {
            Action::Read(read) => {
                match &read.wanted {
                    Wanted::Key(..) => self.seen.looks += 1,
                    Wanted::Walk(..) => self.seen.walks += 1,
                    _ => {}
                }
                self.reads.push(read.wanted.clone());
                self.rooms.push(read.room.rows);
                assert_eq!(self.reading, read.ahead, "a read knows whether one is under way");
                if std::mem::replace(&mut self.reading, true) {
                    assert!(self.ahead.replace(read).is_none(), "two reads ahead at once");
                } else {
                    self.later(begins, Op::Read(epoch, read));
                }
            }
            Action::Settle(settle) => {
                assert_eq!(!self.settling.is_empty(), settle.ahead, "a settle knows whether one is under way");
                self.settling.extend(settle.touched());
                for settlement in &settle.rows {
                    match &settlement.outcome {
                        Outcome::Dead { reason: DeadReason::Expired, .. } => {
                            self.seen.expired += 1;
                            self.is_over(settlement.row.0);
                        }
                        Outcome::Dead { .. } => self.seen.burials += 1,
                        Outcome::Holding { .. } => self.seen.holds += 1,
                        Outcome::SetAside { .. } => self.seen.set_aside += 1,
                        Outcome::Retry { attempts, .. } => self.seen.charged += u64::from(*attempts > 0),
                        Outcome::Suspected { .. } => self.seen.suspected += 1,
                        Outcome::Forward { .. } => self.seen.forwards += 1,
                        Outcome::Dropped => {
                            self.seen.dropped.insert(settlement.row.0);
                            self.is_over(settlement.row.0);
                        }
                        Outcome::Delivered => {}
                    }
                }
                self.settles.extend(settle.rows.iter().cloned());
                if settle.ahead {
                    assert!(self.settle_ahead.replace(settle).is_none(), "two settles ahead at once");
                } else {
                    self.later(begins, Op::Settle(epoch, settle));
                }
            }
            Action::Publish(destination, flight, batch) => {
                let view = &self.machine.destinations()[destination.get()];
                assert!(!batch.is_empty(), "an empty call");
                let sent = batch.iter().map(|outgoing| (outgoing.lane, outgoing.term)).collect();
                self.flying.insert((epoch, flight), sent);
                self.is_fresh(&batch);
                assert!(view.flights <= self.brokers[destination.get()].profile.max_concurrent);
                if view.paused.is_some() {
                    assert_eq!(batch.len(), 1, "a probe is one message");
                    self.seen.probes += 1;
                } else if batch.len() == 1 && batch[0].attempt.0 > 2 && view.flights == 1 {
                    self.seen.alone += 1;
                }
                let latency = self.brokers[destination.get()].latency;
                let after = latency / 10 + self.rng.below(latency);
                self.later(after, Op::Publish(epoch, destination, flight, batch));
            }
            Action::Check(destination) => self.later(begins, Op::Check(epoch, destination)),
            Action::Release(lanes) => self.release(lanes),
        }
    }

    fn carry_on(&mut self, op: Op) {
        let answers = self.store_latency.1;
        match op {
            Op::Read(epoch, read) => {
                let answer = match self.store {
                    Some(kind) => {
                        self.table.disconnect();
                        Answer::Failed(Error::new(kind, "scripted"))
                    }
                    None => match self.table.read(&read, self.now) {
                        Ok(page) => Answer::Page(page),
                        Err(keys) => Answer::Keys(keys),
                    },
                };
                self.answer(epoch, answers, Event::Answered(read, answer));
            }
            Op::Settle(epoch, Settle { leases, rows: batch, .. }) => {
                let answer = match self.store {
                    Some(kind) => {
                        if self.rng.chance(300) {
                            self.table.settle(self.now, &leases, &batch);
                        }
                        Err(Error::new(kind, "scripted"))
                    }
                    None => Ok(self.table.settle(self.now, &leases, &batch)),
                };
                self.answer(epoch, answers, Event::Settled(answer));
            }
            Op::Publish(epoch, destination, flight, batch) => {
                let broker = &mut self.brokers[destination.get()];
                let known = broker.log.len();
                let results = broker.publish(&mut self.rng, &self.ids, &batch);
                for accepted in &broker.log[known..] {
                    let held = self.table.is_held(accepted.row, &name(destination.get()));
                    self.seen.overtook += u64::from(held);
                }
                if epoch == self.epoch && std::mem::take(&mut broker.killed) {
                    self.happen(Happening::Crash);
                    return;
                }
                let latency = broker.latency;
                self.answer(epoch, latency, Event::Published(flight, results));
            }
            Op::Check(epoch, destination) => {
                let answer = match self.brokers[destination.get()].mode {
                    Mode::Down(kind) if kind != ErrorKind::Rejected => Err(Error::new(kind, "scripted")),
                    _ => Ok(()),
                };
                self.answer(epoch, 500, Event::Checked(destination, answer));
            }
            Op::Answer(epoch, event) if epoch == self.epoch => self.tell(event),
            Op::Answer(..) => {}
            Op::Happens(happening) => self.happen(happening),
        }
    }

    fn tell(&mut self, event: Event) {
        if self.trace {
            println!("{:>9} <- {event:?}", self.now);
        }
        if let Event::Answered(_, Answer::Page(page)) = &event {
            for row in &page.rows {
                let same = self.table.rows.get(&row.id.0).is_some_and(|stored| {
                    stored.state == row.state && stored.next_attempt_at.is_some() == (row.retrying == Retrying::Yes)
                });
                self.seen.stale += u64::from(!same);
            }
        }
        let (mut not_made, mut not_settled) = (None, false);
        match &event {
            Event::Answered(read, answer) => match self.ahead.take() {
                Some(ahead) if read.goes_on(answer) => {
                    self.seen.reads_ahead += 1;
                    self.later(0, Op::Read(self.epoch, ahead));
                }
                ahead => {
                    self.reading = false;
                    not_made = ahead;
                }
            },
            Event::Published(flight, _) => drop(self.flying.remove(&(self.epoch, *flight))),
            Event::Settled(answer) => {
                self.settling.clear();
                match self.settle_ahead.take() {
                    Some(ahead) if answer.is_ok() => {
                        self.seen.settled_ahead += 1;
                        self.settling = ahead.touched();
                        self.later(0, Op::Settle(self.epoch, ahead));
                    }
                    ahead => not_settled = ahead.is_some(),
                }
            }
            _ => {}
        }
        self.machine.on(self.tick(), event);
        if not_settled {
            self.seen.not_settled += 1;
            self.machine.on(self.tick(), Event::NotSettled);
        }
        if let Some(read) = not_made {
            self.seen.not_made += 1;
            self.machine.on(self.tick(), Event::Answered(read, Answer::NotMade));
        }
    }

    fn happen(&mut self, happening: Happening) {
        if self.trace {
            println!("{:>9} ** {happening:?}", self.now);
        }
        match happening {
            Happening::Commit(id, stored) => self.table.put(id, *stored),
            Happening::Broker(place, mode) => self.brokers[place].mode = mode,
            Happening::Store(kind) => self.store = kind,
            Happening::Lose(lanes) => {
                for lane in &lanes {
                    self.table.terms.get_mut(lane).unwrap().0 += 1;
                    self.unclean.insert(*lane);
                }
                let flights: usize = self.machine.destinations().iter().map(|view| view.flights).sum();
                self.seen.lost_in_flight += u64::from(flights > 0);
                // The relay learns of it by its own clock, or by a settle that was fenced.
                let epoch = self.epoch;
                self.answer(epoch, 20_000, Event::Lost(lanes));
            }
            Happening::Gain(_) if self.down => {}
            Happening::Gain(lanes) => self.gain(lanes),
            Happening::HandBack(lanes) => {
                let held = self.machine.held().into_iter().filter(|held| lanes.contains(&held.lane));
                let event = Event::HandBack(held.collect());
                self.seen.handed_back_in_flight += u64::from(self.machine.destinations().iter().any(|d| d.flights > 0));
                self.machine.on(self.tick(), event);
            }
            Happening::Crash => {
                self.epoch += 1;
                self.crashes += 1;
                self.unclean = (0..self.table.lanes).map(Lane).collect();
                self.machine = Machine::new(self.settings.clone());
                (self.stopping, self.reading, self.down) = (false, false, true);
                (self.ahead, self.settle_ahead) = (None, None);
                self.settling.clear();
                self.happens(5_000, Happening::Start);
            }
            Happening::Start => self.start(),
            Happening::Stop => {
                self.stopping = true;
                self.machine.on(self.tick(), Event::Stop);
            }
            Happening::Replay => self.replay_dead(),
            Happening::Open => self.open_keys(),
            Happening::Delete(id) => {
                self.table.rows.remove(&id);
            }
            Happening::Trust(micros) => {
                let until = Tick::after_start(Duration::from_micros(micros));
                self.machine.on(self.tick(), Event::Trusted(until));
            }
            Happening::Hint => self.machine.on(self.tick(), Event::Hint),
        }
    }

    /// What must hold at every moment.
    fn look_around(&mut self) {
        let (rows, bytes) = self.machine.window();
        assert!(rows <= self.settings.window_rows, "{rows} rows in a window of {}", self.settings.window_rows);
        let most = self.settings.window_bytes + self.heaviest;
        assert!(bytes <= most, "{bytes} bytes in a window of {}", self.settings.window_bytes);
        for note in self.machine.take_notes() {
            if self.trace {
                println!("{:>9} -- {note:?}", self.now);
            }
            match &note {
                Note::SweepFound(rows) => self.seen.swept += rows,
                Note::Fenced(_) => self.seen.fenced += 1,
                _ => {}
            }
            self.notes.push(note);
        }
    }

    /// Rows that are not dead.
    pub fn left(&self) -> Vec<i64> {
        self.table.rows.iter().filter(|(_, row)| row.state != RowState::Dead).map(|(id, _)| *id).collect()
    }

    pub fn dead(&self) -> Vec<i64> {
        self.table.rows.iter().filter(|(_, row)| row.state == RowState::Dead).map(|(id, _)| *id).collect()
    }

    /// Whether everything is delivered or dead, and the machine knows it.
    pub fn is_done(&self) -> bool {
        self.left().is_empty() && self.machine.is_idle()
    }
}

pub fn name(place: usize) -> DestinationName {
    DestinationName::new(["a", "b", "c"][place])
}

/// Topic `all` goes everywhere, `only-a` to the first destination alone, and so on.
fn topics_of(place: usize) -> TopicPattern {
    match place {
        0 => TopicPattern::every(),
        _ => TopicPattern::parse("all").unwrap(),
    }
}
