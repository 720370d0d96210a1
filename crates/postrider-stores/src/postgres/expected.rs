//! What to expect of the next rows of the hot path, by those that came last.

use postrider_core::Row;

/// Rows of a page after which the next one is expected to be large.
const MANY: usize = 256;

/// Whether rows are expected that only an exact page bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Light,
    Heavy,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Expected {
    weight: Weight,
    found: usize,
}

impl Expected {
    /// Before anything came.
    pub(super) const NOTHING: Self = Self { weight: Weight::Light, found: 0 };

    /// Whether rows are expected that a light page holds.
    pub(super) fn is_light(&self) -> bool {
        self.weight == Weight::Light
    }

    /// Whether few rows are expected.
    pub(super) fn is_small(&self) -> bool {
        self.found < MANY
    }

    /// How many rows the last page had.
    pub(super) fn found(&self) -> usize {
        self.found
    }

    /// Takes in a light page; whether it brought anything, or all there was.
    pub(super) fn was_light(&mut self, rows: &[Row], found: usize) -> bool {
        self.found = found;
        if rows.len() < found {
            self.weight = Weight::Heavy;
        }
        !rows.is_empty() || found == 0
    }

    /// Takes in an exact page of so many rows; they were light if each fits its share of the room.
    pub(super) fn was_exact(&mut self, rows: &[Row], fetched: usize, share: usize) {
        self.found = rows.len();
        if rows.len() == fetched && rows.iter().all(|row| row.weight <= share) {
            self.weight = Weight::Light;
        }
    }
}
