//! How far each lane has been read: cohorts of lanes that share their snapshots.

use std::collections::BTreeMap;

use postrider_core::{HeldLane, Lane, LaneCount, RowId, Term};

use super::snapshot::Snapshot;

/// A read that did not fit one page and goes on by primary key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Walk {
    /// Rows visible here are to be read.
    pub(super) until: Snapshot,
    /// The last id taken.
    pub(super) last: i64,
    /// The last id there can be, where the walk goes in spans.
    pub(super) end: i64,
}

/// Lanes that have been read up to the same point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cohort {
    /// The lanes and the terms under which they are read.
    pub(super) lanes: BTreeMap<Lane, Term>,
    /// P: everything visible here was read. None for lanes that are new: their whole backlog is to be read.
    pub(super) read: Option<Snapshot>,
    /// The walk that is under way, towards the next P.
    pub(super) walk: Option<Walk>,
}

impl Cohort {
    /// The lanes as a parameter.
    pub(super) fn bits(&self) -> Vec<u8> {
        bits(&self.lanes)
    }
}

/// Lanes that are read up to date, and the point that each of them is read up to at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AtRest {
    pub(super) lanes: BTreeMap<Lane, Term>,
    /// The oldest P among them.
    pub(super) read: Snapshot,
}

impl AtRest {
    /// The lanes as a parameter.
    pub(super) fn bits(&self) -> Vec<u8> {
        bits(&self.lanes)
    }
}

/// A bit for each lane that there can be, as `get_bit` counts them.
fn bits(lanes: &BTreeMap<Lane, Term>) -> Vec<u8> {
    let mut bits = vec![0; usize::from(LaneCount::MAX / 8)];
    for lane in lanes.keys() {
        if let Some(byte) = bits.get_mut(usize::from(lane.0 / 8)) {
            *byte |= 1 << (lane.0 % 8);
        }
    }
    bits
}

/// All lanes of a relay.
#[derive(Debug, Default)]
pub(super) struct Cohorts {
    /// The cohorts; the next read begins with the first.
    pub(super) list: Vec<Cohort>,
}

impl Cohorts {
    /// Forgets lanes that are not held any more, or under another term, and adds those that are new.
    pub(super) fn follow(&mut self, held: &[HeldLane]) {
        let mut fresh: BTreeMap<Lane, Term> = held.iter().map(|held| (held.lane, held.term)).collect();
        for cohort in &mut self.list {
            cohort.lanes.retain(|lane, term| {
                let known = fresh.get(lane) == Some(term);
                if known {
                    fresh.remove(lane);
                }
                known
            });
        }
        self.list.retain(|cohort| !cohort.lanes.is_empty());
        if !fresh.is_empty() {
            self.list.push(Cohort { lanes: fresh, read: None, walk: None });
        }
    }

    /// Forgets how far anything was read.
    pub(super) fn forget(&mut self) {
        self.list.clear();
    }

    /// Puts lanes that are up to the same point into one cohort, and the next cohort first.
    pub(super) fn settle(&mut self) {
        let mut merged: Vec<Cohort> = Vec::with_capacity(self.list.len());
        for cohort in self.list.drain(..) {
            let same = merged.iter_mut().find(|known| {
                known.walk.is_none() && cohort.walk.is_none() && known.read.is_some() && known.read == cohort.read
            });
            match same {
                Some(known) => known.lanes.extend(cohort.lanes),
                None => merged.push(cohort),
            }
        }
        if merged.len() > 1 {
            merged.rotate_left(1);
        }
        self.list = merged;
    }

    /// Whether time went backwards since anything was read.
    pub(super) fn are_ahead_of(&self, now: &Snapshot) -> bool {
        let ahead = |snapshot: &Snapshot| now.is_behind(snapshot);
        self.list.iter().any(|cohort| {
            cohort.read.as_ref().is_some_and(ahead) || cohort.walk.as_ref().is_some_and(|walk| ahead(&walk.until))
        })
    }

    /// How far each lane is read from its beginning: of one whose backlog is read, everything.
    pub(super) fn reached(&self) -> BTreeMap<Lane, RowId> {
        let last = |cohort: &Cohort| match (&cohort.read, &cohort.walk) {
            (Some(_), _) => RowId(i64::MAX),
            (None, walk) => RowId(walk.as_ref().map_or(0, |walk| walk.last)),
        };
        self.list.iter().flat_map(|cohort| cohort.lanes.keys().map(move |lane| (*lane, last(cohort)))).collect()
    }

