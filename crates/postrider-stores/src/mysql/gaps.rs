//! Row numbers that were drawn and not seen: whose transactions may still be in flight.
//!
//! Numbers are drawn when rows are written and rows become visible when their transactions commit, in another order. So
//! the numbers below the highest one read that were not there are kept, and looked for again by every read. A number
//! leaves in one of three ways: its row is seen; its row was physically there, uncommitted, and is there no more, so it
//! was rolled back; or no row was ever there for longer than an insert can wait between drawing its number and writing
//! its row, so its statement failed.
//!
//! A statement of many rows draws its numbers first, all of them or the next few thousand, and writes row by row. What it has
//! not written yet stands right behind the last row that it has: such numbers wait as long as that row is in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The most ranges of one statement: neighbours are asked for together, and what lies between is passed over.
const MOST_ASKED: usize = 128;
/// The most numbers that are looked for behind a row in flight: `insert .. select` draws 65,535 ahead at most, and what else
/// stands there are holes that delivered rows left, each of which is walked over by every read.
const MOST_RESERVED: i64 = 100_000;
/// The most ranges that are kept apart; beyond, neighbours become one, and rows between them may be brought again.
const MOST_KEPT: usize = 20_000;

/// Neighbouring numbers of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    last: i64,
    /// Since when nothing was found there.
    noticed: Instant,
    /// Whether uncommitted rows were found there.
    flying: bool,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Gaps(BTreeMap<i64, Gap>);

impl Gaps {
    /// How many ranges are kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a number was not seen yet.
    pub(super) fn contains(&self, id: i64) -> bool {
        self.0.range(..=id).next_back().is_some_and(|(_, gap)| id <= gap.last)
    }

    /// Notes the numbers behind `after`, up to `upto`, that are not among those seen, which ascend.
    pub(super) fn note(&mut self, after: i64, upto: i64, seen: impl IntoIterator<Item = i64>, now: Instant) {
        let mut next = after.saturating_add(1);
        for id in seen.into_iter().filter(|id| *id > after && *id <= upto) {
            self.add(next, id - 1, now, false);
            next = id.saturating_add(1);
        }
        self.add(next, upto, now, false);
        self.bound();
    }

    /// Notes numbers, which ascend, whose rows are there and not committed.
    pub(super) fn note_flying(&mut self, ids: impl IntoIterator<Item = i64>, now: Instant) {
        for (first, last) in runs(ids) {
            self.replace(first, last, now, true);
        }
        self.bound();
    }

    /// Notes the numbers right behind rows in flight at which nothing is: of `present`, which ascends and ends with the last
    /// row up to `upto`, those that were not seen are in flight.
    pub(super) fn note_reserved(&mut self, present: &[i64], seen: &BTreeSet<i64>, upto: i64, now: Instant) {
        let next = present.iter().skip(1).copied().chain([upto.saturating_add(1)]);
        for (&id, next) in present.iter().zip(next).filter(|(id, _)| !seen.contains(id)) {
            let (first, last) = (id.saturating_add(1), (next - 1).min(id.saturating_add(MOST_RESERVED)));
            self.replace(first, last, now, false);
        }
        self.bound();
    }

    /// Forgets a number: its row was seen.
    pub(super) fn seen(&mut self, id: i64) {
        self.cut(id, id);
    }

    /// Takes in what was physically there, which ascends, among the numbers up to `upto`: numbers that were rolled back
    /// are forgotten, and so are those at which nothing was ever found for this long, but for what stands right behind a row in
    /// flight.
    pub(super) fn probed(&mut self, present: &[i64], upto: i64, now: Instant, patience: Duration) {
        let mut after = BTreeMap::new();
        let mut in_flight_upto = None;
        for (&first, &gap) in &self.0 {
            let from = present.partition_point(|id| *id < first);
            let to = present.partition_point(|id| *id <= gap.last.min(upto));
            let mut next = first;
            let absent = |from: i64, to: i64, in_flight_upto: Option<i64>, after: &mut BTreeMap<i64, Gap>| {
                let is_reserved = !gap.flying && from <= to && in_flight_upto == Some(from - 1);
                let noticed = if is_reserved { now } else { gap.noticed };
                // What lies behind the end of the look was not looked at.
                let gone = gap.flying || now.saturating_duration_since(noticed) >= patience;
                let from = if gone { from.max(upto.saturating_add(1)) } else { from };
                if from <= to {
                    after.insert(from, Gap { last: to, noticed, ..gap });
                }
                // What was noted as two stands behind one row.
                if is_reserved { Some(to) } else { in_flight_upto }
            };
            for (start, end) in runs(present.get(from..to).unwrap_or_default().iter().copied()) {
                absent(next, start - 1, in_flight_upto, &mut after);
                after.insert(start, Gap { last: end, noticed: gap.noticed, flying: true });
                next = end.saturating_add(1);
                in_flight_upto = Some(end);
            }
            in_flight_upto = absent(next, gap.last, in_flight_upto, &mut after);
        }
        self.0 = after;
    }

