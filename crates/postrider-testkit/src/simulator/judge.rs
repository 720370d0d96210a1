//! What became of every message, and whether that is what was promised.

use postrider_core::machine::{DestinationIndex, Ordering};
use postrider_core::{DeadReason, OrderInBatch, Outcome, Outgoing, Published, Settled, Settlement, Term};

use super::broker::{Became, Poison, row_of};
use super::coverage::Sight;
use super::process::Flying;
use super::store::SimStore;
use super::world::World;

/// The most destinations of a world, that of dead letters included.
pub(super) const PLACES: usize = 4;
/// A message that is nobody's fault dies of so many failures at least: one that is excused, and four that are charged.
pub(super) const FATAL: u32 = 5;

/// The owner that gives a message up because relays died of it is at least the fourth in a row that began carefully:
/// each of the three before recorded one suspicion.
const LEAST_TAKEOVERS: u32 = 4;

/// What became of one row.
#[derive(Debug, Clone, Default)]
pub(super) struct Fate {
    pub(super) draft: usize,
    /// When its transaction committed.
    pub(super) committed: Option<u64>,
    pub(super) accepted: [u32; PLACES],
    /// A relay decided to send it.
    pub(super) sent: [bool; PLACES],
    /// The term under which a relay was told that it was accepted.
    told: [Option<Term>; PLACES],
    pub(super) failures: [u32; PLACES],
    /// It is owed where dead letters are forwarded, or was.
    forwarded: bool,
    /// An outcome took effect after the relay had given its recording up.
    pub(super) late: bool,
    dead: bool,
    deleted: bool,
    replayed: bool,
}

/// The book of all rows.
#[derive(Debug)]
pub(super) struct Ledger {
    fates: Vec<Fate>,
    transactions: Vec<Vec<i64>>,
}

impl Ledger {
    pub(super) fn new(transactions: usize) -> Self {
        Self { fates: Vec::new(), transactions: vec![Vec::new(); transactions] }
    }

    /// One more transaction.
    pub(super) fn transaction(&mut self) -> usize {
        self.transactions.push(Vec::new());
        self.transactions.len() - 1
    }

    pub(super) fn insert(&mut self, draft: usize, transaction: usize) {
        self.fates.push(Fate { draft, ..Fate::default() });
        self.transactions[transaction].push(i64::try_from(self.fates.len()).unwrap_or(0));
    }

    pub(super) fn rows_of(&self, transaction: usize) -> Vec<i64> {
        self.transactions[transaction].clone()
    }

    pub(super) fn row_of(&self, draft: usize) -> Option<i64> {
        let place = self.fates.iter().position(|fate| fate.draft == draft)?;
        i64::try_from(place + 1).ok()
    }

    pub(super) fn draft(&self, row: i64) -> usize {
        self.fate(row).draft
    }

    pub(super) fn commit(&mut self, rows: &[i64], now: u64) {
        rows.iter().for_each(|row| self.fate_mut(*row).committed = Some(now));
    }

    pub(super) fn deleted(&mut self, row: i64) {
        self.fate_mut(row).deleted = true;
    }

    pub(super) fn sent(&mut self, row: i64, place: usize) {
        self.fate_mut(row).sent[place] = true;
    }

    /// It is owed where dead letters are forwarded; whether it was before.
    pub(super) fn forwarded(&mut self, row: i64) -> bool {
        std::mem::replace(&mut self.fate_mut(row).forwarded, true)
    }

    /// Whether it was given up and owed where dead letters are forwarded.
    pub(super) fn is_forwarded(&self, row: i64) -> bool {
        self.fate(row).forwarded
    }

    /// An operator took it away after it had been given up.
    pub(super) fn discarded(&mut self, row: i64) {
        self.fate_mut(row).dead = true;
    }

    pub(super) fn replayed(&mut self, row: i64) {
        let fate = self.fate_mut(row);
        fate.replayed = true;
        fate.dead = false;
        fate.forwarded = false;
        fate.told = [None; PLACES];
    }

