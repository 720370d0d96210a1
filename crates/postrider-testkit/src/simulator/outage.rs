//! One destination is away for long, and the others must not notice: in some worlds what is owed to a well destination
//! comes there in time, whatever waits for the one that is away.
//!
//! A clock runs for each message that a well destination has not accepted. It is set back as long as something else explains
//! the waiting: a fault that is not over, a lane that has just changed hands, or the message's own key, which waits at this
//! very destination. Not watched are:
//!
//! - worlds in which all messages are one order, because there a message that waits for one destination holds all that follow;
//! - with what stands behind them, messages that a careful start suspects, because these go one by one;
//! - with what stands behind them, messages of which an outcome took effect after it had been given up: a walk finds them after
//!   half a minute;
//! - with what stands behind them, messages on their way to the one that is away, until that is answered: their key is not
//!   looked at before (seeds 17327 and 711580);
//! - with what stands behind them, messages that an operator made due, while another one of their key is on its way to the one
//!   that is away, until that is answered: only a look could tell whether they are the first (seed 70715);
//! - a relay whose window has no room beside what is on its way to the one that is away, until that is answered.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::machine::Ordering;
use postrider_core::{ErrorKind, Lane, RowState, Term};

use super::broker::{Mode, Poison};
use super::coverage::Sight;
use super::faults::{Fault, Trouble, When};
use super::plan::{Draft, MILLI, Plan, SECOND, Step, name};
use super::process::Relay;
use super::rng::Rng;
use super::world::{Op, World};

/// In so many of a thousand worlds that could have it a destination is away for long.
const SHARE: u64 = 200;
/// How often it is looked whether everything else goes on.
const LOOK: u64 = 250 * MILLI;
/// A destination may pause for two seconds and a retry may wait as long, both after what held it up.
const PATIENCE: u64 = 5 * SECOND;
/// A small window is full of what waits for a destination that answers nothing for two seconds before that is noticed, and
/// again after each look at it that it passes: seed 707798.
const PATIENCE_WITH_SILENCE: u64 = 10 * SECOND;
/// The others are watched for so long after the destination is back, while it gets what waited for it.
const CATCHING_UP: u64 = 2 * SECOND;

/// A destination is away for long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    pub(super) place: usize,
    pub(super) until: u64,
    /// What waited longer than this is late.
    patience: u64,
}

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The last call that had been made.
    calls: u64,
    /// Who held which lane.
    lanes: Vec<(Lane, Term)>,
    /// Since when nothing is wrong but the one destination.
    calm_since: Option<u64>,
    /// Since when nothing explains that a row waits for a destination.
    waits: BTreeMap<(i64, usize), u64>,
}

/// Draws whether a destination is away for long, and what is written meanwhile.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if plan.gentle || plan.is_one_order() || plan.routed() < 2 || !rng.chance(SHARE) {
        return;
    }
    let place = rng.place(plan.routed());
    let mode = rng.pick(Mode::AWAY);
    let from = rng.below(plan.span);
    let quiet = plan.span * 3 / 2;
    let until = quiet + rng.within(7 * SECOND..12 * SECOND);
    plan.troubles.retain(|trouble| match trouble.fault {
        Fault::Broker { place: of, .. } | Fault::Slow { place: of, .. } => of != place,
        Fault::Clock { .. } => false,
        _ => true,
    });
    let fault = Fault::Broker { place, mode, lasts: until - from };
    plan.troubles.push(Trouble { when: When::At(from), fault });
    // One more for one that is left out.
    let stop = Fault::Stop { relay: rng.place(plan.relays.len()), down: rng.below(SECOND) };
    plan.troubles.push(Trouble { when: When::At(rng.below(plan.span)), fault: stop });
    for broker in plan.brokers.iter_mut().enumerate().filter(|(at, _)| *at != place).map(|(_, broker)| broker) {
        (broker.breaks, broker.short) = (0, 0);
    }
    let poisonous = rng.chance(500);
    for _ in 0..40 + rng.place(60) {
        let at = rng.within(quiet..until);
        plan.write_one(rng, at, poisonous);
    }
    plan.steps.sort_by_key(|(at, _)| *at);
    for draft in &mut plan.drafts {
        if let Some((at, Poison::Fails(kind))) = draft.poison.as_mut().filter(|(at, _)| *at != place) {
            (*at, *kind) = (*at, ErrorKind::Rejected);
        }
    }
    for fault in [Fault::Replay, Fault::Open, Fault::Open, Fault::Discard, Fault::Prune] {
        if rng.chance(400) {
            plan.troubles.push(Trouble { when: When::At(rng.within(quiet..until)), fault });
        }
    }
    let is_small = plan.settings.window_rows < 100;
    let patience = if is_small && mode == Mode::Silent { PATIENCE_WITH_SILENCE } else { PATIENCE };
    plan.outage = Some(Outage { place, until, patience });
}

