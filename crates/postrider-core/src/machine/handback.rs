//! Lanes go back: nothing more of them is read or sent, what is on its way is answered and settled, and then the
//! machine is done with them.

use std::collections::{BTreeMap, BTreeSet};

use super::Machine;
use super::events::Action;
use crate::lane::{HeldLane, Lane};
use crate::row::RowId;

/// The lanes on their way back.
#[derive(Debug, Default)]
pub(super) struct HandBack {
    /// Owned still, because something of them is on its way; read no more.
    leaving: BTreeMap<Lane, HeldLane>,
    /// Asked for, and not held under that term.
    unknown: Vec<HeldLane>,
}

impl HandBack {
    /// Whether no lane is on its way back.
    pub(super) fn is_empty(&self) -> bool {
        self.leaving.is_empty()
    }

    pub(super) fn get(&self, lane: Lane) -> Option<&HeldLane> {
        self.leaving.get(&lane)
    }

    pub(super) fn has(&self, lane: Lane) -> bool {
        self.leaving.contains_key(&lane)
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = HeldLane> {
        self.leaving.values().copied()
    }

    pub(super) fn forget(&mut self, lane: Lane) -> Option<HeldLane> {
        self.leaving.remove(&lane)
    }
}

impl Machine {
    /// These lanes are wanted elsewhere. What has not begun is forgotten, and found by who reads them next.
    pub(super) fn hand_back(&mut self, lanes: Vec<HeldLane>) {
        for wanted in lanes {
            match self.held.get(&wanted.lane).copied().filter(|held| held.term == wanted.term) {
                Some(held) => {
                    self.held.remove(&held.lane);
                    self.hand_back.leaving.insert(held.lane, self.as_left(held));
                    self.schedule.forget(held.lane);
                    self.delayed.forget(held.lane);
                }
                None if self.owned(wanted.lane).is_some_and(|held| held.term == wanted.term) => {}
                None => self.hand_back.unknown.push(wanted),
            }
        }
        for row in self.window.ids() {
            if self.is_leaving(row) {
                self.leave_nothing_waiting(row);
                self.resolve(row);
            }
        }
    }

    /// Whether nothing more of this row is sent: its lane goes back, or the relay stops.
    pub(super) fn is_leaving(&self, row: RowId) -> bool {
        let leaving = &self.hand_back.leaving;
        self.stopping || (!leaving.is_empty() && self.window.get(row).is_some_and(|e| leaving.contains_key(&e.lane)))
    }

    /// A lane that is owned, whether it is read or on its way back.
    pub(super) fn owned(&self, lane: Lane) -> Option<HeldLane> {
        self.held.get(&lane).or_else(|| self.hand_back.get(lane)).copied()
    }

    /// Lanes of which nothing is in memory any more: the last settle of each was answered.
    pub(super) fn release_next(&mut self, actions: &mut Vec<Action>) {
        if self.hand_back.leaving.is_empty() && self.hand_back.unknown.is_empty() {
            return;
        }
        let busy: BTreeSet<Lane> = self.window.lanes().collect();
        let mut done = std::mem::take(&mut self.hand_back.unknown);
        done.extend(self.hand_back.lanes().filter(|held| !busy.contains(&held.lane)));
        for held in &done {
            if self.hand_back.get(held.lane) == Some(held) {
                self.lose(held.lane);
            }
        }
        if !done.is_empty() {
            actions.push(Action::Release(done));
        }
    }
}
