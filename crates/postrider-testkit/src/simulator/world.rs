//! The world: one queue of what will happen, in the order of true time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::coverage::{Sight, Sights};
use super::faults::{StoreMode, Trouble, When};
use super::given_up::Holds;
use super::history::History;
use super::judge::Ledger;
use super::lanes::LaneTable;
use super::outage::Watch;
use super::plan::{MILLI, Plan, SECOND};
use super::process::{Life, Relay};
use super::rng::Rng;
use super::store::SimStore;
use super::wire::{Answered, Call};

/// After everything has healed, everything must be delivered or dead within this time.
const RECOVERY: u64 = 90 * SECOND;
/// While something is left after the healing, a message for every lane is written this often: one that fails wherever it
/// goes needs others around it to be told from an outage, and these must be the same relay's.
const COMPANY: u64 = 250 * MILLI;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one, as `P3`.
    pub promise: &'static str,
    /// What was seen.
    pub text: String,
    /// The rows that it is about.
    pub rows: Vec<i64>,
}

/// Something that will happen.
#[derive(Debug)]
pub(super) enum Op {
    /// A request leaves a relay.
    Depart(Box<Call>),
    /// A request takes effect.
    Effect(Box<Call>),
    /// An answer reaches a relay.
    Reply(Box<Answered>),
    /// A relay gives a call up: relay, epoch, number.
    Late(usize, u32, u64),
    /// A relay's loop wakes.
    Wake(usize, u32),
    /// A relay's leaseholder wakes.
    Keep(usize, u32),
    Start(usize),
    Resume(usize, u32),
    /// The next step of the application.
    Write(usize),
    Trouble(usize),
    StoreBack(u64),
    BrokerBack(usize, u64),
    Heal,
    Company,
    /// A look at what goes on while a destination is away.
    Look,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: u64,
    number: u64,
    slot: usize,
}

/// What is wrong with the world at the moment.
#[derive(Debug, Default)]
pub(super) struct Condition {
    pub(super) store: Option<StoreMode>,
    pub(super) store_number: u64,
    pub(super) broker_numbers: Vec<u64>,
    pub(super) slow: Vec<bool>,
    pub(super) lossy_until: u64,
    pub(super) healed: bool,
    /// Something has happened that could give a lane two relays that trust their lease.
    pub(super) unsound: bool,
    /// The database's clock was set.
    pub(super) clock_set: bool,
}

/// One simulated world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) now: u64,
    pub(super) rng: Rng,
    pub(super) store: SimStore,
    pub(super) relays: Vec<Relay>,
    pub(super) ledger: Ledger,
    pub(super) holds: Holds,
    pub(super) condition: Condition,
    pub(super) armed: Vec<Trouble>,
    pub(super) seen: Sights,
    pub(super) history: History,
    pub(super) violation: Option<Violation>,
    pub(super) events: u64,
    pub(super) faults: u32,
    /// How often each lane was gained by somebody who is to begin carefully.
    pub(super) takeovers: Vec<u32>,
    pub(super) last_member: u128,
    pub(super) last_call: u64,
    pub(super) written: usize,
    pub(super) watch: Watch,
    queue: BinaryHeap<Reverse<Due>>,
    slots: Vec<Option<Op>>,
    free: Vec<usize>,
    number: u64,
    healed_at: u64,
}

impl World {
    pub(super) fn new(seed: u64, history: History) -> Self {
        let mut rng = Rng::seeded(seed);
        let plan = Plan::draw(&mut rng.fork());
        let store = SimStore::new(plan.keys.clone(), plan.is_one_order(), LaneTable::new(plan.lanes));
        let relays = plan.relays.iter().enumerate().map(|(place, relay)| Relay::new(place, relay.ppm, &plan)).collect();
        let condition = Condition {
            broker_numbers: vec![0; plan.brokers.len()],
            slow: vec![false; plan.brokers.len()],
            ..Condition::default()
        };
        let ledger = Ledger::new(plan.transactions);
        Self {
            now: 0,
            rng,
            store,
            relays,
            ledger,
            holds: Holds::default(),
            condition,
            armed: Vec::new(),
            seen: Sights::default(),
            history,
            violation: None,
            events: 0,
            faults: 0,
            takeovers: vec![0; usize::from(plan.lanes)],
            last_member: 0,
            last_call: 0,
            written: 0,
            watch: Watch::default(),
            queue: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            number: 0,
            healed_at: 0,
            plan,
        }
    }

    /// Plays the world to its end.
    pub(super) fn play(&mut self) {
        for relay in 0..self.relays.len() {
            self.at(self.plan.relays[relay].starts_at, Op::Start(relay));
        }
        for place in 0..self.plan.troubles.len() {
            let (When::At(at) | When::On(at, _)) = self.plan.troubles[place].when;
            self.at(at, Op::Trouble(place));
        }
        if let Some((at, _)) = self.plan.steps.first() {
            self.at(*at, Op::Write(0));
        }
        self.at(self.plan.heals_at(), Op::Heal);
        self.look_at_the_others();
        while self.violation.is_none() && !self.is_done() {
            let Some(op) = self.next() else {
                self.violated("P1", "nothing will ever happen again".to_owned(), Vec::new());
                return;
            };
            self.events += 1;
            self.store.pass(self.now);
            self.happen(op);
            if self.condition.healed && self.now > self.healed_at + RECOVERY {
                self.not_recovered();
            }
        }
        if self.violation.is_none() {
            self.judge();
        }
    }