    /// Ranges in which all of them lie, at most [`MOST_ASKED`].
    pub(super) fn asked(&self) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::with_capacity(self.0.len().min(MOST_ASKED));
        let mut between: Vec<i64> = Vec::new();
        if self.0.len() > MOST_ASKED {
            let mut end = None;
            for (first, gap) in &self.0 {
                between.extend(end.map(|end| first - end));
                end = Some(gap.last);
            }
            between.sort_unstable();
        }
        // Those that are nearest to their neighbours are asked for with them.
        let joined = between.len().saturating_sub(MOST_ASKED - 1);
        let near = joined.checked_sub(1).and_then(|place| between.get(place)).copied().unwrap_or(1);
        for (&first, gap) in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if first - *last <= near => *last = gap.last,
                _ => ranges.push((first, gap.last)),
            }
        }
        ranges
    }

    /// Takes over all of another's.
    pub(super) fn join(&mut self, other: Self) {
        for (first, gap) in other.0 {
            self.replace(first, gap.last, gap.noticed, gap.flying);
        }
        self.bound();
    }

    fn add(&mut self, first: i64, last: i64, noticed: Instant, flying: bool) {
        if first <= last {
            self.0.insert(first, Gap { last, noticed, flying });
        }
    }

    /// Takes in numbers in the place of what was known of them.
    fn replace(&mut self, first: i64, last: i64, noticed: Instant, flying: bool) {
        self.cut(first, last);
        self.add(first, last, noticed, flying);
    }

    /// Takes numbers out.
    fn cut(&mut self, first: i64, last: i64) {
        let begin = self.0.range(..=first).next_back().map_or(first, |(start, _)| *start);
        let touched: Vec<(i64, Gap)> = self.0.range(begin..=last).map(|(start, gap)| (*start, *gap)).collect();
        for (start, gap) in touched.into_iter().filter(|(_, gap)| gap.last >= first) {
            self.0.remove(&start);
            self.add(start, gap.last.min(first - 1), gap.noticed, gap.flying);
            self.add(start.max(last.saturating_add(1)), gap.last, gap.noticed, gap.flying);
        }
    }

    /// Memory stays bounded, whatever is rolled back.
    fn bound(&mut self) {
        let mut near = 2;
        while self.0.len() > MOST_KEPT {
            let mut joined: BTreeMap<i64, Gap> = BTreeMap::new();
            for (&first, &gap) in &self.0 {
                match joined.last_entry() {
                    Some(mut before) if first - before.get().last <= near => {
                        let before = before.get_mut();
                        // What is not sure to have been there keeps its time.
                        let noticed = before.noticed.max(gap.noticed);
                        *before = Gap { last: gap.last, noticed, flying: false };
                    }
                    _ => {
                        joined.insert(first, gap);
                    }
                }
            }
            self.0 = joined;
            near = near.saturating_mul(4);
        }
    }
}

