//! What became of each row is recorded, batched behind publishing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::{Action, Deliveries, Note, Settle};
use super::keys::{KeyRecord, KeySlot};
use super::window::Entry;
use crate::address::DestinationName;
use crate::error::{Error, ErrorKind};
use crate::lane::{HeldLane, Lane};
use crate::row::RowId;
use crate::seams::{FailedAttempt, Outcome, Recorded, Settled, Settlement};
use crate::tick::Tick;

/// The most characters of a failure kept in the table.
const MAX_TEXT: usize = 1_000;

/// A settlement, and its row's stay in the window.
type OfStay = (u64, Settlement);

/// Settlements that wait, and those under way.
#[derive(Debug, Default)]
pub(super) struct Settling {
    waiting: VecDeque<OfStay>,
    /// The settle that is carried out, and the one that follows it.
    under_way: VecDeque<Asked>,
    /// Of a settle that failed, and of the one that was not made because of that: they wait again, in their order, when
    /// both are answered.
    failed: Vec<OfStay>,
    retry_at: Option<Tick>,
    /// Until then, deliveries that nobody waits for wait for company.
    company_until: Option<Tick>,
    /// The last settle that was answered failed.
    store_is_away: bool,
}

/// A settle that was asked for.
#[derive(Debug)]
struct Asked {
    batch: Vec<OfStay>,
    /// The leases under which it was sent.
    leases: Vec<HeldLane>,
}

impl Settling {
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// Whether outcomes could not be recorded: until they are, also while that is tried again.
    pub(super) fn store_is_away(&self) -> bool {
        self.store_is_away && !self.is_idle()
    }

    /// When the next settle is to be asked for, if none is under way and something waits.
    pub(super) fn next_at(&self) -> Option<Tick> {
        let waits = self.under_way.is_empty() && !self.waiting.is_empty();
        waits.then(|| self.retry_at.or(self.company_until).unwrap_or(Tick::ZERO))
    }

    pub(super) fn forget_lane(&mut self, lane: Lane) {
        let stays = |(_, settlement): &OfStay| settlement.lane != lane;
        self.waiting.retain(stays);
        self.failed.retain(stays);
    }

    /// The rows of the next settle, if it is to be asked for now: beside one under way only in a backlog, so that the
    /// database goes on while the answer is taken in here.
    fn next(&mut self, now: Tick, most: usize) -> Option<Vec<OfStay>> {
        let rests = self.retry_at.or(self.company_until).is_some_and(|at| now < at);
        let may_ask = match self.under_way.len() {
            0 => !rests && !self.waiting.is_empty(),
            1 => !self.store_is_away && self.waiting.len() >= most,
            _ => false,
        };
        if !may_ask {
            return None;
        }
        (self.retry_at, self.company_until) = (None, None);
        Some(self.waiting.drain(..self.waiting.len().min(most)).collect())
    }

    /// The settle that was carried out is answered.
    fn answered(&mut self) -> Asked {
        self.under_way.pop_front().unwrap_or(Asked { batch: Vec::new(), leases: Vec::new() })
    }

    fn give_back(&mut self) {
        if self.under_way.is_empty() {
            self.failed.drain(..).rev().for_each(|settlement| self.waiting.push_front(settlement));
        }
    }
}

impl Machine {
    /// Decides what became of a row once nothing of it is queued or in flight.
    pub(super) fn resolve(&mut self, row: RowId) {
        self.leave_what_pauses(row);
        let Some(entry) = self.window.get(row) else { return };
        if entry.settling || !entry.waiting.is_empty() || !entry.flying.is_empty() {
            return;
        }
        if entry.has_lapsed() {
            self.give_up_expired(row);
        } else if !entry.failed.is_empty() {
            if entry.failed == entry.exhausted && entry.parked.is_empty() && entry.troubles.unknown.is_empty() {
                self.give_up(row);
            } else {
                self.retry_in_table(row);
            }
        } else if !entry.parked.is_empty() {
            self.set_aside(row);
        } else if let Some(given_up) = entry.given_up.clone().filter(|_| !entry.accepted.is_empty()) {
            self.bury(row, given_up.reason, Vec::new());
        } else if !entry.accepted.is_empty() && !entry.troubles.unknown.is_empty() {
            self.lead_nowhere(row);
        } else if !entry.accepted.is_empty() {
            self.record(row, Outcome::Delivered);
        }
    }