    /// The snapshot that the first walk goes towards, while every cohort is walked.
    pub(super) fn walks_towards(&self) -> Option<&Snapshot> {
        let all = self.list.iter().all(|cohort| cohort.walk.is_some());
        self.list.first().filter(|_| all).and_then(|first| first.walk.as_ref()).map(|walk| &walk.until)
    }

    /// Those of these lanes that are read up to date, which none is while it is walked or new, and the oldest P among them.
    pub(super) fn at_rest(&self, lanes: &[HeldLane]) -> Option<AtRest> {
        let mut at_rest: Option<AtRest> = None;
        for cohort in self.list.iter().filter(|cohort| cohort.walk.is_none()) {
            let wanted = lanes.iter().filter(|held| cohort.lanes.contains_key(&held.lane));
            let wanted: BTreeMap<Lane, Term> = wanted.map(|held| (held.lane, held.term)).collect();
            let (Some(read), false) = (&cohort.read, wanted.is_empty()) else { continue };
            match &mut at_rest {
                Some(known) => {
                    known.lanes.extend(wanted);
                    if read.is_older_than(&known.read) {
                        known.read = read.clone();
                    }
                }
                None => at_rest = Some(AtRest { lanes: wanted, read: read.clone() }),
            }
        }
        at_rest
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::Start;

    use super::*;

    fn held(lane: u16, term: i64) -> HeldLane {
        HeldLane { lane: Lane(lane), term: Term(term), start: Start::Clean }
    }

    fn at(text: &str) -> Option<Snapshot> {
        Some(Snapshot::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn a_lane_that_comes_or_comes_back_under_another_term_is_read_from_its_beginning() {
        let mut cohorts = Cohorts::default();
        cohorts.follow(&[held(1, 1), held(2, 1)]);
        cohorts.list[0].read = at("5:5:");
        cohorts.follow(&[held(1, 1), held(2, 2), held(3, 1)]);
        assert_eq!(cohorts.list.len(), 2);
        let at_rest = cohorts.at_rest(&[held(1, 1), held(2, 2), held(3, 1)]).unwrap();
        assert_eq!(at_rest.lanes.into_keys().collect::<Vec<_>>(), [Lane(1)]);
    }

    #[test]
    fn lanes_at_rest_are_read_up_to_the_oldest_point_among_them_and_others_do_not_count() {
        let mut cohorts = Cohorts::default();
        for lane in 1..=4 {
            cohorts.follow(&(1..=lane).map(|lane| held(lane, 1)).collect::<Vec<_>>());
        }
        for (cohort, point) in cohorts.list.iter_mut().zip(["6:7:", "6:7:6", "4:4:", "5:5:"]) {
            cohort.read = at(point);
        }
        cohorts.list[2].walk = at("9:9:").map(|until| Walk { until, last: 0, end: 0 });
        let some = cohorts.at_rest(&[held(1, 1), held(2, 1), held(3, 1)]).unwrap();
        assert_eq!(some.lanes.into_keys().collect::<Vec<_>>(), [Lane(1), Lane(2)]);
        assert_eq!(Some(some.read), at("6:7:6"));
        assert_eq!(cohorts.at_rest(&[held(3, 1)]), None, "it is walked");
        assert_eq!(cohorts.at_rest(&[]), None);
    }

    #[test]
    fn lanes_are_bits_that_the_database_counts_from_the_lowest_of_each_byte() {
        let mut cohorts = Cohorts::default();
        cohorts.follow(&[held(0, 1), held(9, 1), held(LaneCount::MAX - 1, 1)]);
        let bits = cohorts.list[0].bits();
        assert_eq!((bits.len(), bits[0], bits[1], bits[511]), (512, 1, 2, 128));
        assert_eq!(bits.iter().map(|byte| byte.count_ones()).sum::<u32>(), 3);
    }

    #[test]
    fn only_cohorts_at_rest_at_the_same_point_become_one() {
        let mut cohorts = Cohorts::default();
        cohorts.follow(&[held(1, 1)]);
        cohorts.follow(&[held(1, 1), held(2, 1)]);
        cohorts.settle();
        assert_eq!(cohorts.list.len(), 2, "two new cohorts are not at the same point");
        for cohort in &mut cohorts.list {
            cohort.walk = at("6:6:").map(|until| Walk { until, last: 0, end: 0 });
        }
        assert_eq!(cohorts.walks_towards(), at("6:6:").as_ref());
        cohorts.list[1].walk = None;
        assert_eq!(cohorts.walks_towards(), None, "the other one needs the present");
        cohorts.list[0].walk = None;
        for cohort in &mut cohorts.list {
            cohort.read = at("5:5:");
        }
        cohorts.settle();
        assert_eq!(cohorts.list.len(), 1);
    }
}
