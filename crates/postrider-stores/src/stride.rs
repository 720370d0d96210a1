//! How many row numbers one statement of a sweep passes, so that it is short whatever lies there.
//!
//! Rows that were delivered while somebody holds a transaction open cannot be vacuumed, and rows that wait lie in their
//! thousands: a statement passes either without anything to show for it. Below them lie all the numbers that were ever
//! given and are gone, which cost nothing. Neither the server nor its estimates tell beforehand, so the next statement is
//! made by how long the last one took.

use std::time::Duration;

/// What the server may work for one statement. Reading stands still so long: it is a part of the latency at 99 of 100.
const LONG: Duration = Duration::from_millis(2);
/// A statement this quick may pass twice as much.
const SHORT: Duration = Duration::from_millis(1);
/// The fewest row numbers of one statement.
const FEWEST: i64 = 2_048;
/// A statement passes no more than one of so many parts of what is left: a long way over nothing is short in statements,
/// and what is dense and stands at the end, where new rows are, is not met by a stride that grew on the way.
const PARTS: i64 = 64;

/// The row numbers of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stride {
    numbers: i64,
    /// The quickest statement so far, which is about the way to the server and back.
    way: Duration,
}

impl Stride {
    /// The first stride of a sweep, by how long a statement took that asks for nothing.
    pub(crate) const fn first(way: Duration) -> Self {
        Self { numbers: 2 * FEWEST, way }
    }

    /// The last row number of a statement that begins behind one, on the way to another.
    pub(crate) fn from(self, after: i64, end: i64) -> i64 {
        let most = (end.saturating_sub(after) / PARTS).max(FEWEST);
        after.saturating_add(self.numbers.min(most))
    }

    /// The stride of the next statement, by how many row numbers this one passed and how long it took.
    ///
    /// What it passed may be less than its stride, near the end; what was never passed says nothing.
    pub(crate) fn next(self, passed: i64, took: Duration) -> Self {
        let way = self.way.min(took);
        let numbers = match took.saturating_sub(way) {
            worked if worked > LONG => passed.saturating_mul(micros(LONG)) / micros(worked).max(1),
            worked if worked < SHORT => passed.saturating_mul(2),
            _ => passed,
        };
        Self { numbers: numbers.max(FEWEST), way }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_slow_statement_shortens_the_next_by_as_much_and_a_quick_one_doubles_it() {
        let (passed, stride) = (8 * FEWEST, Stride { numbers: 8 * FEWEST, way: Duration::ZERO });
        assert_eq!(stride.next(passed, millis(4)).numbers, 4 * FEWEST);
        assert_eq!(stride.next(passed, millis(8)).numbers, 2 * FEWEST);
        assert_eq!(stride.next(passed, Duration::from_micros(1_500)).numbers, 8 * FEWEST);
        assert_eq!(stride.next(passed, Duration::from_micros(100)).numbers, 16 * FEWEST);
        assert_eq!(stride.next(FEWEST, millis(1_000)).numbers, FEWEST);
        assert_eq!(stride.next(i64::MAX, Duration::MAX).numbers, FEWEST);
    }

    #[test]
    fn the_way_to_the_server_is_no_work_of_the_server() {
        let first = Stride::first(millis(30));
        let mut stride = first;
        for _ in 0..10 {
            stride = stride.next(stride.numbers, millis(30));
        }
        assert_eq!(stride.numbers, first.numbers << 10);
        assert_eq!(stride.next(stride.numbers, millis(34)).numbers, first.numbers << 9);
        assert_eq!(first.next(first.numbers, millis(34)).numbers, FEWEST, "a first statement's work is not the way");
    }

    /// A way over nothing with something dense at its end: the numbers passed in dense statements, and how many
    /// statements there were.
    fn sweep(end: i64, dense: i64) -> (Vec<i64>, usize) {
        let (mut stride, mut after, mut met, mut statements) =
            (Stride::first(Duration::from_micros(200)), 0, Vec::new(), 0);
        while after < end {
            let upto = stride.from(after, end).min(end);
            let passed = upto - after.max(end - dense);
            if passed > 0 {
                met.push(passed);
            }
            let worked = Duration::from_nanos(430 * u64::try_from(passed).unwrap_or(0));
            stride = stride.next(upto - after, Duration::from_micros(200) + worked);
            (after, statements) = (upto, statements + 1);
        }
        (met, statements)
    }

    #[test]
    fn ten_thousand_million_numbers_that_are_gone_are_passed_in_hundreds_of_statements_and_the_end_is_met_slowly() {
        let (met, statements) = sweep(10_000_000_000, 600_000);
        assert!(statements < 1_000, "{statements}");
        assert!(met.iter().all(|passed| *passed <= 20_000), "{met:?}, of which 20,000 are nine milliseconds");
    }

    /// Five thousand rows are two milliseconds.
    #[test]
    fn what_is_dense_is_met_once_by_a_long_statement() {
        let (met, _) = sweep(2_500_000, 1_500_000);
        assert!(met.iter().filter(|passed| **passed > 6_000).count() <= 1, "{met:?}");
    }
}