    /// A row whose place is the table does not stay in memory for destinations that pause: until it is recorded, nothing of its
    /// key goes where it failed or waits. What stands behind it goes with it.
    fn leave_what_pauses(&mut self, row: RowId) {
        if self.outlets.len() < 2 {
            return;
        }
        let Some(entry) = self.window.get(row) else { return };
        if entry.waiting.is_empty() || !entry.flying.is_empty() || entry.settling || !self.is_for_the_table(entry) {
            return;
        }
        let (waiting, key) = (entry.waiting, entry.key);
        if !waiting.without(self.paused()).is_empty() {
            return;
        }
        for destination in waiting.iter() {
            self.park(row, destination);
            if let Some(key) = key {
                self.park_behind(key, destination, row);
            }
        }
    }

    /// Whether a row's place is the table: it is to be tried again somewhere, or waits for its turn there; or another one of its
    /// key is to be tried again, and the table does not know where this one was accepted and keeps that one from going there.
    fn is_for_the_table(&self, entry: &Entry) -> bool {
        let record = entry.key.and_then(|key| self.keys.get(key));
        let is_waited_for = |record: &KeyRecord| !record.held && !entry.accepted.both(record.scheduled).is_empty();
        !entry.failed.with(entry.parked).is_empty() || record.is_some_and(is_waited_for)
    }

    /// Whether a row whose place is the table stays in memory for one of these destinations.
    pub(super) fn any_for_the_table(&self, destinations: Destinations) -> bool {
        let waits = |entry: &&Entry| !entry.waiting.both(destinations).is_empty();
        self.window.entries().filter(waits).any(|entry| self.is_for_the_table(entry))
    }

    /// A destination rests: of the rows whose place is the table, those leave memory that wait for nothing but the end of
    /// pauses.
    pub(super) fn leave_for_the_table(&mut self) {
        if self.outlets.len() < 2 {
            return;
        }
        let rows = self.window.iter().filter(|(_, entry)| self.is_for_the_table(entry));
        let mut rows: Vec<RowId> = rows.map(|(row, _)| row).collect();
        rows.sort_unstable();
        rows.into_iter().for_each(|row| self.resolve(row));
    }

    /// The same of one key, of which something was found to be scheduled.
    pub(super) fn leave_for_what_is_scheduled(&mut self, key: KeySlot) {
        if self.outlets.len() < 2 {
            return;
        }
        let paused = self.paused();
        let Some(record) = self.keys.get(key).filter(|record| !record.scheduled.is_empty()) else { return };
        let rests = |place: usize| paused.contains(DestinationIndex::new(place));
        let queues = record.queues.iter().enumerate().filter(|(place, _)| rests(*place));
        let rows: Vec<RowId> = queues.flat_map(|(_, queue)| queue.waiting.iter()).collect();
        rows.into_iter().for_each(|row| self.resolve(row));
    }

    fn set_aside(&mut self, row: RowId) {
        let is_leaving = self.is_leaving(row);
        let Some(entry) = self.window.get(row) else { return };
        let waiting_for = self.still_owed(row, entry.parked);
        if entry.key.is_none() {
            // Without a key nothing would look for it: it is scheduled instead.
            let after = if is_leaving { Duration::ZERO } else { self.settings.max_pause };
            let after = self.until_the_end(row, after);
            self.record_again(row, after, waiting_for, Vec::new());
        } else {
            self.record(row, Outcome::SetAside { waiting_for });
        }
    }

