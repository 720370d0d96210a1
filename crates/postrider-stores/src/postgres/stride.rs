//! How many row numbers one statement of a sweep passes, so that it is short whatever lies there.
//!
//! Rows that were delivered while somebody holds a transaction open cannot be vacuumed, and rows that wait lie in their
//! thousands: a statement passes either without anything to show for it, and neither the server nor its estimates tell
//! beforehand. So the next statement is made by how long the last one took.

use std::time::Duration;

/// What a statement of a sweep may take. Reading stands still so long: it is a part of the latency at 99 of 100.
const LONG: Duration = Duration::from_millis(2);
/// A statement this quick may pass twice as much.
const SHORT: Duration = Duration::from_millis(1);
/// The fewest and the most row numbers of one statement. The most bounds what a first statement behind a gap costs.
const FEWEST: i64 = 2_048;
const MOST: i64 = 65_536;

/// The row numbers of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stride(i64);

impl Stride {
    pub(super) const FIRST: Self = Self(4 * FEWEST);

    /// The last row number of a statement that begins behind this one.
    pub(super) const fn from(self, after: i64) -> i64 {
        after.saturating_add(self.0)
    }

    /// The stride of the next statement, by how long this one took.
    pub(super) fn next(self, took: Duration) -> Self {
        let numbers = match took {
            _ if took > LONG => self.0 / 2,
            _ if took < SHORT => self.0 * 2,
            _ => self.0,
        };
        Self(numbers.clamp(FEWEST, MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_statement_halves_the_next_and_a_quick_one_doubles_it_within_bounds() {
        let stride = Stride::FIRST;
        assert_eq!(stride.next(Duration::from_millis(3)), Stride(2 * FEWEST));
        assert_eq!(stride.next(Duration::from_micros(1_500)), stride);
        assert_eq!(stride.next(Duration::from_micros(100)), Stride(8 * FEWEST));
        assert_eq!(Stride(FEWEST).next(Duration::from_secs(1)), Stride(FEWEST));
        assert_eq!(Stride(MOST).next(Duration::ZERO), Stride(MOST));
        assert_eq!(Stride(MOST).from(i64::MAX - 1), i64::MAX);
    }
}
