//! Up to where each lane has been read.

use std::collections::BTreeMap;

use postrider_core::{HeldLane, Lane, RowId, Term};

/// Lanes that have been read up to the same row.
///
/// A lane that was just acquired walks from its beginning in a cohort of its own while the others go on at the end;
/// when it has caught up the two become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cohort {
    pub(super) last: i64,
    pub(super) lanes: BTreeMap<Lane, Term>,
}

/// The cohorts of a source, by ascending last row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cohorts(Vec<Cohort>);

impl Cohorts {
    /// Forgets lanes that are not held, or under another term, and begins those that are new; whether any changed.
    pub(super) fn follow(&mut self, held: &[HeldLane]) -> Changed {
        let before = self.clone();
        let terms: BTreeMap<Lane, Term> = held.iter().map(|held| (held.lane, held.term)).collect();
        for cohort in &mut self.0 {
            cohort.lanes.retain(|lane, term| terms.get(lane) == Some(term));
        }
        let fresh: BTreeMap<Lane, Term> = terms.into_iter().filter(|(lane, _)| self.last(*lane).is_none()).collect();
        self.0.push(Cohort { last: 0, lanes: fresh });
        self.settle();
        if *self == before { Changed::No } else { Changed::Yes }
    }

    /// Reads every lane from its beginning.
    pub(super) fn restart(&mut self) {
        for cohort in &mut self.0 {
            cohort.last = 0;
        }
        self.settle();
    }

    /// Up to where a lane has been read, if it is held.
    pub(super) fn last(&self, lane: Lane) -> Option<i64> {
        self.0.iter().find(|cohort| cohort.lanes.contains_key(&lane)).map(|cohort| cohort.last)
    }

    /// Up to where each lane has been read.
    pub(super) fn reached(&self) -> BTreeMap<Lane, RowId> {
        let lanes = |cohort: &Cohort| cohort.lanes.keys().map(|lane| (*lane, RowId(cohort.last))).collect::<Vec<_>>();
        self.0.iter().flat_map(lanes).collect()
    }

    /// The highest row that any lane has been read up to.
    pub(super) fn highest(&self) -> i64 {
        self.0.last().map_or(0, |cohort| cohort.last)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Cohort> {
        self.0.get(index)
    }

    /// Where the cohort at `index` meets the next one, if there is one.
    pub(super) fn meets(&self, index: usize) -> Option<i64> {
        self.0.get(index + 1).map(|cohort| cohort.last)
    }

    /// Moves the cohort at `index` on; [`settle`](Self::settle) must follow when all have been moved.
    pub(super) fn advance(&mut self, index: usize, last: i64) {
        if let Some(cohort) = self.0.get_mut(index) {
            cohort.last = cohort.last.max(last);
        }
    }

    /// Orders the cohorts and joins those that have met.
    pub(super) fn settle(&mut self) {
        self.0.retain(|cohort| !cohort.lanes.is_empty());
        self.0.sort_by_key(|cohort| cohort.last);
        self.0.dedup_by(|later, kept| {
            let met = later.last == kept.last;
            if met {
                kept.lanes.append(&mut later.lanes);
            }
            met
        });
    }
}

/// Whether the lanes are other than they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    /// They are the same.
    No,
    /// Some came or went.
    Yes,
}

#[cfg(test)]
mod tests {
    use postrider_core::Start;

    use super::*;

    fn held(lane: u16, term: i64) -> HeldLane {
        HeldLane { lane: Lane(lane), term: Term(term), start: Start::Clean }
    }

    #[test]
    fn a_new_lane_walks_alone_and_joins_the_others_where_they_meet() {
        let mut cohorts = Cohorts::default();
        assert_eq!(cohorts.follow(&[held(0, 1)]), Changed::Yes);
        cohorts.advance(0, 50);
        assert_eq!(cohorts.follow(&[held(0, 1)]), Changed::No);
        assert_eq!(cohorts.follow(&[held(0, 1), held(1, 1)]), Changed::Yes);
        assert_eq!((cohorts.last(Lane(0)), cohorts.last(Lane(1))), (Some(50), Some(0)));
        assert_eq!(cohorts.meets(0), Some(50));
        cohorts.advance(0, 50);
        cohorts.settle();
        assert_eq!(cohorts.len(), 1);
    }

    #[test]
    fn a_lane_under_another_term_is_new_and_a_lane_not_held_is_forgotten() {
        let mut cohorts = Cohorts::default();
        cohorts.follow(&[held(0, 1), held(1, 1)]);
        cohorts.advance(0, 50);
        assert_eq!(cohorts.follow(&[held(0, 2)]), Changed::Yes);
        assert_eq!((cohorts.last(Lane(0)), cohorts.last(Lane(1))), (Some(0), None));
    }
}
