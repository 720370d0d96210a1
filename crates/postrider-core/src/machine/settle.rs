//! What became of each row is recorded, batched behind publishing.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::Machine;
use super::destinations::{DestinationIndex, Destinations};
use super::events::{Action, Note};
use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::row::RowId;
use crate::seams::{Attempt, DeadReason, FailedAttempt, Outcome, Settled, Settlement};
use crate::tick::Tick;

/// The most rows of one settle.
const MAX_BATCH: usize = 4_096;
/// The pause after a settle that failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);
/// The most characters of a failure kept in the table.
const MAX_TEXT: usize = 1_000;

/// Settlements that wait, and those under way.
#[derive(Debug, Default)]
pub(super) struct Settling {
    waiting: VecDeque<Settlement>,
    under_way: Vec<Settlement>,
    retry_at: Option<Tick>,
    store_is_away: bool,
}

impl Settling {
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    pub(super) fn store_is_away(&self) -> bool {
        self.store_is_away
    }

    pub(super) fn retry_at(&self) -> Option<Tick> {
        self.retry_at
    }

    pub(super) fn forget_lane(&mut self, lane: Lane) {
        self.waiting.retain(|settlement| settlement.lane != lane);
    }
}

impl Machine {
    /// Decides what became of a row once nothing of it is queued or in flight.
    pub(super) fn resolve(&mut self, row: RowId) {
        let Some(entry) = self.window.get(row) else { return };
        if entry.settling || !entry.waiting.is_empty() || !entry.flying.is_empty() {
            return;
        }
        if !entry.failed.is_empty() {
            if entry.failed == entry.exhausted && entry.parked.is_empty() && entry.unknown.is_empty() {
                self.give_up(row);
            } else {
                self.retry_in_table(row);
            }
        } else if !entry.parked.is_empty() {
            self.set_aside(row);
        } else if !entry.accepted.is_empty() && !entry.unknown.is_empty() {
            self.lead_nowhere(row);
        } else if !entry.accepted.is_empty() {
            self.record(row, Outcome::Delivered);
        }
    }

    fn set_aside(&mut self, row: RowId) {
        let Some(entry) = self.window.get(row) else { return };
        let waiting_for = self.still_owed(row, entry.parked);
        if entry.key.is_none() {
            // Without a key nothing would look for it: it is scheduled instead.
            let (attempts, progress) = (entry.attempts, entry.progress.clone());
            let after = self.settings.max_pause;
            self.record(row, Outcome::Retry { after, attempts, waiting_for, progress, failures: Vec::new() });
        } else {
            self.record(row, Outcome::SetAside { waiting_for });
        }
    }

    pub(super) fn retry_in_table(&mut self, row: RowId) {
        let Some(entry) = self.window.get(row) else { return };
        let waiting_for = self.still_owed(row, entry.failed.with(entry.parked));
        let attempts = entry.attempts;
        let after = entry.retry_after;
        let progress = entry.progress.clone();
        let key = entry.key.clone();
        let failures = entry.failures.clone();
        if let Some(id) = entry.message.as_ref().map(|message| message.id) {
            self.notes.push(Note::Retry { id, attempts, after });
        }
        if let Some(record) = key.as_ref().and_then(|key| self.keys.get_mut(key)) {
            record.head_is_scheduled = true;
        }
        self.record(row, Outcome::Retry { after, attempts, waiting_for, progress, failures });
    }

