//! What the application, the operators and the faults do.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::{Lane, Message, RetryOverride, RowState, Timestamp};

use super::coverage::Sight;
use super::faults::{Fault, Moment, StoreMode, Trouble, When};
use super::history::Rows;
use super::plan::{Draft, End, MILLI, Step};
use super::process::Life;
use super::store::Stored;
use super::world::{Op, World};

impl World {
    /// One step of one transaction.
    pub(super) fn write(&mut self, place: usize) {
        let (_, step) = self.plan.steps[place];
        self.written = place + 1;
        if let Some((at, _)) = self.plan.steps.get(place + 1) {
            self.at(*at, Op::Write(place + 1));
        }
        match step {
            Step::Insert(draft) => self.insert(draft),
            Step::Commit(transaction) => self.commit(transaction),
            Step::RollBack(transaction) => {
                let rows = self.ledger.rows_of(transaction);
                self.history.tell(self.now, || format!("** rollback {}", Rows(rows.iter().copied())));
                self.store.roll_back(&rows);
                self.see(Sight::RolledBack);
            }
        }
    }

    fn insert(&mut self, place: usize) {
        let draft = self.plan.drafts[place];
        let id = self.store.next_id();
        let mut message = Message::new(if draft.everywhere { "all" } else { "only-a" }, vec![0; draft.bytes]);
        message = message.id(uuid::Uuid::from_u128(u128::try_from(id).unwrap_or(0)));
        message.key = draft.key.map(|key| self.plan.keys[key].clone());
        let deliver_at = draft.delay.map(|delay| self.store.clock() + delay);
        if let Some(at) = deliver_at {
            message = message.deliver_at(Timestamp(i64::try_from(at).unwrap_or(i64::MAX)));
        }
        let created_at = self.store.clock();
        let expires_at = match draft.end {
            End::After(life) => Some(created_at + life),
            End::Never => Some(u64::MAX),
            End::ByPolicy | End::OlderThan(_) => None,
        };
        if let End::OlderThan(millis) = draft.end {
            message = message.retry(RetryOverride { max_age_ms: Some(millis), ..RetryOverride::default() });
        }
        let lanes = u64::from(self.plan.lanes);
        let lane = draft.key.map_or(id.unsigned_abs(), |key| key as u64) % lanes;
        self.store.insert(Stored {
            lane: Lane(u16::try_from(lane).unwrap_or(0)),
            key: draft.key,
            malformed: draft.malformed,
            weight: message.weight(),
            state: RowState::Pending,
            deliver_at,
            created_at,
            expires_at,
            next_attempt_at: None,
            attempts: 0,
            given_up: None,
            waiting_for: None,
            progress: BTreeMap::new(),
            suspicion: 0,
            commit: None,
            gone: false,
            message: Arc::new(message),
        });
        self.ledger.insert(place, draft.transaction);
        self.history.tell(self.now, || format!("** insert #{id} {draft:?}"));
    }

    fn commit(&mut self, transaction: usize) {
        let rows = self.ledger.rows_of(transaction);
        let Some(first) = rows.first().copied() else { return };
        if self.store.live_after(first).next().is_some() {
            self.see(Sight::CommittedOutOfOrder);
        }
        if rows.len() >= 30 {
            self.see(Sight::Bulk);
        }
        self.store.commit(&rows);
        self.ledger.commit(&rows, self.now);
        self.history.tell(self.now, || format!("** commit {}", Rows(rows.iter().copied())));
    }

    /// A message without a key to every destination, committed at once.
    pub(super) fn write_company(&mut self) {
        let transaction = self.ledger.transaction();
        let draft = Draft {
            transaction,
            key: None,
            everywhere: true,
            bytes: 1,
            delay: None,
            end: End::Never,
            malformed: false,
            poison: None,
            unforwardable: false,
            begun: self.now,
            locked: None,
        };
        self.plan.drafts.push(draft);
        self.insert(self.plan.drafts.len() - 1);
        self.commit(transaction);
    }

    /// It is time for a trouble, or to wait for its moment.
    pub(super) fn trouble(&mut self, place: usize) {
        let trouble = self.plan.troubles[place];
        match trouble.when {
            When::At(_) => self.strike(trouble.fault),
            When::On(..) => self.armed.push(trouble),
        }
    }

