//! What one key has in memory for one destination.

use std::collections::BTreeSet;

use super::row_queue::RowQueue;
use crate::row::RowId;

/// The rows of a key that wait for one destination.
#[derive(Debug, Default, Clone)]
pub(super) struct Queue {
    pub(super) waiting: RowQueue,
    /// How many are sent and not answered.
    pub(super) flying: usize,
    /// Whether the key stands in the destination's line already.
    pub(super) in_line: bool,
    /// Rows in the window that failed here or must wait here in the table, and are not settled yet.
    pub(super) held_back: BTreeSet<RowId>,
    /// The first of them when the look under way was sent, which may not have seen it.
    pub(super) unseen: Option<RowId>,
}

impl Queue {
    /// From which row on what comes from the table may not go before those in memory: one of these is to go there or on its
    /// way, or stands before it and is on its way back to the table.
    pub(super) fn closed_from(&self) -> Option<RowId> {
        if self.is_going() {
            return Some(RowId(i64::MIN));
        }
        [self.held_back.first().copied(), self.unseen].into_iter().flatten().min()
    }

    /// Whether something is to go there, or on its way.
    pub(super) fn is_going(&self) -> bool {
        !self.waiting.is_empty() || self.flying > 0
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_going() && self.held_back.is_empty()
    }
}