    fn give_up(&mut self, row: RowId) {
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

    pub(super) fn bury(&mut self, row: RowId, reason: DeadReason, failures: Vec<FailedAttempt>) {
        let Some(entry) = self.window.get(row) else { return };
        let waiting_for = self.still_owed(row, entry.failed);
        let attempts = entry.attempts;
        self.record(row, Outcome::Dead { reason, attempts, waiting_for, failures });
    }

    /// The column `waiting_for`: null while every matching route is owed and nothing was accepted.
    fn still_owed(&self, row: RowId, owed: Destinations) -> Option<Vec<crate::address::DestinationName>> {
        let entry = self.window.get(row)?;
        if entry.owes_every_route && entry.accepted.is_empty() {
            return None;
        }
        let mut names = self.settings.names(owed);
        names.extend(entry.unknown.iter().cloned());
        Some(names)
    }

    fn record(&mut self, row: RowId, outcome: Outcome) {
        let Some(entry) = self.window.get_mut(row) else { return };
        entry.settling = true;
        let (lane, sent, key) = (entry.lane, entry.sent, entry.key.clone());
        if let Some(record) = key.as_ref().and_then(|key| self.keys.get_mut(key)) {
            match outcome {
                Outcome::Retry { .. } | Outcome::SetAside { .. } => record.unsettled += 1,
                Outcome::Dead { .. } => record.burying += 1,
                Outcome::Delivered => {}
            }
        }
        self.settling.waiting.push_back(Settlement { row, lane, outcome, attempt: Attempt(sent) });
    }

    pub(super) fn settle_next(&mut self, now: Tick, actions: &mut Vec<Action>) {
        let settling = &mut self.settling;
        let rests = settling.retry_at.is_some_and(|at| now < at);
        if !settling.under_way.is_empty() || settling.waiting.is_empty() || rests {
            return;
        }
        settling.retry_at = None;
        let count = settling.waiting.len().min(MAX_BATCH);
        let batch: Vec<_> = settling.waiting.drain(..count).collect();
        settling.under_way = batch.clone();
        let lanes = self.held();
        actions.push(Action::Settle(lanes, batch));
    }

    pub(super) fn settled(&mut self, now: Tick, answer: Result<Settled, Error>) {
        let batch = std::mem::take(&mut self.settling.under_way);
        match answer {
            Ok(settled) => {
                self.store_is_back();
                self.count(&batch, &settled);
                let changed: HashSet<RowId> = settled.rows.iter().copied().collect();
                for settlement in batch {
                    let changed = changed.contains(&settlement.row);
                    self.settle_one(settlement, &settled, changed);
                }
            }
            Err(error) if error.kind() == ErrorKind::Fenced => {
                let lanes: Vec<_> = self.held.keys().copied().collect();
                for lane in lanes {
                    self.notes.push(Note::Fenced(lane));
                    self.lose(lane);
                }
            }
            Err(error) => {
                self.settling.retry_at = Some(now + PAUSE_AFTER_FAILURE);
                for settlement in batch.into_iter().rev() {
                    if self.held.contains_key(&settlement.lane) {
                        self.settling.waiting.push_front(settlement);
                    }
                }
                self.settling.store_is_away = true;
                self.store_is_away(&error);
            }
        }
    }

    fn settle_one(&mut self, settlement: Settlement, settled: &Settled, changed: bool) {
        let row = settlement.row;
        if !settled.lanes.contains(&settlement.lane) {
            if self.held.contains_key(&settlement.lane) {
                self.notes.push(Note::Fenced(settlement.lane));
                self.lose(settlement.lane);
            }
            return;
        }
        self.reads.settle(row);
        let Some(entry) = self.window.remove(row) else { return };
        let Some(key) = entry.key else { return };
        if let Some(record) = self.keys.get_mut(&key) {
            record.members = record.members.saturating_sub(1);
            match settlement.outcome {
                Outcome::SetAside { .. } => {
                    record.unsettled = record.unsettled.saturating_sub(1);
                    record.look_again = true;
                }
                Outcome::Retry { .. } => {
                    record.unsettled = record.unsettled.saturating_sub(1);
                    record.failing = Destinations::NONE;
                    // Where the row is gone, nothing will bring the key back but a look.
                    if !changed {
                        record.head_is_scheduled = false;
                        record.look_again = true;
                    }
                }
                Outcome::Dead { .. } => record.burying = record.burying.saturating_sub(1),
                Outcome::Delivered => {}
            }
        }
        if matches!(settlement.outcome, Outcome::Dead { .. }) {
            for place in 0..self.outlets.len() {
                self.line_up(&key, DestinationIndex::new(place));
            }
        }
        self.review(&key);
    }

    fn count(&mut self, batch: &[Settlement], settled: &Settled) {
        let mine = batch.iter().filter(|settlement| settled.lanes.contains(&settlement.lane));
        let (mut delivered, mut aside) = (0, 0);
        for settlement in mine {
            match settlement.outcome {
                Outcome::Delivered => delivered += 1,
                Outcome::SetAside { .. } => aside += 1,
                Outcome::Retry { .. } | Outcome::Dead { .. } => {}
            }
        }
        if delivered > 0 {
            self.notes.push(Note::Delivered(delivered));
        }
        if aside > 0 {
            self.notes.push(Note::SetAside(aside));
        }
    }

    pub(super) fn store_is_away(&mut self, error: &Error) {
        self.notes.push(Note::StoreAway(error.kind(), error.story()));
    }

    pub(super) fn store_is_back(&mut self) {
        if std::mem::take(&mut self.settling.store_is_away) {
            self.notes.push(Note::StoreBack);
        }
    }
}

/// A text short enough for the table.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}