    pub(super) fn retry_in_table(&mut self, row: RowId) {
        let Some(entry) = self.window.get(row) else { return };
        let waiting_for = self.still_owed(row, entry.failed.with(entry.parked));
        let attempts = entry.attempts;
        let after = self.until_the_end(row, entry.troubles.retry_after);
        let key = entry.key;
        let failures = entry.troubles.failures.clone();
        if let Some(id) = entry.message.as_ref().map(|message| message.id) {
            self.notes.push(Note::Retry { id, attempts, after });
        }
        if let Some(record) = key.and_then(|key| self.keys.get_mut(key)) {
            record.schedule(row, entry.failed);
        }
        self.record_again(row, after, waiting_for, failures);
    }

    /// To be tried again; one that was given up keeps its reason.
    fn record_again(
        &mut self,
        row: RowId,
        after: Duration,
        waiting_for: Option<Vec<DestinationName>>,
        failures: Vec<FailedAttempt>,
    ) {
        let Some(entry) = self.window.get(row) else { return };
        let (attempts, progress) = (entry.attempts, entry.troubles.progress.clone());
        let outcome = match &entry.given_up {
            Some(given_up) => {
                Outcome::Forward { reason: given_up.reason, after, attempts, waiting_for, progress, failures }
            }
            None => Outcome::Retry { after, attempts, waiting_for, progress, failures },
        };
        self.record(row, outcome);
    }

    /// The column `waiting_for`: null while every matching route is owed and nothing was accepted.
    pub(super) fn still_owed(&self, row: RowId, owed: Destinations) -> Option<Vec<DestinationName>> {
        let entry = self.window.get(row)?;
        if entry.owes_every_route && entry.accepted.is_empty() {
            return None;
        }
        let mut names = self.settings.names(owed);
        names.extend(entry.troubles.unknown.iter().cloned());
        Some(names)
    }

    pub(super) fn record(&mut self, row: RowId, outcome: Outcome) {
        let is_end = matches!(outcome, Outcome::Dead { .. } | Outcome::Holding { .. } | Outcome::Forward { .. });
        // What was given up before has ended for its key already.
        if is_end && self.window.get(row).is_some_and(|entry| entry.given_up.is_none()) {
            self.hold_key(row);
        }
        let suspicion = match outcome {
            Outcome::Retry { .. } | Outcome::SetAside { .. } => self.suspicion_left(row),
            Outcome::Delivered
            | Outcome::Dropped
            | Outcome::Suspected { .. }
            | Outcome::Dead { .. }
            | Outcome::Holding { .. }
            | Outcome::Forward { .. } => 0,
        };
        let Some(entry) = self.window.get_mut(row) else { return };
        entry.settling = true;
        if outcome == Outcome::Delivered && self.deliveries == Deliveries::Counted {
            // Nobody asks for it any more, and now it is still in the processor's cache.
            entry.message = None;
        }
        let (stay, message, lane, attempt) = (entry.stay, entry.id, entry.lane, entry.attempt);
        let settlement = Settlement { row, message, lane, outcome, attempt, suspicion };
        self.settling.waiting.push_back((stay, settlement));
    }

    /// The row's end is decided and not recorded: until it is, a crash would bring the row back, to a relay with another
    /// policy perhaps, and nothing of its key may have gone before it.
    pub(super) fn hold_key(&mut self, row: RowId) {
        let Some(entry) = self.window.get_mut(row).filter(|entry| !entry.holds_key) else { return };
        entry.holds_key = true;
        if let Some(record) = entry.key.and_then(|key| self.keys.get_mut(key)) {
            record.burying += 1;
        }
    }

    pub(super) fn settle_next(&mut self, now: Tick, actions: &mut Vec<Action>) {
        let until = self.settling.company_until.unwrap_or(now + self.settings.settle_pause);
        self.settling.company_until = self.may_wait_for_company().then_some(until);
        while let Some(batch) = self.settling.next(now, self.settings.settle_rows.max(1)) {
            let ahead = !self.settling.under_way.is_empty();
            let rows = batch.iter().map(|(_, settlement)| settlement.clone()).collect();
            let leases = self.held();
            actions.push(Action::Settle(Settle { leases: leases.clone(), rows, ahead }));
            self.settling.under_way.push_back(Asked { batch, leases });
        }
    }

