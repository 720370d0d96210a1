//! How far each lane has been read: cohorts of lanes that stand at the same row.

use std::collections::BTreeMap;

use postrider_core::{HeldLane, Lane, RowId, Term};

use super::gaps::Gaps;

/// Lanes that have been read up to the same row, but for the numbers in its gaps.
///
/// A lane that was just acquired walks from its beginning in a cohort of its own while the others go on at the end; when
/// it has caught up the two become one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cohort {
    pub(super) lanes: BTreeMap<Lane, Term>,
    pub(super) last: i64,
    pub(super) gaps: Gaps,
    /// Numbers up to here were drawn long before the walk began: of these only rows that are known to be in flight are
    /// gaps, because a backlog has holes without end.
    pub(super) settled_below: Option<i64>,
    /// Whether the last read found nothing behind its own end.
    pub(super) at_rest: bool,
}

/// The cohorts of a source, by ascending last row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cohorts(Vec<Cohort>);

impl Cohorts {
    /// Forgets lanes that are not held, or under another term, and begins those that are new.
    pub(super) fn follow(&mut self, held: &[HeldLane]) {
        let mut fresh: BTreeMap<Lane, Term> = held.iter().map(|held| (held.lane, held.term)).collect();
        for cohort in &mut self.0 {
            cohort.lanes.retain(|lane, term| {
                let known = fresh.get(lane) == Some(term);
                if known {
                    fresh.remove(lane);
                }
                known
            });
        }
        if !fresh.is_empty() {
            self.0.push(Cohort { lanes: fresh, ..Cohort::default() });
        }
        self.settle();
    }

    /// Forgets how far anything was read.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// The highest row that any lane has been read up to.
    pub(super) fn highest(&self) -> i64 {
        self.0.iter().map(|cohort| cohort.last).max().unwrap_or(0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Cohort> {
        self.0.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Cohort> {
        self.0.get_mut(index)
    }

    /// Where the cohort at `index` meets the next one, if there is one.
    pub(super) fn meets(&self, index: usize) -> Option<i64> {
        self.0.get(index + 1).map(|cohort| cohort.last)
    }

    /// Up to where each lane has been read.
    pub(super) fn reached(&self) -> BTreeMap<Lane, RowId> {
        let lanes = |cohort: &Cohort| cohort.lanes.keys().map(|lane| (*lane, RowId(cohort.last))).collect::<Vec<_>>();
        self.0.iter().flat_map(lanes).collect()
    }

    /// Orders the cohorts and joins those that have met.
    pub(super) fn settle(&mut self) {
        self.0.retain(|cohort| !cohort.lanes.is_empty());
        self.0.sort_by_key(|cohort| cohort.last);
        self.0.dedup_by(|later, kept| {
            // One that has not begun to read does not know what is in flight below.
            let met = later.last == kept.last && later.settled_below.is_some() && kept.settled_below.is_some();
            if met {
                kept.lanes.append(&mut later.lanes);
                kept.gaps.join(std::mem::take(&mut later.gaps));
                kept.settled_below = kept.settled_below.min(later.settled_below);
                kept.at_rest &= later.at_rest;
            }
            met
        });
    }

    /// Those of these lanes that are read up to date, and the row up to which all of them are.
    pub(super) fn at_rest(&self, lanes: &[HeldLane]) -> Option<(Vec<Lane>, i64)> {
        let resting = self.0.iter().filter(|cohort| cohort.at_rest);
        let wanted = |cohort: &Cohort| lanes.iter().any(|held| cohort.lanes.contains_key(&held.lane));
        let resting: Vec<&Cohort> = resting.filter(|cohort| wanted(cohort)).collect();
        let upto = resting.iter().map(|cohort| cohort.last).min()?;
        let mut at_rest: Vec<Lane> = lanes.iter().map(|held| held.lane).collect();
        at_rest.retain(|lane| resting.iter().any(|cohort| cohort.lanes.contains_key(lane)));
        at_rest.sort_unstable();
        Some((at_rest, upto))
    }

    /// Whether a row's number waits in the gaps of its lane's cohort.
    pub(super) fn awaits(&self, lane: Lane, id: i64) -> bool {
        self.0.iter().any(|cohort| cohort.lanes.contains_key(&lane) && cohort.gaps.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use postrider_core::Start;

    use super::*;

    fn held(lane: u16, term: i64) -> HeldLane {
        HeldLane { lane: Lane(lane), term: Term(term), start: Start::Clean }
    }

    fn stands(cohorts: &mut Cohorts, index: usize, last: i64) {
        let cohort = cohorts.get_mut(index).unwrap();
        (cohort.last, cohort.settled_below, cohort.at_rest) = (last, Some(0), true);
    }

    #[test]
    fn a_new_lane_walks_alone_and_joins_the_others_where_they_meet() {
        let mut cohorts = Cohorts::default();
        cohorts.follow(&[held(0, 1)]);
        stands(&mut cohorts, 0, 50);
        cohorts.get_mut(0).unwrap().gaps.note(40, 42, [], Instant::now());
        cohorts.follow(&[held(0, 1), held(1, 1)]);
        assert_eq!((cohorts.len(), cohorts.meets(0), cohorts.highest()), (2, Some(50), 50));
        assert_eq!(cohorts.at_rest(&[held(0, 1), held(1, 1)]), Some((vec![Lane(0)], 50)));
        stands(&mut cohorts, 0, 50);
        cohorts.settle();
        assert_eq!(cohorts.len(), 1);
        assert!(cohorts.awaits(Lane(1), 41), "what is in flight is known to both");
    }

    #[test]
    fn a_lane_under_another_term_is_new_and_a_lane_not_held_is_forgotten() {
        let mut cohorts = Cohorts::default();
        cohorts.follow(&[held(0, 1), held(1, 1)]);
        stands(&mut cohorts, 0, 50);
        cohorts.follow(&[held(0, 2)]);
        assert_eq!((cohorts.len(), cohorts.get(0).unwrap().last), (1, 0));
    }

    #[test]
    fn a_cohort_that_has_not_begun_joins_no_other_at_the_same_row() {
        let mut cohorts = Cohorts::default();
        cohorts.follow(&[held(0, 1)]);
        stands(&mut cohorts, 0, 0);
        cohorts.follow(&[held(0, 1), held(1, 1)]);
        assert_eq!(cohorts.len(), 2);
    }
}
