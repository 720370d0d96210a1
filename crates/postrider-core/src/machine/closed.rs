//! What of a key in memory stands before a row that comes from the table.

use smallvec::SmallVec;

use super::destinations::{DestinationIndex, Destinations};
use super::keys::KeyRecord;
use super::queue::Queue;
use crate::row::RowId;

impl KeyRecord {
    /// From which row on, for each destination, what comes from the table stands behind something in memory.
    pub(super) fn closed_from(&self) -> SmallVec<[Option<RowId>; 1]> {
        self.queues.iter().map(Queue::closed_from).collect()
    }

    /// A look is sent: what is on its way to the table now, it may not see.
    pub(super) fn look_is_sent(&mut self) {
        for queue in &mut self.queues {
            queue.unseen = queue.held_back.first().copied();
        }
    }

    /// Where the look under way may not have seen what came to the table.
    pub(super) fn unseen(&self) -> Destinations {
        self.places(|queue| queue.unseen.is_some())
    }
}

/// The destinations of which this row stands behind something, where each is closed from a row on.
pub(super) fn closed_at(closed_from: &[Option<RowId>], row: RowId) -> Destinations {
    let closed = closed_from.iter().enumerate().filter(|(_, from)| from.is_some_and(|from| from < row));
    closed.map(|(place, _)| DestinationIndex::new(place)).collect()
}