    /// Whether an operator replayed the row.
    pub(super) fn was_replayed(&self, row: i64) -> bool {
        self.fate(row).replayed
    }

    /// Whether a relay was told under this term that a destination accepted the row.
    pub(super) fn was_told(&self, row: i64, place: usize, term: Term) -> bool {
        self.fate(row).told.get(place).copied().flatten() == Some(term)
    }

    /// Whether a row of these lanes was accepted somewhere and is still in the table.
    pub(super) fn is_any_unsettled(&self, store: &SimStore, lanes: &[postrider_core::Lane]) -> bool {
        store.live_after(0).any(|id| {
            let accepted = self.fate(id).accepted.iter().any(|count| *count > 0);
            accepted && lanes.contains(&store.row(id).lane)
        })
    }

    pub(super) fn fate(&self, row: i64) -> &Fate {
        &self.fates[usize::try_from(row - 1).unwrap_or(usize::MAX)]
    }

    fn fate_mut(&mut self, row: i64) -> &mut Fate {
        &mut self.fates[usize::try_from(row - 1).unwrap_or(usize::MAX)]
    }
}

impl World {
    /// What is wrong with the message of a row, and at which destination.
    pub(super) fn poison(&self, row: i64) -> Option<(usize, Poison)> {
        self.plan.drafts[self.ledger.draft(row)].poison
    }

    /// An attempt of a row is charged.
    pub(super) fn charged(&mut self, row: i64) {
        self.see(Sight::Charged);
        if self.plan.gentle {
            self.violated("P5", format!("an attempt at #{row} was charged for an outage"), vec![row]);
        }
    }

    /// Outcomes were recorded.
    pub(super) fn settled(&mut self, batch: &[Settlement], settled: &Settled, late: bool) {
        for settlement in batch.iter().filter(|one| settled.rows.contains(&one.row)) {
            let row = settlement.row.0;
            let draft = self.plan.drafts[self.ledger.draft(row)];
            let fate = self.ledger.fate_mut(row);
            if late {
                fate.told = [None; PLACES];
                fate.late = true;
            }
            match settlement.outcome {
                Outcome::Dead { reason, .. } | Outcome::Holding { reason, .. } | Outcome::Forward { reason, .. } => {
                    fate.dead = matches!(settlement.outcome, Outcome::Dead { .. });
                    let failures = fate.failures.iter().max().copied().unwrap_or(0);
                    let kills = draft.poison.is_some_and(|(_, poison)| poison.kills());
                    let explained = match reason {
                        DeadReason::Malformed => draft.malformed,
                        DeadReason::Attempts => (draft.poison.is_some() && !kills) || failures >= FATAL,
                        DeadReason::RelayDied => self.takeovers[usize::from(settlement.lane.0)] >= LEAST_TAKEOVERS,
                        // Judged when it was decided.
                        DeadReason::Expired => true,
                        DeadReason::Operator => false,
                    };
                    if reason == DeadReason::RelayDied && kills {
                        self.seen.see(Sight::KillerBuried);
                    }
                    if !explained {
                        let text = format!("#{row} was given up for {reason} after {failures} failures");
                        self.violated("P5", text, vec![row]);
                    }
                    self.given_up_as(row, &settlement.outcome);
                }
                Outcome::Dropped => {
                    fate.dead = true;
                    self.holds.open(row);
                }
                Outcome::Delivered => {
                    self.holds.open(row);
                    let (owed, fate) = (self.owed(row), self.ledger.fate(row));
                    let missing = (0..self.plan.routed()).find(|at| owed[*at] && fate.accepted[*at] == 0);
                    if let Some(place) = missing.filter(|_| !fate.replayed) {
                        let text = format!("#{row} was settled as delivered and destination {place} does not have it");
                        self.violated("P1", text, vec![row]);
                    }
                }
                Outcome::Retry { .. } | Outcome::SetAside { .. } | Outcome::Suspected { .. } => {}
            }
        }
    }

