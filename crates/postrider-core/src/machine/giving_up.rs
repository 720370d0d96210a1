//! What becomes of a message that is given up: it is skipped, or it holds its key.
//!
//! A key that is held waits in the table. Its head stands there in state 3, and whatever comes behind it is set aside as
//! behind a head that is being retried, so that nothing here grows with the number of rows that wait. Only an operator
//! opens it: a replay makes the head due, and a discard makes the first row behind it due; the due query finds either.

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::Note;
use super::ordering::Ordering;
use crate::message::Key;
use crate::on_dead::OnDead;
use crate::row::RowId;
use crate::seams::{DeadReason, FailedAttempt, Outcome};

impl Machine {
    /// Its attempts are used up wherever it is still owed.
    pub(super) fn give_up(&mut self, row: RowId) {
        let Some(entry) = self.window.get(row) else { return };
        let failures = entry.failures.clone();
        let text = failures.last().map(|failure| failure.text.clone()).unwrap_or_default();
        let id = entry.message.as_ref().map(|message| message.id);
        self.notes.push(Note::Dead { id, row, reason: DeadReason::Attempts, text });
        for outlet in &mut self.outlets {
            outlet.forget(row);
        }
        self.bury(row, DeadReason::Attempts, failures);
    }

    /// Makes a row of which nothing is in flight a dead letter, and does with its key what was configured.
    pub(super) fn bury(&mut self, row: RowId, reason: DeadReason, failures: Vec<FailedAttempt>) {
        let holds = match reason {
            // Its time ended it, and nobody's fault: what becomes of it then is on_expire alone.
            DeadReason::Expired => false,
            DeadReason::Attempts | DeadReason::Malformed | DeadReason::RelayDied | DeadReason::Operator => {
                self.on_dead(row) == OnDead::Hold
            }
        };
        if holds {
            self.shut_key(row, reason);
        }
        let Some(entry) = self.window.get_mut(row) else { return };
        let waiting = std::mem::take(&mut entry.waiting);
        let owed = waiting.with(entry.parked).with(entry.failed).with(entry.lapsed);
        let (attempts, key) = (entry.attempts, entry.key.clone());
        if let Some(record) = key.as_ref().and_then(|key| self.keys.get_mut(key)) {
            record.queues.iter_mut().for_each(|queue| queue.remove(row));
        }
        let waiting_for = self.still_owed(row, owed);
        let outcome = match holds {
            true => Outcome::Holding { reason, attempts, waiting_for, failures },
            false => Outcome::Dead { reason, attempts, waiting_for, failures },
        };
        self.record(row, outcome);
    }

    /// What is done when this row is given up.
    pub(super) fn on_dead(&self, row: RowId) -> OnDead {
        let Some(entry) = self.window.get(row) else { return OnDead::Skip };
        let topic = entry.named().map(|(_, topic)| topic);
        match self.settings.on_dead(topic.as_ref()) {
            OnDead::Hold if entry.key.is_none() || self.settings.ordering != Ordering::Key => OnDead::Skip,
            on_dead => on_dead,
        }
    }

    /// The key waits wherever the row was not accepted: what is in memory behind it goes back to the table.
    ///
    /// A row that failed is the head of its key there, and nothing looks at the key before an operator has decided. One
    /// that was given up unsent may have others before it: they go on, and a look at the key comes to it in its turn.
    fn shut_key(&mut self, row: RowId, reason: DeadReason) {
        let everywhere = self.everywhere();
        let Some(entry) = self.window.get_mut(row) else { return };
        let Some(key) = entry.key.clone() else { return };
        let owed = match reason {
            // It could have gone anywhere.
            DeadReason::Malformed => everywhere,
            _ => entry.waiting.with(entry.parked).with(entry.failed),
        };
        let fresh = owed.without(entry.failed.with(entry.parked));
        let is_head = !entry.failed.is_empty();
        entry.waiting = Destinations::NONE;
        (entry.failed, entry.exhausted) = (owed, owed);
        let Some(record) = self.keys.get_mut(&key) else { return };
        for destination in fresh.iter() {
            record.hold_back(row, destination);
            if let Some(queue) = record.queues.get_mut(destination.get()) {
                queue.remove(row);
            }
        }
        record.aside = record.aside.with(owed);
        if is_head {
            record.scheduled = record.scheduled.with(owed);
            record.held = true;
            owed.iter().for_each(|destination| self.close_key(&key, destination));
        } else {
            record.failures += 1;
            owed.iter().for_each(|destination| self.park_behind(&key, destination, row));
        }
    }

    /// Rows of the key that wait in memory for this destination behind a row will wait in the table.
    fn park_behind(&mut self, key: &Key, destination: DestinationIndex, row: RowId) {
        let Some(queue) = self.keys.queue(key, destination) else { return };
        let behind: Vec<RowId> = queue.waiting.iter().copied().filter(|waiting| *waiting > row).collect();
        for row in behind {
            self.park(row, destination);
            self.resolve(row);
        }
    }
}
