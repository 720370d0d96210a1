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
}

impl Queue {
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.flying == 0 && self.held_back.is_empty()
    }
}
