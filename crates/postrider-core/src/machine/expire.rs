//! Messages whose time has passed are never sent: each dies, or is dropped, as the policy of its topic says.
//!
//! The database says how much of a message's life is left when it reads it; from there on the local clock measures. So
//! a message is never over before its time, and nothing leaves later than its time plus the time that the read took.
//! Only rows that can expire are kept in the timetable of the window: where none can, nothing is looked at.

use std::time::Duration;

use super::Machine;
use super::destinations::Destinations;
use super::events::Note;
use super::window::Entry;
use crate::retry::OnExpire;
use crate::row::{Content, Expires, Row, RowId};
use crate::seams::{DeadReason, Outcome};
use crate::tick::Tick;

/// What is said of a message that is over.
const OVER: &str = "its time had passed: its own expires_at, or retry.max_age of its topic";

impl Machine {
    /// When the row is over by the local clock; none when it never is.
    pub(super) fn ends_at(&self, row: &Row) -> Option<Tick> {
        if row.given_up.is_some() {
            // It has ended: what is left is to tell of it.
            return None;
        }
        let of_its_own = match row.lifetime.expires {
            Expires::Never => return None,
            Expires::In(left) => Some(left),
            Expires::ByPolicy => None,
        };
        let max_age = match &row.content {
            Content::Malformed { .. } => return None,
            Content::Message(message) => {
                let asks_for_age = message.retry.is_some_and(|change| change.max_age_ms.is_some());
                if self.limits_age || asks_for_age { self.settings.policy(message).max_age } else { None }
            }
            // Whether its age is limited, only its message tells.
            Content::Head(head) if head.has_retry => None,
            Content::Head(head) => self.settings.policy_of(&head.topic).max_age,
        };
        let by_policy = max_age.map(|most| most.saturating_sub(row.lifetime.age));
        let left = [of_its_own, by_policy].into_iter().flatten().min()?;
        Some(self.latest + left)
    }

    /// Whether the row was over when it was read.
    pub(super) fn is_over(&self, row: &Row) -> bool {
        self.ends_at(row).is_some_and(|end| end <= self.latest)
    }

    /// Ends every row in the window whose time has come.
    pub(super) fn expire(&mut self, now: Tick) {
        while let Some(row) = self.window.take_expired(now) {
            self.end(row);
        }
    }

    /// The row waits nowhere any more. What is on its way may still be accepted, and a suspicion that is being recorded
    /// comes first.
    pub(super) fn end(&mut self, row: RowId) {
        let Some(entry) = self.window.get_mut(row).filter(|entry| !entry.settling || entry.is_being_suspected()) else {
            return;
        };
        entry.is_over = true;
        entry.lapsed = entry.lapsed.with(entry.waiting);
        entry.waiting = Destinations::NONE;
        if let Some(record) = entry.key.and_then(|key| self.keys.get_mut(key)) {
            record.queues.iter_mut().for_each(|queue| queue.waiting.remove(row));
        }
        self.hold_key(row);
        self.resolve(row);
    }

    /// Records the end of a row that is over and was not delivered everywhere.
    pub(super) fn give_up_expired(&mut self, row: RowId) {
        let Some((id, topic)) = self.window.get(row).and_then(Entry::named) else { return };
        for outlet in &mut self.outlets {
            outlet.forget(row);
        }
        match self.settings.policy_of(&topic).on_expire {
            OnExpire::Drop => {
                self.notes.push(Note::Dropped { id, topic });
                self.record(row, Outcome::Dropped);
            }
            OnExpire::Dead => {
                let failures = self.window.get(row).map(|entry| entry.troubles.failures.clone()).unwrap_or_default();
                self.note_dead(row, id, DeadReason::Expired, OVER.to_owned());
                self.bury(row, DeadReason::Expired, failures);
            }
        }
    }

    /// A row that waits in the table comes back when it is over, if not before.
    pub(super) fn until_the_end(&self, row: RowId, wait: Duration) -> Duration {
        let end = self.window.get(row).and_then(|entry| entry.ends_at);
        end.map_or(wait, |end| wait.min(end.since(self.latest)))
    }
}

impl Entry {
    /// Whether some destination was not reached before the row was over.
    pub(super) fn has_lapsed(&self) -> bool {
        let owed = self.lapsed.with(self.failed).with(self.parked);
        self.is_over && (!owed.is_empty() || !self.troubles.unknown.is_empty() || self.accepted.is_empty())
    }
}
