//! What becomes of a message that is given up: it is skipped, it holds its key, or it is forwarded.
//!
//! A message that is forwarded stays in the table, pending, owed to the destination of dead letters and to nobody else, so
//! that its key goes on as soon as that is recorded. It is tried there like any message until it is accepted; then it
//! is a dead letter like any other. When it is refused there as often as its policy allows, it is a dead letter all the same.
//!
//! A key that is held waits in the table. Its head stands there in state 3, and whatever comes behind it is set aside as
//! behind a head that is being retried, so that nothing here grows with the number of rows that wait. Only an operator
//! opens it: a replay makes the head due, and a discard makes the first row due that was set aside; the due query finds
//! either.

use std::time::Duration;

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::Note;
use super::keys::KeySlot;
use super::ordering::Ordering;
use super::window::Entry;
use crate::address::DestinationName;
use crate::message::MessageId;
use crate::on_dead::OnDead;
use crate::row::RowId;
use crate::seams::{DeadReason, FailedAttempt, Outcome};

impl Machine {
    /// Its attempts are used up wherever it is still owed.
    pub(super) fn give_up(&mut self, row: RowId) {
        let Some(entry) = self.window.get(row) else { return };
        let failures = entry.troubles.failures.clone();
        let text = failures.last().map(|failure| failure.text.clone()).unwrap_or_default();
        let reason = entry.given_up.as_ref().map_or(DeadReason::Attempts, |given_up| given_up.reason);
        if entry.given_up.is_none() {
            let id = entry.message.as_ref().map(|message| message.id);
            self.note_dead(row, id, reason, text);
        }
        for outlet in &mut self.outlets {
            outlet.forget(row);
        }
        self.bury(row, reason, failures);
    }

    /// Tells that a row is given up.
    pub(super) fn note_dead(&mut self, row: RowId, id: Option<MessageId>, reason: DeadReason, text: String) {
        let entry = self.window.get(row);
        let topic = entry.and_then(Entry::named).map(|(_, topic)| topic);
        let key = entry.and_then(|entry| self.keys.get(entry.key?)).map(|record| record.key.clone());
        self.notes.push(Note::Dead { id, row, topic, key, reason, text });
    }

    /// Makes a row of which nothing is in flight a dead letter, and does with its key what was configured. One that was
    /// forwarded, or cannot be, is a dead letter now.
    pub(super) fn bury(&mut self, row: RowId, reason: DeadReason, failures: Vec<FailedAttempt>) {
        let on_dead = match (reason, self.on_dead(row)) {
            // Its time ended it, and nobody's fault: an outage is no reason to hold its key.
            (DeadReason::Expired, OnDead::Hold) => OnDead::Skip,
            (_, on_dead) => on_dead,
        };
        if on_dead == OnDead::Hold {
            self.shut_key(row, reason);
        }
        let Some(entry) = self.window.get_mut(row) else { return };
        let waiting = std::mem::take(&mut entry.waiting);
        let owed = waiting.with(entry.parked).with(entry.failed).with(entry.lapsed);
        let (attempts, key, was_given_up) = (entry.attempts, entry.key, entry.given_up.is_some());
        let progress = entry.troubles.progress.clone();
        if let Some(record) = key.and_then(|key| self.keys.get_mut(key)) {
            record.queues.iter_mut().for_each(|queue| queue.waiting.remove(row));
        }
        let waiting_for = if was_given_up { self.owed_before(row) } else { self.still_owed(row, owed) };
        let outcome = match on_dead {
            OnDead::Skip => Outcome::Dead { reason, attempts, waiting_for, failures },
            OnDead::Hold => Outcome::Holding { reason, attempts, waiting_for, failures },
            OnDead::Forward => {
                // Who is owed it again after a replay is kept as the attempts there: `waiting_for` names who is owed it now.
                let count = |name: DestinationName| (progress.get(&name).copied().unwrap_or(0), name);
                let progress = waiting_for.into_iter().flatten().map(count).map(|(n, name)| (name, n)).collect();
                let waiting_for = Some(self.settings.names(self.dead_letters()));
                Outcome::Forward { reason, after: Duration::ZERO, attempts, waiting_for, progress, failures }
            }
        };
        self.record(row, outcome);
    }

    /// What is done when this row is given up.
    pub(super) fn on_dead(&self, row: RowId) -> OnDead {
        let Some(entry) = self.window.get(row).filter(|entry| entry.given_up.is_none()) else { return OnDead::Skip };
        let topic = entry.named().map(|(_, topic)| topic);
        match self.settings.on_dead(topic.as_ref()) {
            OnDead::Hold if entry.key.is_none() || self.settings.ordering != Ordering::Key => OnDead::Skip,
            OnDead::Forward if entry.message.is_none() || self.dead_letters().is_empty() => OnDead::Skip,
            on_dead => on_dead,
        }
    }

    /// Where dead letters are forwarded.
    pub(super) fn dead_letters(&self) -> Destinations {
        self.settings.forward.map_or(Destinations::NONE, Destinations::one)
    }

    /// The destinations that were owed a row before it was given up; none for every one.
    fn owed_before(&self, row: RowId) -> Option<Vec<DestinationName>> {
        let dead_letters = self.settings.names(self.dead_letters());
        let progress = &self.window.get(row)?.troubles.progress;
        let owed: Vec<_> = progress.keys().filter(|name| !dead_letters.contains(name)).cloned().collect();
        (!owed.is_empty()).then_some(owed)
    }

    /// The key waits wherever the row was not accepted: what is in memory behind it goes back to the table.
    ///
    /// A row that failed is the head of its key there, and nothing looks at the key before an operator has decided. One
    /// that was given up unsent may have others before it: they go on, and a look at the key comes to it in its turn.
    fn shut_key(&mut self, row: RowId, reason: DeadReason) {
        let everywhere = self.everywhere();
        let Some(entry) = self.window.get_mut(row) else { return };
        let Some(key) = entry.key else { return };
        let owed = match reason {
            // It could have gone anywhere.
            DeadReason::Malformed => everywhere,
            _ => entry.waiting.with(entry.parked).with(entry.failed),
        };
        let fresh = owed.without(entry.failed.with(entry.parked));
        let is_head = !entry.failed.is_empty();
        entry.waiting = Destinations::NONE;
        (entry.failed, entry.exhausted) = (owed, owed);
        let Some(record) = self.keys.get_mut(key) else { return };
        for destination in fresh.iter() {
            record.hold_back(row, destination);
            if let Some(queue) = record.queues.get_mut(destination.get()) {
                queue.waiting.remove(row);
            }
        }
        record.aside = record.aside.with(owed);
        if is_head {
            record.schedule(row, owed);
            record.held = true;
            owed.iter().for_each(|destination| self.close_key(key, destination));
        } else {
            record.failures += 1;
            owed.iter().for_each(|destination| self.park_behind(key, destination, row));
        }
    }

    /// Rows of the key that wait in memory for this destination behind a row will wait in the table.
    pub(super) fn park_behind(&mut self, key: KeySlot, destination: DestinationIndex, row: RowId) {
        let Some(queue) = self.keys.queue(key, destination) else { return };
        let behind: Vec<RowId> = queue.waiting.iter().filter(|waiting| *waiting > row).collect();
        for row in behind {
            self.park(row, destination);
            self.resolve(row);
        }
    }
}