/// Neighbours among ascending numbers as ranges.
fn runs(ids: impl IntoIterator<Item = i64>) -> Vec<(i64, i64)> {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((_, last)) if id == last.saturating_add(1) => *last = id,
            _ => runs.push((id, id)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn all(gaps: &Gaps) -> Vec<(i64, i64)> {
        gaps.0.iter().map(|(first, gap)| (*first, gap.last)).collect()
    }

    #[test]
    fn numbers_that_were_not_seen_are_kept_and_leave_when_they_are() {
        let (mut gaps, now) = (Gaps::default(), Instant::now());
        gaps.note(10, 20, [11, 12, 15, 20], now);
        assert_eq!(all(&gaps), [(13, 14), (16, 19)]);
        gaps.seen(17);
        gaps.seen(13);
        assert_eq!(all(&gaps), [(14, 14), (16, 16), (18, 19)]);
        assert!(gaps.contains(18) && !gaps.contains(17) && !gaps.contains(15) && !gaps.contains(20));
        gaps.note(20, 20, [], now);
        gaps.note(20, 22, [], now);
        assert_eq!(all(&gaps).last(), Some(&(21, 22)));
    }

    #[test]
    fn what_was_in_flight_and_is_gone_was_rolled_back_and_what_was_never_there_waits_its_time() {
        let (mut gaps, then) = (Gaps::default(), Instant::now());
        gaps.note(0, 10, [1], then);
        gaps.probed(&[3, 4, 8], i64::MAX, then, PATIENCE);
        assert_eq!(all(&gaps), [(2, 2), (3, 4), (5, 7), (8, 8), (9, 10)]);
        gaps.probed(&[3], i64::MAX, then + PATIENCE / 2, PATIENCE);
        assert_eq!(all(&gaps), [(2, 2), (3, 3), (5, 7), (9, 10)], "4 and 8 were rolled back");
        gaps.probed(&[3, 6], i64::MAX, then + PATIENCE, PATIENCE);
        let kept = [(3, 3), (6, 6), (7, 7)];
        assert_eq!(all(&gaps), kept, "a transaction may stay open as long as it wants, and what wrote 6 may go on");
        gaps.probed(&[3], i64::MAX, then + PATIENCE, PATIENCE);
        assert_eq!(all(&gaps), [(3, 3), (7, 7)], "6 was rolled back");
        gaps.probed(&[3], i64::MAX, then + PATIENCE * 2, PATIENCE);
        assert_eq!(all(&gaps), [(3, 3)], "and nothing is written behind it any more");
    }

    #[test]
    fn what_a_statement_has_drawn_and_not_written_yet_waits_behind_its_last_row() {
        let (mut gaps, then) = (Gaps::default(), Instant::now());
        let (present, seen) = ([3, 4, 10, 11, 20], BTreeSet::from([3, 11]));
        gaps.note_flying([4, 10, 20], then);
        gaps.note_reserved(&present, &seen, 30, then);
        assert_eq!(all(&gaps), [(4, 4), (5, 9), (10, 10), (20, 20), (21, 30)], "behind 11 nobody writes");
        let mut later = then;
        for last in 21..26 {
            later += PATIENCE;
            let present: Vec<i64> = [4, 10].into_iter().chain(20..=last).collect();
            gaps.probed(&present, i64::MAX, later, PATIENCE);
            assert!(gaps.contains(30), "it is at {last}");
        }
        gaps.probed(&[4], i64::MAX, later + PATIENCE, PATIENCE);
        assert_eq!(all(&gaps), [(4, 4), (5, 9)], "those of a statement that failed leave");
    }

    /// A reading that begins notes what is far behind its end and what is near it by themselves.
    #[test]
    fn what_a_statement_has_drawn_may_have_been_noted_in_two_parts() {
        let (mut gaps, then) = (Gaps::default(), Instant::now());
        gaps.note_flying([4], then);
        gaps.note_reserved(&[4], &BTreeSet::new(), 20, then);
        gaps.note(20, 30, [], then);
        gaps.note(40, 50, [], then);
        for n in 1..4 {
            gaps.probed(&[4], i64::MAX, then + PATIENCE * n, PATIENCE);
            assert_eq!(all(&gaps), [(4, 4), (5, 20), (21, 30)], "40 stands behind no row");
        }
        gaps.note_reserved(&[4], &BTreeSet::new(), i64::MAX - 1, then);
        assert!(gaps.contains(4 + MOST_RESERVED) && !gaps.contains(5 + MOST_RESERVED));
    }

    #[test]
    fn what_was_not_looked_at_stays() {
        let (mut gaps, then) = (Gaps::default(), Instant::now());
        gaps.note(0, 10, [], then);
        gaps.note_flying([20, 21, 22], then);
        gaps.probed(&[2, 3], 3, then + PATIENCE, PATIENCE);
        assert_eq!(all(&gaps), [(2, 3), (4, 10), (20, 22)]);
    }

    #[test]
    fn a_row_in_flight_is_told_apart_within_a_gap_and_outside_of_any() {
        let (mut gaps, now) = (Gaps::default(), Instant::now());
        gaps.note(0, 10, [], now);
        gaps.note_flying([4, 5, 30], now);
        assert_eq!(all(&gaps), [(1, 3), (4, 5), (6, 10), (30, 30)]);
        gaps.probed(&[], i64::MAX, now, PATIENCE);
        assert_eq!(all(&gaps), [(1, 3), (6, 10)]);
    }

    #[test]
    fn few_ranges_are_asked_for_and_all_numbers_lie_in_them() {
        let (mut gaps, now) = (Gaps::default(), Instant::now());
        gaps.note(0, 100, [50], now);
        assert_eq!(gaps.asked(), [(1, 49), (51, 100)]);
        // Ever farther apart.
        let ids: Vec<i64> = (1..1_000).map(|n| 1_000 + n * n).collect();
        for id in &ids {
            gaps.note(id - 1, *id, [], now);
        }
        let asked = gaps.asked();
        assert!(asked.len() <= MOST_ASKED, "{}", asked.len());
        let within = |id: i64| asked.iter().any(|(first, last)| (*first..=*last).contains(&id));
        assert!(ids.iter().all(|id| within(*id)) && within(1) && within(100));
        assert!(asked.windows(2).all(|pair| pair[0].1 < pair[1].0), "they ascend and do not meet");
    }

    #[test]
    fn memory_is_bounded_whatever_is_rolled_back() {
        let (mut gaps, now) = (Gaps::default(), Instant::now());
        gaps.note(0, 200_000, (0..100_000).map(|n| n * 2), now);
        assert!(gaps.len() <= MOST_KEPT);
        assert!((0..100_000).all(|n| gaps.contains(n * 2 + 1)), "none is lost");
    }

    #[test]
    fn two_readers_of_one_table_become_one() {
        let (mut one, mut other, now) = (Gaps::default(), Gaps::default(), Instant::now());
        one.note(0, 10, [5], now);
        other.note(3, 20, [4, 5, 6], now);
        one.join(other);
        assert!([1, 4, 6, 7, 10, 11, 20].iter().all(|id| one.contains(*id)) && !one.contains(5));
    }
}
