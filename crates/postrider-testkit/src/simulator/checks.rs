//! What must hold of what a relay decides, at the moment when it does.

use postrider_core::machine::{DestinationIndex, Ordering};
use postrider_core::{DeadReason, HeldLane, Lane, OnExpire, Outcome, Outgoing, Settlement, Start, Term};

use super::broker::row_of;
use super::coverage::Sight;
use super::plan::name;
use super::store::Stored;
use super::world::World;

impl World {
    /// What must hold of an outcome before it leaves.
    pub(super) fn settling(&mut self, place: usize, settlement: &Settlement) {
        let row = settlement.row.0;
        match &settlement.outcome {
            Outcome::SetAside { waiting_for } => {
                self.see(Sight::SetAside);
                self.waits_behind(row);
                if self.plan.settings.ordering == Ordering::None {
                    self.violated("P3", format!("relay {place} lets #{row} wait for another message"), vec![row]);
                }
                if waiting_for.is_some() {
                    self.see(Sight::PartlyOwed);
                }
            }
            Outcome::Retry { attempts, .. } if *attempts > 0 => self.charged(row),
            Outcome::Suspected { .. } => self.see(Sight::Suspected),
            Outcome::Dropped => {
                self.see(Sight::Dropped);
                self.is_over(place, row, OnExpire::Drop);
            }
            Outcome::Dead { reason: DeadReason::Expired, .. } => {
                self.see(Sight::Expired);
                self.is_over(place, row, OnExpire::Dead);
            }
            Outcome::Forward { reason: DeadReason::Expired, .. } => self.is_over(place, row, OnExpire::Dead),
            Outcome::Retry { .. }
            | Outcome::Delivered
            | Outcome::Dead { .. }
            | Outcome::Holding { .. }
            | Outcome::Forward { .. } => {}
        }
        self.ends_as_told(place, settlement);
    }

    /// When a row is over, and when it was written, by the database's clock; none when it never is.
    fn life(&self, row: i64) -> Option<(u64, u64)> {
        let stored = self.store.row(row);
        if stored.expires_at == Some(u64::MAX) || stored.malformed {
            return None;
        }
        let end = [stored.expires_at, self.aged_at(stored)].into_iter().flatten().min()?;
        Some((stored.created_at, end))
    }

    /// Whether a row's time has passed.
    pub(super) fn is_at_its_end(&self, row: i64) -> bool {
        self.life(row).is_some_and(|(_, end)| end <= self.store.clock())
    }

    /// When a row is too old, by its own policy or its topic's.
    fn aged_at(&self, stored: &Stored) -> Option<u64> {
        let age = self.plan.policy(&stored.message).max_age?;
        Some(stored.created_at + u64::try_from(age.as_micros()).unwrap_or(u64::MAX / 2))
    }

    /// Nothing ends before its time, and it ends as its policy says. A relay's own clock measures from when the row was
    /// read, and may be wrong by one part in fifty. An outcome whose answer was lost is recorded again, also after an
    /// operator has replayed what it ended.
    fn is_over(&mut self, place: usize, row: i64, ends: OnExpire) {
        if self.ledger.was_replayed(row) {
            return;
        }
        let stored = self.store.row(row);
        let by_itself = stored.expires_at.is_some_and(|at| self.aged_at(stored).is_none_or(|aged| at < aged));
        self.see(if by_itself { Sight::EndedByItself } else { Sight::EndedByAge });
        let early = |(written, end): (u64, u64)| self.store.clock() + (end - written) / 40 + 2_000 < end;
        let wrong = match self.life(row) {
            None => Some("although it has no end"),
            Some(life) if !self.condition.clock_set && early(life) => Some("before its time"),
            Some(_) => None,
        };
        let policy = self.plan.policy(&self.store.row(row).message).on_expire;
        if let Some(how) = wrong {
            self.violated("P5", format!("relay {place} ends #{row} {how}"), vec![row]);
        } else if policy != ends {
            self.violated("P5", format!("relay {place} ends #{row} as {ends:?}, not as {policy:?}"), vec![row]);
        }
    }

    /// Nothing is sent after its end, but for the time that its read took. A dead letter has no end any more.
    fn is_fresh(&mut self, place: usize, batch: &[Outgoing]) {
        let took = self.relays[place].longest_read;
        let late = batch.iter().filter(|one| one.given_up.is_none()).map(row_of).find(|row| {
            let latest = |(written, end): (u64, u64)| end + (end - written) / 40 + took + 2_000;
            self.life(*row).is_some_and(|life| self.store.clock() > latest(life))
        });
        if let Some(row) = late.filter(|_| !self.condition.clock_set) {
            self.violated("P5", format!("relay {place} sends #{row} after its end"), vec![row]);
        }
    }

    /// Nothing is sent before its time, which the database's clock tells. What an operator has replayed may go at once.
    fn is_due(&mut self, place: usize, batch: &[Outgoing]) {
        let now = self.store.clock();
        let early = batch.iter().map(row_of).find(|row| self.store.row(*row).deliver_at.is_some_and(|at| now < at));
        if let Some(row) = early.filter(|row| !self.condition.clock_set && !self.ledger.was_replayed(*row)) {
            self.violated("P5", format!("relay {place} sends #{row} before its time"), vec![row]);
        }
    }

