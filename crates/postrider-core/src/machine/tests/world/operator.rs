//! What an operator does with dead letters.

use super::World;
use crate::RowState;
use crate::machine::tests::table::Stored;

impl World {
    /// Replays every dead letter that is a message.
    pub(super) fn replay_dead(&mut self) {
        for id in self.ids(|row| matches!(row.state, RowState::Dead | RowState::Holding) && !row.malformed) {
            self.table.replay(id, self.now);
            self.replayed.push(id);
        }
    }

    /// Replays or discards each row that holds its key.
    pub(super) fn open_keys(&mut self) {
        for id in self.ids(|row| row.state == RowState::Holding) {
            if self.rng.chance(500) {
                self.table.replay(id, self.now);
                self.replayed.push(id);
            } else {
                self.table.discard(id, self.now);
                self.discarded.push(id);
            }
        }
    }

    /// The rows of which something holds.
    fn ids(&self, holds: impl Fn(&Stored) -> bool) -> Vec<i64> {
        self.table.rows.iter().filter(|(_, row)| holds(row)).map(|(id, _)| *id).collect()
    }
}