impl Plan {
    /// When everything heals.
    pub(super) fn heals_at(&self) -> u64 {
        self.outage.map_or(self.span * 2, |outage| outage.until + CATCHING_UP)
    }

    /// A short transaction.
    fn write_one(&mut self, rng: &mut Rng, at: u64, poisonous: bool) {
        let transaction = self.transactions;
        self.transactions += 1;
        for _ in 0..rng.pick(&[1, 1, 1, 2, 3]) {
            let key = rng.chance(900).then(|| rng.place(self.keys.len()));
            let draft = self.draft(rng, transaction, key, (at, None), (poisonous, false));
            self.steps.push((at, Step::Insert(self.drafts.len())));
            self.drafts.push(draft);
        }
        self.steps.push((at + 1 + rng.below(3_000), Step::Commit(transaction)));
    }

    /// Whether only single messages fail at a destination.
    fn is_well(&self, place: usize) -> bool {
        let pauses = |draft: &Draft| matches!(draft.poison, Some((at, Poison::Breaks)) if at == place);
        self.brokers[place].mode == Mode::Up && !self.drafts.iter().any(pauses)
    }
}

impl World {
    /// A look at whether everything goes on that is not owed to the destination that is away.
    pub(super) fn look_at_the_others(&mut self) {
        let Some(outage) = self.plan.outage.filter(|_| !self.condition.healed) else { return };
        self.after(LOOK, Op::Look);
        let lanes: Vec<(Lane, Term)> = self.relays.iter().flat_map(Relay::terms).collect();
        let calm = self.watch.lanes == lanes && self.is_calm(outage.place);
        self.watch.lanes = lanes;
        self.watch.calls = self.last_call;
        if !calm {
            self.watch.calm_since = None;
            self.watch.waits.clear();
            return;
        }
        let calm_since = *self.watch.calm_since.get_or_insert(self.now);
        for place in (0..self.plan.routed()).filter(|place| *place != outage.place) {
            if self.plan.is_well(place) {
                self.is_served(place, outage, calm_since);
            }
        }
    }

    /// Whether nothing is wrong but the destination that is away.
    fn is_calm(&self, away: usize) -> bool {
        let condition = &self.condition;
        let is_fair = condition.store.is_none() && self.now >= condition.lossy_until && !condition.slow.contains(&true);
        let is_calm = |relay: &Relay| relay.is_calm(self.now, self.watch.calls, away) && !self.is_crowded(relay, away);
        is_fair && self.is_shared() && self.relays.iter().all(is_calm)
    }

    /// Whether what is on its way to the destination that is away leaves a relay no room for anything else until it is
    /// answered.
    fn is_crowded(&self, relay: &Relay, away: usize) -> bool {
        let settings = &self.plan.settings;
        // Beside a suspect nothing else goes.
        let suspected = |(row, _): &(i64, Term)| self.store.row(*row).suspicion > 0;
        let rows = || relay.flights.values().filter(|flying| flying.destination.get() == away).flat_map(|f| &f.rows);
        let bytes: usize = rows().map(|(row, _)| self.store.row(*row).weight).sum();
        let room = settings.window_rows.saturating_sub(rows().count());
        rows().any(suspected)
            || room < settings.page_rows.min(settings.window_rows / 8).max(1)
            || settings.window_bytes.saturating_sub(bytes) < settings.window_bytes / 8
    }