    /// A broker took what it took of a batch.
    pub(super) fn published(&mut self, place: usize, before: usize, batch: &[Outgoing], became: Became) {
        let whole = became.accepted == batch.len();
        for (seen, sight) in [
            (became.accepted > 0 && !whole, Sight::Partial),
            (became.untold, Sight::Untold),
            (became.broke, Sight::Broke),
            (became.short, Sight::Short),
        ] {
            if seen {
                self.see(sight);
            }
        }
        if batch.iter().any(|outgoing| self.store.lanes.term(outgoing.lane) != outgoing.term) {
            self.see(Sight::Zombie);
        }
        for at in before..self.plan.brokers[place].log.len() {
            let row = self.plan.brokers[place].log[at].row;
            let draft = self.plan.drafts[self.ledger.draft(row)];
            let gentle = self.plan.gentle;
            let fate = self.ledger.fate_mut(row);
            fate.accepted[place] += 1;
            self.holds.accepted(row, place);
            if self.plan.letters() == Some(place) {
                self.seen.see(Sight::Forwarded);
            }
            let (committed, repeated) = (fate.committed.is_some(), fate.accepted[place] > 1);
            if !committed || draft.malformed {
                self.violated("P2", format!("#{row} was delivered and is no committed message"), vec![row]);
            }
            if repeated {
                self.see(Sight::Repeated);
                if gentle {
                    self.violated("P4", format!("#{row} was delivered again without a fault"), vec![row]);
                }
            }
        }
    }

    /// A relay was told what became of a call.
    pub(super) fn acknowledged(&mut self, flying: &Flying, results: &[Published]) {
        let place = flying.destination.get();
        if results.len() != flying.rows.len() {
            // An answer that is too short is a failure of all of it.
            flying.rows.iter().for_each(|(row, _)| self.ledger.fate_mut(*row).failures[place] += 1);
            return;
        }
        for ((row, term), result) in flying.rows.iter().zip(results) {
            let fate = self.ledger.fate_mut(*row);
            match result {
                Published::Accepted(_) => fate.told[place] = Some(*term),
                Published::Failed(_) => fate.failures[place] += 1,
                Published::NotSent => {}
            }
        }
    }

    /// What was accepted under a term, and told, is not sent there again under that term.
    pub(super) fn not_again(&mut self, relay: usize, destination: DestinationIndex, batch: &[Outgoing]) {
        for outgoing in batch {
            let row = row_of(outgoing);
            if self.ledger.fate(row).told[destination.get()] == Some(outgoing.term) {
                let text = format!("relay {relay} sends #{row} again to destination {}", destination.get());
                self.violated("P4", text, vec![row]);
            }
        }
    }

    /// What keeps an order, the messages of a key or all of them, has one call under way at a destination, in order, and
    /// only one message in it where a batch is no order.
    pub(super) fn in_order(&mut self, relay: usize, destination: DestinationIndex, batch: &[Outgoing]) {
        let everything = match self.plan.settings.ordering {
            Ordering::None => return,
            Ordering::Key => false,
            Ordering::Everything => true,
        };
        let kept = self.plan.brokers[destination.get()].profile.order == OrderInBatch::Kept;
        for (place, outgoing) in batch.iter().enumerate() {
            let (row, key) = (row_of(outgoing), outgoing.message.key.as_ref());
            if key.is_none() && !everything {
                continue;
            }
            let mut before = batch[..place].iter().filter(|other| everything || other.message.key.as_ref() == key);
            let wrong_batch = before.any(|other| !kept || row_of(other) > row);
            let same = |other: i64| everything || self.store.row(other).message.key.as_ref() == key;
            let flying = self.relays[relay].flights.values().filter(|flying| flying.destination == destination);
            let mut flying = flying.flat_map(|flying| &flying.rows);
            // What was sent under an earlier term is nobody's any more.
            let other = flying.find(|(other, term)| same(*other) && *term == outgoing.term).map(|(other, _)| *other);
            if wrong_batch || other.is_some() {
                let text = format!("relay {relay} sends #{row} beside {other:?} of its key {key:?}");
                self.violated("P3", text, vec![row]);
                return;
            }
        }
    }