    pub(super) fn at(&mut self, at: u64, op: Op) {
        self.number += 1;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.slots[slot] = Some(op);
        self.queue.push(Reverse(Due { at: at.max(self.now), number: self.number, slot }));
    }

    pub(super) fn after(&mut self, delay: u64, op: Op) {
        self.at(self.now.saturating_add(delay), op);
    }

    fn next(&mut self) -> Option<Op> {
        let Reverse(due) = self.queue.pop()?;
        self.now = due.at;
        self.free.push(due.slot);
        self.slots[due.slot].take()
    }

    fn happen(&mut self, op: Op) {
        match op {
            Op::Depart(call) if self.is_frozen(call.relay) => self.stash(call.relay, Op::Depart(call)),
            Op::Depart(call) => self.depart(call),
            Op::Effect(call) => self.take_effect(call),
            Op::Reply(answered) if self.is_frozen(answered.relay) => self.stash(answered.relay, Op::Reply(answered)),
            Op::Reply(answered) => self.reply(*answered),
            Op::Late(relay, epoch, call) if self.is_frozen(relay) => self.stash(relay, Op::Late(relay, epoch, call)),
            Op::Late(relay, epoch, call) => self.give_up(relay, epoch, call),
            Op::Wake(relay, epoch) => self.wake(relay, epoch),
            Op::Keep(relay, epoch) => self.keep(relay, epoch),
            Op::Start(relay) => self.start(relay),
            Op::Resume(relay, epoch) => self.resume(relay, epoch),
            Op::Write(step) => self.write(step),
            Op::Trouble(place) => self.trouble(place),
            Op::StoreBack(number) => self.store_back(number),
            Op::BrokerBack(place, number) => self.broker_back(place, number),
            Op::Heal => self.heal(),
            Op::Company => self.keep_company(),
            Op::Look => self.look_at_the_others(),
        }
    }

    fn heal(&mut self) {
        let paused = self.relays.iter().filter_map(|relay| relay.paused_until).max();
        if let Some(until) = paused {
            self.at(until + 1, Op::Heal);
            return;
        }
        self.history.tell(self.now, || "** everything heals".to_owned());
        if self.relays.iter().any(|relay| relay.life == Life::Running && relay.lanes() == 0) {
            self.see(Sight::OnlyStandby);
        }
        self.condition.healed = true;
        self.healed_at = self.now;
        self.condition.store = None;
        self.condition.lossy_until = 0;
        self.armed.clear();
        for (place, broker) in self.plan.brokers.iter_mut().enumerate() {
            (broker.mode, broker.breaks, broker.short) = (super::broker::Mode::Up, 0, 0);
            self.condition.slow[place] = false;
        }
        self.relays.iter_mut().for_each(|relay| relay.cut = None);
        self.after(COMPANY, Op::Company);
    }

    fn keep_company(&mut self) {
        // Also for what somebody removed from the table while a relay tried it: only another message tells it from its place.
        if self.store.waiting() > 0 || !self.relays.iter().all(Relay::is_idle) {
            self.open_keys();
            (0..self.store.lanes.count()).for_each(|_| self.write_company());
        }
        self.after(COMPANY, Op::Company);
    }

    /// Whether every lane is held, and no relay holds two more than another.
    pub(super) fn is_shared(&self) -> bool {
        let shares = || self.relays.iter().map(Relay::lanes);
        let (most, least) = (shares().max().unwrap_or(0), shares().min().unwrap_or(0));
        shares().sum::<usize>() == self.store.lanes.count() && most - least <= 1
    }

    /// Whether everything is delivered or dead, and every relay knows it.
    fn is_done(&self) -> bool {
        self.condition.healed
            && self.written == self.plan.steps.len()
            && self.store.waiting() == 0
            && self.relays.iter().all(Relay::is_idle)
            && self.is_shared()
    }

    fn not_recovered(&mut self) {
        let rows: Vec<i64> = self.store.rows().filter(|(_, row)| row.is_waiting()).map(|(id, _)| id).collect();
        let states: Vec<String> = rows.iter().take(5).map(|id| self.store.describe(*id)).collect();
        let relays: Vec<String> = self.relays.iter().map(Relay::summary).collect();
        let text = format!(
            "{} rows are left {} s after everything healed: {}; {}",
            rows.len(),
            RECOVERY / SECOND,
            states.join(", "),
            relays.join("; ")
        );
        let promise = if rows.is_empty() { "P7" } else { "P1" };
        self.violated(promise, text, rows);
    }

    pub(super) fn see(&mut self, sight: Sight) {
        self.seen.see(sight);
    }

    pub(super) fn violated(&mut self, promise: &'static str, text: String, rows: Vec<i64>) {
        self.history.tell(self.now, || format!("!! {promise}: {text}"));
        if self.violation.is_none() {
            self.violation = Some(Violation { promise, text, rows });
        }
    }
}
