//! The book of one partition: what was given of it, what is over, and which position may be recorded.

use std::collections::BTreeSet;

/// What is known of a partition since it was given to this member.
///
/// Kafka keeps one number for a partition and a group: everything before it is over. Messages are over in any order, so the
/// number that may be recorded is that of the first one that is not, whatever is over behind it. Offsets have gaps, where a
/// transaction ended or a compaction took something: what never came is waited for by nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Book {
    /// What came and is not over.
    open: BTreeSet<i64>,
    /// Behind the last that came; none while nothing has.
    next: Option<i64>,
    /// What the broker is known to have recorded, or where the reading began.
    recorded: i64,
}

impl Book {
    /// Enters a message that came. False where it was here before: it is not to be given a second time.
    pub(super) fn enter(&mut self, offset: i64) -> bool {
        match self.next {
            Some(next) if offset < next => return false,
            Some(_) => {}
            None => self.recorded = offset,
        }
        self.next = Some(offset.saturating_add(1));
        self.open.insert(offset)
    }

    /// Lets the log go on at an offset that is below what came: what came from there on is not in it any more.
    pub(super) fn begin_anew(&mut self, offset: i64) {
        self.open.split_off(&offset);
        self.next = Some(offset);
    }

    /// Lets the position be recorded again, as low as it is: the broker may have a higher one, of a log that is no more.
    pub(super) fn doubt(&mut self) {
        if let Some(position) = self.position() {
            self.recorded = position.saturating_sub(1);
        }
    }

    /// Behind the last that came; none while nothing has.
    pub(super) fn next(&self) -> Option<i64> {
        self.next
    }

    /// Notes that a message is over. False where it was not open.
    pub(super) fn over(&mut self, offset: i64) -> bool {
        self.open.remove(&offset)
    }

    /// Whether a message came and is not over.
    pub(super) fn is_open(&self, offset: i64) -> bool {
        self.open.contains(&offset)
    }

    /// How many came and are not over.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// The position that may be recorded: everything that came before it is over. None while nothing has come.
    pub(super) fn position(&self) -> Option<i64> {
        self.open.first().copied().or(self.next)
    }

    /// The position, where it is not recorded yet.
    pub(super) fn unrecorded(&self) -> Option<i64> {
        self.position().filter(|position| *position > self.recorded)
    }

    /// Notes that the broker recorded a position.
    pub(super) fn record(&mut self, position: i64) {
        self.recorded = self.recorded.max(position);
    }

    /// Whether the broker has recorded that a message is over.
    pub(super) fn is_recorded(&self, offset: i64) -> bool {
        offset < self.recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(offsets: &[i64]) -> Book {
        let mut book = Book::default();
        for offset in offsets {
            assert!(book.enter(*offset));
        }
        book
    }

    #[test]
    fn only_what_has_nothing_open_before_it_is_recorded() {
        let mut book = book(&[5, 6, 7, 8]);
        assert_eq!((book.position(), book.unrecorded()), (Some(5), None));
        assert!(book.over(6) && book.over(8));
        assert_eq!(book.unrecorded(), None);
        assert!(book.over(5));
        assert_eq!(book.unrecorded(), Some(7));
        book.record(7);
        assert_eq!(book.unrecorded(), None);
        assert!(book.is_recorded(6) && !book.is_recorded(7) && !book.is_recorded(8));
        assert!(book.over(7));
        assert_eq!(book.unrecorded(), Some(9));
    }

    #[test]
    fn gaps_are_waited_for_by_nobody() {
        let mut book = book(&[10, 20, 21]);
        assert!(book.over(10));
        assert_eq!(book.unrecorded(), Some(20));
        assert!(book.over(20) && book.over(21));
        assert_eq!(book.unrecorded(), Some(22));
    }

    #[test]
    fn what_came_before_is_not_given_again_and_nothing_is_over_twice() {
        let mut book = book(&[3, 4]);
        assert!(!book.enter(3) && !book.enter(4));
        assert!(book.over(3) && !book.over(3));
        assert!(!book.enter(3) && !book.over(9));
        assert_eq!((book.open(), book.is_open(4), book.is_open(3)), (1, true, false));
    }

    #[test]
    fn a_late_answer_takes_nothing_back() {
        let mut book = book(&[0, 1, 2]);
        assert!(book.over(0) && book.over(1));
        book.record(2);
        book.record(1);
        assert!(book.is_recorded(1) && book.unrecorded().is_none());
    }

    /// A generator of numbers that needs no crate: the same schedule for the same seed.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) % bound
        }
    }

    #[test]
    fn a_log_that_goes_on_further_back_keeps_what_is_before_and_lowers_the_position() {
        let mut book = book(&[3, 4, 5, 6]);
        for offset in [3, 5, 6] {
            assert!(book.over(offset));
        }
        book.record(4);
        book.begin_anew(5);
        assert!(book.enter(5) && !book.enter(4));
        assert_eq!((book.position(), book.open()), (Some(4), 2));
        assert!(book.over(4) && book.over(5));
        book.record(6);
        book.begin_anew(2);
        book.doubt();
        assert!(book.enter(2));
        assert_eq!((book.unrecorded(), book.is_recorded(2)), (Some(2), false));
    }

    /// Against a book that is as simple as it is slow, over many schedules of coming, being over and being recorded.
    #[test]
    fn no_schedule_records_what_is_open_or_forgets_what_is_over() {
        for seed in 1..=500_u64 {
            let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (mut book, mut came, mut over) = (Book::default(), Vec::new(), BTreeSet::new());
            let (mut next, mut recorded) = (numbers.below(50) as i64, None);
            for _ in 0..200 {
                match numbers.below(5) {
                    0 | 1 => {
                        next += 1 + numbers.below(3) as i64 / 2;
                        assert!(book.enter(next), "seed {seed}");
                        came.push(next);
                    }
                    2 | 3 => {
                        let open: Vec<i64> = came.iter().copied().filter(|offset| !over.contains(offset)).collect();
                        let Some(which) = open.get(numbers.below(open.len().max(1) as u64) as usize) else { continue };
                        assert!(book.over(*which), "seed {seed}");
                        over.insert(*which);
                    }
                    _ => {
                        if let Some(position) = book.unrecorded() {
                            book.record(position);
                            recorded = Some(position);
                        }
                    }
                }
                let first_open = came.iter().copied().find(|offset| !over.contains(offset));
                let expected = first_open.or_else(|| came.last().map(|last| last + 1));
                assert_eq!(book.position(), expected, "seed {seed}");
                for offset in &came {
                    // What the broker has is over and has nothing open before it.
                    let told = recorded.is_some_and(|recorded| *offset < recorded);
                    assert_eq!(book.is_recorded(*offset), told, "seed {seed}");
                    assert!(!told || over.contains(offset), "seed {seed}: {offset} was recorded and is open");
                }
            }
        }
    }
}