    /// An awkward moment in the life of a relay has come.
    pub(super) fn moment(&mut self, relay: usize, moment: Moment) {
        if self.armed.is_empty() || self.condition.healed {
            return;
        }
        let waits = |trouble: &Trouble| matches!(trouble.when, When::On(_, awaited) if awaited == moment);
        if let Some(place) = self.armed.iter().position(waits) {
            let trouble = self.armed.swap_remove(place);
            self.strike(trouble.fault.to(relay));
        }
    }

    fn strike(&mut self, fault: Fault) {
        self.history.tell(self.now, || format!("** {fault:?}"));
        self.history.mix(0xFA01);
        self.faults += u32::from(fault.is_fault());
        match fault {
            Fault::Crash { relay, down } => self.crash(relay, down),
            Fault::Pause { relay, lasts } => self.pause(relay, lasts),
            Fault::Stop { relay, down } => self.stop(relay, down),
            Fault::Broker { place, mode, lasts } => {
                self.plan.brokers[place].mode = mode;
                self.broker_trouble(place, lasts);
            }
            Fault::Slow { place, lasts } => {
                self.condition.slow[place] = true;
                self.broker_trouble(place, lasts);
            }
            Fault::Store { mode, lasts } => self.store_away(mode, lasts),
            Fault::Cut { relay, mode, lasts } => {
                self.condition.unsound |= mode != StoreMode::Refuses;
                self.relays[relay].cut = Some((mode, self.now + lasts));
                self.relays[relay].connection += 1;
                if mode == StoreMode::Hangs {
                    // An answer to the leaseholder that is on its way is lost as well.
                    self.relays[relay].lease_call = None;
                }
            }
            Fault::Restart { down } => {
                self.store.boot += 1;
                self.relays.iter_mut().for_each(|relay| relay.connection += 1);
                self.see(Sight::StoreRestarted);
                if down > 5 * MILLI {
                    self.store_away(StoreMode::Refuses, down);
                }
            }
            Fault::Clock { step } => {
                self.condition.unsound = true;
                self.condition.clock_set = true;
                self.store.offset = (self.store.offset + step).max(-i64::try_from(self.now).unwrap_or(0));
                self.see(Sight::ClockStepped);
            }
            Fault::Lossy { lasts } => {
                self.condition.unsound = true;
                self.condition.lossy_until = self.now + lasts;
            }
            Fault::Replay => self.replay_all(),
            Fault::Open => self.open_keys(),
            Fault::Discard => self.discard_first(),
            Fault::Prune => self.prune(),
            Fault::Delete(draft) => {
                if let Some(id) = self.ledger.row_of(draft).filter(|id| self.store.row(*id).is_waiting()) {
                    self.store.remove(id);
                    self.ledger.deleted(id);
                    self.holds.open(id);
                    self.see(Sight::Deleted);
                }
            }
            Fault::Hint(relay) => self.hint(relay),
        }
    }

    fn store_away(&mut self, mode: StoreMode, lasts: u64) {
        self.condition.unsound |= mode != StoreMode::Refuses;
        self.condition.store = Some(mode);
        self.condition.store_number += 1;
        self.after(lasts, Op::StoreBack(self.condition.store_number));
        self.see(Sight::StoreAway);
    }

    pub(super) fn store_back(&mut self, number: u64) {
        if number == self.condition.store_number {
            self.condition.store = None;
        }
    }

    fn broker_trouble(&mut self, place: usize, lasts: u64) {
        self.condition.broker_numbers[place] += 1;
        self.after(lasts, Op::BrokerBack(place, self.condition.broker_numbers[place]));
    }

    pub(super) fn broker_back(&mut self, place: usize, number: u64) {
        if number == self.condition.broker_numbers[place] {
            self.plan.brokers[place].mode = super::broker::Mode::Up;
            self.condition.slow[place] = false;
        }
    }

    fn pause(&mut self, place: usize, lasts: u64) {
        let relay = &mut self.relays[place];
        if relay.life == Life::Down || relay.paused_until.is_some() {
            return;
        }
        relay.paused_until = Some(self.now + lasts);
        let epoch = relay.epoch;
        if lasts > self.plan.ttl && self.relays[place].lanes() > 0 {
            self.see(Sight::Paused);
        }
        self.after(lasts, Op::Resume(place, epoch));
    }
}