    /// Where a row is to go.
    pub(super) fn owed(&self, row: i64) -> [bool; PLACES] {
        let draft = self.plan.drafts[self.ledger.draft(row)];
        let count = self.plan.routed();
        std::array::from_fn(|place| place < count && !draft.malformed && (place == 0 || draft.everywhere))
    }

    /// What must hold in the end.
    pub(super) fn judge(&mut self) {
        for at in 0..self.ledger.fates.len() {
            let row = i64::try_from(at + 1).unwrap_or(0);
            let fate = &self.ledger.fates[at];
            let excused = fate.committed.is_none() || fate.dead || fate.deleted;
            let owed = self.owed(row);
            let lost = (0..PLACES).find(|place| owed[*place] && fate.accepted[*place] == 0);
            let forgotten = self.plan.drafts[fate.draft].malformed;
            if let Some(place) = lost.filter(|_| !excused) {
                self.violated("P1", format!("#{row} never came to destination {place}"), vec![row]);
                return;
            }
            if forgotten && !excused {
                self.violated("P1", format!("#{row} is no message and did not become a dead letter"), vec![row]);
                return;
            }
        }
        for place in 0..self.plan.routed() {
            match self.plan.settings.ordering {
                Ordering::None => {}
                Ordering::Key => (0..self.plan.keys.len()).for_each(|key| self.judge_order(place, Some(key))),
                Ordering::Everything => self.judge_order(place, None),
            }
        }
    }

    /// First deliveries of a key at a destination: a message whose transaction had committed before another one began
    /// (or had the key's lock before it) comes first; within a transaction the first written does. A delayed message is
    /// waited for by none of them. Without a key, all messages are one order.
    fn judge_order(&mut self, place: usize, key: Option<usize>) {
        let mut seen = vec![false; self.ledger.fates.len()];
        let mut first: Vec<i64> = Vec::new();
        for delivery in &self.plan.brokers[place].log {
            let row = delivery.row;
            let at = usize::try_from(row - 1).unwrap_or(0);
            let fate = &self.ledger.fates[at];
            let draft = &self.plan.drafts[fate.draft];
            // One that was deleted while it was on its way waits for nobody, and nobody for it: it may arrive at any time.
            let apart = fate.replayed || fate.dead || fate.deleted;
            let excused = draft.poison.is_some() || apart;
            if (key.is_none() || draft.key == key) && !excused && !std::mem::replace(&mut seen[at], true) {
                first.push(row);
            }
        }
        // Of all that come later: the earliest commit, and the earliest commit of those that take the lock.
        let (mut any, mut locking) = ((u64::MAX, 0), (u64::MAX, 0));
        for at in (0..first.len()).rev() {
            let row = first[at];
            let fate = self.ledger.fate(row);
            let draft = self.plan.drafts[fate.draft];
            let committed = fate.committed.unwrap_or(u64::MAX);
            let earlier = if any.0 < draft.begun {
                Some(any.1)
            } else if draft.locked.is_some_and(|locked| key.is_some() && locking.0 < locked) {
                Some(locking.1)
            } else {
                let beside = first[at + 1..].iter().find(|other| {
                    let draft_of_other = &self.plan.drafts[self.ledger.draft(**other)];
                    draft_of_other.transaction == draft.transaction && **other < row && draft_of_other.delay.is_none()
                });
                beside.copied()
            };
            if let Some(earlier) = earlier {
                let text = format!("#{row} came to destination {place} before #{earlier} of its key");
                self.violated("P3", text, vec![row, earlier]);
                return;
            }
            if draft.delay.is_some() {
                continue;
            }
            any = any.min((committed, row));
            if draft.locked.is_some() {
                locking = locking.min((committed, row));
            }
        }
    }
}