    /// What is owed to a well destination comes there in time.
    fn is_served(&mut self, place: usize, outage: Outage, calm_since: u64) {
        let Outage { place: away, patience, .. } = outage;
        let mut waits = std::mem::take(&mut self.watch.waits);
        let is_away = self.plan.brokers[away].mode != Mode::Up;
        let mut closed = vec![false; self.plan.keys.len()];
        let mut behind = vec![false; self.plan.keys.len()];
        let (mut late, mut passed) = (None, false);
        let calls = self.relays.iter().flat_map(|relay| relay.flights.values());
        let calls = calls.filter(|call| call.destination.get() == away);
        let flying: BTreeSet<i64> = calls.flat_map(|call| &call.rows).map(|(row, _)| *row).collect();
        let keys_under_way: BTreeSet<usize> = flying.iter().filter_map(|row| self.store.row(*row).key).collect();
        for row in self.store.live_after(0) {
            let key = self.store.row(row).key.filter(|_| self.plan.settings.ordering == Ordering::Key);
            let is_closed = key.is_some_and(|key| closed[key]);
            let fate = self.ledger.fate(row);
            let is_under_way = flying.contains(&row);
            let is_unclear = key.is_some_and(|key| keys_under_way.contains(&key)) && self.is_freed(row);
            let waiting = match self.waiting(row, place) {
                Waiting::Unexplained if is_unclear => {
                    key.into_iter().for_each(|key| closed[key] = true);
                    None
                }
                _ if is_under_way => {
                    key.into_iter().for_each(|key| closed[key] = true);
                    None
                }
                Waiting::No => {
                    let fresh = is_away && fate.accepted[place] > 0 && fate.committed >= Some(calm_since);
                    passed |= fresh && key.is_some_and(|key| behind[key]);
                    None
                }
                Waiting::Excused => None,
                Waiting::Closes => {
                    key.into_iter().for_each(|key| closed[key] = true);
                    None
                }
                Waiting::Unexplained if is_closed => None,
                Waiting::Unexplained => Some(*waits.get(&(row, place)).unwrap_or(&self.now)),
            };
            key.into_iter().for_each(|key| behind[key] = true);
            match waiting {
                Some(since) => {
                    waits.insert((row, place), since);
                    late = late.or(Some((row, self.now - since)).filter(|(_, long)| *long > patience));
                }
                None => {
                    waits.remove(&(row, place));
                }
            }
        }
        self.watch.waits = waits;
        if passed {
            self.see(Sight::WentOn);
        }
        if let Some((row, long)) = late {
            let text = format!(
                "destination {away} is away, and #{row} has waited {} ms for destination {place}: {}",
                long / MILLI,
                self.store.describe(row)
            );
            self.violated("P5", text, vec![row]);
        }
    }

    /// Whether an operator made a row due that failed nowhere.
    fn is_freed(&self, row: i64) -> bool {
        let is_due = self.store.row(row).next_attempt_at.is_some();
        is_due && self.ledger.fate(row).failures.iter().all(|failures| *failures == 0)
    }

    /// Whether a row waits for a destination, and why.
    fn waiting(&self, row: i64, place: usize) -> Waiting {
        let (stored, fate, clock) = (self.store.row(row), self.ledger.fate(row), self.store.clock());
        let is_owed = match &stored.waiting_for {
            _ if stored.malformed => stored.state == RowState::Holding,
            _ if stored.given_up.is_some() => false,
            Some(names) => names.contains(&name(place)),
            None => self.owed(row)[place],
        };
        if stored.state == RowState::Dead || !is_owed {
            return Waiting::No;
        }
        if stored.state == RowState::Holding {
            return Waiting::Closes;
        }
        if fate.accepted[place] > 0 {
            return Waiting::No;
        }
        if stored.next_attempt_at.is_none() && stored.deliver_at.is_some_and(|at| at > clock) || self.is_at_its_end(row)
        {
            return Waiting::Excused;
        }
        let is_poisoned = self.poison(row).is_some_and(|(at, _)| at == place);
        let is_tried_again = fate.failures[place] > 0 && stored.next_attempt_at.is_some_and(|at| at > clock);
        if is_poisoned || is_tried_again || fate.late || stored.suspicion > 0 {
            return Waiting::Closes;
        }
        Waiting::Unexplained
    }
}

/// Why a row waits for a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// It does not.
    No,
    /// It is not its time, and no other row waits for it.
    Excused,
    /// For a reason of its own, for which what stands behind it waits as well.
    Closes,
    /// Nothing of it explains it.
    Unexplained,
}