    /// Lanes go back: nothing of them may be on its way, and what was accepted is recorded.
    pub(super) fn releasing(&mut self, place: usize, lanes: &[HeldLane]) {
        let relay = &self.relays[place];
        let Some(me) = relay.me else { return };
        let owned = |held: &&HeldLane| self.store.lanes.is_owner(held.lane, me, held.term);
        let lanes: Vec<HeldLane> = lanes.iter().filter(owned).copied().collect();
        for held in &lanes {
            let mine = |(row, term): &(i64, Term)| self.store.row(*row).lane == held.lane && *term == held.term;
            let flying = relay.flights.values().flat_map(|flying| &flying.rows).find(|sent| mine(sent)).copied();
            let is_it = |lease: &HeldLane| (lease.lane, lease.term) == (held.lane, held.term);
            let ahead = relay.settle_ahead.as_ref().is_some_and(|(_, settle)| settle.touched().iter().any(is_it));
            let settles = ahead || relay.settling.is_some() && relay.settles.iter().any(is_it);
            let kept = relay.machine.held().iter().any(|kept| kept.lane == held.lane);
            if flying.is_some() || settles || kept {
                let text = format!(
                    "relay {place} gives lane {} back with {flying:?} in flight, a settle under way: {settles}, held \
                     still: {kept}",
                    held.lane
                );
                self.violated("P4", text, flying.map(|(row, _)| row).into_iter().collect());
                return;
            }
        }
        for held in &lanes {
            self.see(match held.start {
                Start::Clean => Sight::HandedBack,
                Start::Careful => Sight::HandedBackCarefully,
            });
        }
        self.is_recorded(place, &lanes);
    }

    /// What was accepted from these lanes is recorded: who gets them next does not send it again.
    pub(super) fn is_recorded(&mut self, place: usize, lanes: &[HeldLane]) {
        let Some(me) = self.relays[place].me else { return };
        let lanes = lanes.iter().filter(|held| self.store.lanes.is_owner(held.lane, me, held.term));
        let lanes: Vec<(Lane, Term)> = lanes.map(|held| (held.lane, held.term)).collect();
        let unrecorded = self.store.live_after(0).find(|id| {
            let row = self.store.row(*id);
            let term = lanes.iter().find(|(lane, _)| *lane == row.lane).map(|(_, term)| *term);
            let told = |at: &usize| term.is_some_and(|term| self.ledger.was_told(*id, *at, term));
            let owes = |at: &usize| row.waiting_for.as_ref().is_none_or(|names| names.contains(&name(*at)));
            row.is_open() && (0..self.plan.brokers.len()).any(|at| told(&at) && owes(&at))
        });
        if let Some(row) = unrecorded {
            let text = format!("relay {place} gives its lane back and #{row} was accepted and is not recorded");
            self.violated("P4", text, vec![row]);
        }
    }

    /// What must hold of a call before it leaves.
    pub(super) fn publishing(&mut self, place: usize, destination: DestinationIndex, batch: &[Outgoing]) {
        self.trusts(place, "publishes", batch.iter().map(|outgoing| (row_of(outgoing), outgoing.lane)));
        let relay = &self.relays[place];
        let profile = &self.plan.settings.destinations[destination.get()].profile;
        let under_way = relay.flights.values().filter(|flying| flying.destination == destination).count();
        let view = &relay.machine.destinations()[destination.get()];
        let held = relay.machine.held();
        let is_held = |of: &HeldLane| held.iter().any(|held| (held.lane, held.term) == (of.lane, of.term));
        let unsettled = relay.unsettled.iter().any(is_held);
        let (paused, flights) = (view.paused.is_some(), view.flights);
        let bounded = batch.len() <= profile.max_batch && under_way < profile.max_concurrent;
        if paused {
            self.see(Sight::Probed);
        } else if batch.len() == 1 && flights == 1 && batch[0].attempt.0 > 2 {
            self.see(Sight::Alone);
        }
        let rows: Vec<i64> = batch.iter().map(row_of).collect();
        if batch.is_empty() || !bounded || (paused && batch.len() > 1) {
            let text = format!("a call of {} messages, {under_way} under way, paused: {paused}", batch.len());
            self.violated("P7", text, rows);
        } else if unsettled {
            self.violated("P4", format!("relay {place} publishes while its outcomes cannot be recorded"), rows);
        } else {
            self.is_due(place, batch);
            self.is_fresh(place, batch);
            self.in_order(place, destination, batch);
            self.not_again(place, destination, batch);
            self.as_given_up(place, destination, batch);
        }
    }

    /// A relay decides something about rows: its trust must not be over, and no other relay may own their lanes.
    pub(super) fn trusts(&mut self, place: usize, does: &str, rows: impl Iterator<Item = (i64, Lane)> + Clone) {
        let relay = &self.relays[place];
        let over = relay.local(self.now) >= relay.trusted_until;
        let me = relay.me;
        let terms = relay.machine.held();
        let stolen = rows.clone().find(|(_, lane)| {
            let term = terms.iter().find(|held| held.lane == *lane).map(|held| held.term);
            !term.zip(me).is_some_and(|(term, me)| self.store.lanes.is_owner(*lane, me, term))
        });
        if over {
            let text = format!("relay {place} {does} after its trust ran out");
            self.violated("P6", text, rows.map(|(row, _)| row).collect());
        } else if let Some((row, lane)) = stolen.filter(|_| !self.condition.unsound) {
            let owner = self.store.lanes.owner(lane);
            let text = format!("relay {place} {does} a row of lane {lane}, which belongs to {owner:?}");
            self.violated("P6", text, vec![row]);
        }
    }
}