    /// Whether what waits to be recorded may wait for more of it: nothing but deliveries, while no lane, no room, no careful
    /// start and no other row of their keys hangs on them. Where messages come one by one, each look that finds something
    /// would be followed by a settle, and the application's transactions would meet twice as many statements of ours
    /// (docs/adr/0004).
    fn may_wait_for_company(&self) -> bool {
        let is_leaving = self.stopping || !self.hand_back.is_empty();
        let is_short_of_room = self.schedule.is_in_backlog() || self.window.room(self.settings.page_rows).is_none();
        if is_leaving || is_short_of_room || !self.careful.is_over() {
            return false;
        }
        let waiting = &self.settling.waiting;
        let paused = self.paused();
        (1..self.settings.settle_rows).contains(&waiting.len())
            && waiting.iter().all(|(_, settlement)| {
                matches!(settlement.outcome, Outcome::Delivered) && !self.is_waited_for(settlement.row, paused)
            })
    }

    /// Whether other rows of its key cannot go before this one is recorded: they are looked for in the table then, or wait for
    /// an end that a crash could undo.
    fn is_waited_for(&self, row: RowId, paused: Destinations) -> bool {
        let record = self.window.get(row).and_then(|entry| entry.key).and_then(|key| self.keys.get(key));
        record.is_some_and(|record| record.burying > 0 || !record.aside.without(paused).is_empty())
    }

    pub(super) fn settled(&mut self, now: Tick, answer: Result<Settled, Error>) {
        let Asked { batch, leases } = self.settling.answered();
        match answer {
            Ok(settled) => {
                self.settling.store_is_away = false;
                self.store_is_back();
                self.count(&batch, &settled);
                // As good as always: then there is nothing to look up.
                let all = settled.rows.iter().eq(batch.iter().map(|(_, settlement)| &settlement.row));
                let records = if all { None } else { Some(settled.records()) };
                for (stay, settlement) in batch {
                    if !self.window.stays(settlement.row, stay) {
                        // The lane was lost meanwhile, whatever became of this settle.
                        continue;
                    }
                    let recorded = records.as_ref().map(|records| records.of(settlement.row, settlement.lane));
                    match recorded.unwrap_or(Recorded::Changed) {
                        Recorded::Fenced => self.fenced(settlement.lane),
                        recorded => self.settle_one(settlement, recorded == Recorded::Changed),
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::Fenced => {
                self.settling.store_is_away = false;
                for lease in leases {
                    if self.owned(lease.lane).is_some_and(|held| held.term == lease.term) {
                        self.fenced(lease.lane);
                    }
                }
            }
            Err(error) => {
                for (stay, settlement) in &batch {
                    let stays = self.window.stays(settlement.row, *stay);
                    if stays && matches!(settlement.outcome, Outcome::SetAside { .. }) {
                        self.schedule.walk_after_late_effects(now, settlement.lane);
                    }
                }
                self.goes_on_waiting(batch);
                self.settling.store_is_away = !self.settling.is_idle();
                self.settling.retry_at = Some(now + self.store_is_away(&error));
            }
        }
    }

    /// The settle that was asked for ahead was not made, because the one before it failed.
    pub(super) fn not_settled(&mut self) {
        let asked = self.settling.answered();
        self.goes_on_waiting(asked.batch);
    }

    /// In front, as soon as nothing is under way any more that stands behind it.
    fn goes_on_waiting(&mut self, batch: Vec<OfStay>) {
        let window = &self.window;
        let stays = batch.into_iter().filter(|(stay, settlement)| window.stays(settlement.row, *stay));
        self.settling.failed.extend(stays);
        self.settling.give_back();
    }

    /// The lane belongs to somebody else.
    pub(super) fn fenced(&mut self, lane: Lane) {
        let Some(held) = self.owned(lane) else { return };
        self.notes.push(Note::Fenced(held));
        self.lose(lane);
    }

    fn settle_one(&mut self, settlement: Settlement, changed: bool) {
        let row = settlement.row;
        if matches!(settlement.outcome, Outcome::Suspected { .. }) {
            self.suspected(row, changed);
            return;
        }
        self.reads.settle(row, settlement.message);
        let Some(entry) = self.window.remove(row) else { return };
        if let (Outcome::Delivered, Some(message)) = (&settlement.outcome, &entry.message) {
            self.notes.push(Note::DeliveredMessage(Arc::clone(message)));
        }
        let stays = matches!(settlement.outcome, Outcome::Retry { .. } | Outcome::SetAside { .. });
        if changed && stays {
            self.goes_back(row, &entry);
        }
        let Some(key) = entry.key else { return };
        let paused = self.paused();
        if let Some(record) = self.keys.get_mut(key) {
            record.members = record.members.saturating_sub(1);
            record.let_go(row, entry.parked.with(entry.failed), entry.failed);
            record.burying = record.burying.saturating_sub(usize::from(entry.holds_key));
            match settlement.outcome {
                Outcome::SetAside { .. } => record.look_again = true,
                Outcome::Holding { .. } if changed => record.look_again = true,
                // Where the row is gone, nothing will bring the key back but a look.
                Outcome::Retry { .. } | Outcome::Holding { .. } | Outcome::Forward { .. } if !changed => {
                    record.scheduled = Destinations::NONE;
                    record.look_again = true;
                }
                Outcome::Retry { .. }
                | Outcome::Delivered
                | Outcome::Dropped
                | Outcome::Dead { .. }
                | Outcome::Holding { .. }
                | Outcome::Forward { .. }
                | Outcome::Suspected { .. } => {}
            }
            if !matches!(settlement.outcome, Outcome::Holding { .. }) {
                record.stop_relying_on_its_head(paused);
            }
        }
        if entry.holds_key {
            for place in 0..self.outlets.len() {
                self.line_up(key, DestinationIndex::new(place));
            }
        }
        self.review(key);
    }

    fn count(&mut self, batch: &[OfStay], settled: &Settled) {
        let mut locked = settled.lanes.clone();
        locked.sort_unstable();
        let is_mine = |settlement: &&Settlement| locked.binary_search(&settlement.lane).is_ok();
        let mine = batch.iter().map(|(_, settlement)| settlement).filter(is_mine);
        let (mut delivered, mut aside) = (0, 0);
        for settlement in mine {
            match settlement.outcome {
                Outcome::Delivered => delivered += 1,
                Outcome::SetAside { .. } => aside += 1,
                Outcome::Retry { .. }
                | Outcome::Dead { .. }
                | Outcome::Holding { .. }
                | Outcome::Forward { .. }
                | Outcome::Dropped
                | Outcome::Suspected { .. } => {}
            }
        }
        if delivered > 0 {
            self.notes.push(Note::Delivered(delivered));
        }
        if aside > 0 {
            self.notes.push(Note::SetAside(aside));
        }
    }

    /// The store did not answer: how long to leave it alone.
    pub(super) fn store_is_away(&mut self, error: &Error) -> Duration {
        let advice = error.advice().map(ToOwned::to_owned);
        self.notes.push(Note::StoreAway(error.kind(), error.story_and_advice(), advice));
        self.absence.failed(&mut self.jitter)
    }

    /// The store answered. A read that works says nothing of a settle that did not.
    pub(super) fn store_is_back(&mut self) {
        if !self.settling.store_is_away() && self.absence.end() {
            self.notes.push(Note::StoreBack);
        }
    }
}

/// A text short enough for the table.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_for_the_table_is_its_beginning_in_whole_characters() {
        assert_eq!(shortened("no sübject"), "no sübject");
        let long = format!("why: {}", "ü".repeat(2 * MAX_TEXT));
        let short = shortened(&long);
        assert!(long.starts_with(&short) && short.chars().count() == MAX_TEXT);
    }
}
