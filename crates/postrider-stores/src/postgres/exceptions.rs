//! Which keys may have exceptional rows, so that in large pages only rows of these look for what stands before them: that
//! look is six times the work of everything else of a row.
//!
//! Of the lanes that are held, under their terms, a superset is known. What was exceptional when they were gained is found
//! by a walk along the index that begins after that. What becomes exceptional later is told by the settler before it
//! answers: nothing but a settle of the lane's owner makes a row of an ordinary key exceptional, but for an operator who
//! replays a dead letter that its key went past, of which no order is promised.
//!
//! A read that is sent before a settle is answered may miss what this changes. So it may without all this, because its
//! snapshot may be older: until the settle is answered the core has the rows in its window, and while any read is under
//! way that was sent before the answer it keeps the record of a key that closed, and judges by these. What is sent after
//! the answer finds the key here.
//!
//! A settle that failed may have changed anything, or may do so yet, and the walk begins anew. The core makes it again,
//! under the same lease and with the same rows, before it lets go of any of them: the answer then tells their keys,
//! whichever of the two changed them.

use postrider_core::{HeldLane, Key, Lane, Term};

use super::key_filter::KeyFilter;

/// Exceptional rows that one step of the walk passes at most: less work than the page that it precedes.
pub(super) const STEP: usize = 4_096;
/// Keys that are exceptional no more turn up so often before they are walked anew, or twice as often as the walk passed rows.
const FEW: usize = 4_096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    held: Vec<(Lane, Term)>,
    walk: Walk,
    filter: KeyFilter,
    /// Rows that the walk passed.
    found: usize,
    /// Rows before which something was expected and nothing stood.
    open: usize,
}

/// How far the keys are walked.
#[derive(Debug, Default, PartialEq, Eq)]
enum Walk {
    #[default]
    NotBegun,
    At(Place),
    Over,
    /// There are too many.
    GivenUp,
}

/// A place in the walk: a key of one of the lanes, counted from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lane: i64,
    pub(super) key: Key,
}

/// What is to be done before a page is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: the exceptional keys are known.
    Known,
    /// A step of the walk over these lanes, from this place on.
    Step(Vec<Lane>, Place),
    /// Nothing, and each row looks for what stands before it.
    Unknown,
}

impl Exceptions {
    /// Of lanes that were not held like this nothing is known.
    pub(super) fn follow(&mut self, held: &[HeldLane]) {
        let held = held.iter().map(|held| (held.lane, held.term));
        if !held.clone().eq(self.held.iter().copied()) {
            self.held = held.collect();
            self.forget();
        }
    }

    /// Anything may be exceptional.
    pub(super) fn forget(&mut self) {
        self.walk = Walk::NotBegun;
        self.filter = KeyFilter::default();
        (self.found, self.open) = (0, 0);
    }

    /// This key has, or may have, an exceptional row.
    pub(super) fn put(&mut self, key: &Key) {
        match self.walk {
            // The walk will find it.
            Walk::NotBegun | Walk::GivenUp => {}
            Walk::At(_) => self.filter.put(key),
            Walk::Over => {
                self.filter.put(key);
                if self.filter.is_crowded() {
                    self.forget();
                }
            }
        }
    }

    /// What is to be done before a page is read. From the first step on, what is put in stays.
    pub(super) fn next(&mut self) -> Next {
        if self.walk == Walk::NotBegun {
            self.walk = Walk::At(Place { lane: 1, key: Key::unchecked("") });
        }
        match &self.walk {
            Walk::At(place) => Next::Step(self.held.iter().map(|(lane, _)| *lane).collect(), place.clone()),
            Walk::Over => Next::Known,
            Walk::NotBegun | Walk::GivenUp => Next::Unknown,
        }
    }

    /// A step behind this place came through these. Whether the exceptional keys are known now: not if anything was
    /// forgotten meanwhile.
    pub(super) fn walked(&mut self, from: Place, found: Vec<Place>) -> bool {
        if self.walk != Walk::At(from) {
            return false;
        }
        found.iter().for_each(|place| self.filter.put(&place.key));
        self.found += found.len();
        let goes_on = found.len() >= STEP;
        // Behind a place that was not the last one, keys would be passed over.
        let is_sorted = found.is_sorted_by_key(|place| place.lane);
        self.walk = match found.into_iter().next_back() {
            _ if self.filter.is_crowded() || !is_sorted => {
                self.filter = KeyFilter::default();
                Walk::GivenUp
            }
            Some(last) if goes_on => Walk::At(last),
            Some(_) | None => Walk::Over,
        };
        self.walk == Walk::Over
    }

    /// Whether something may stand before a row of this key; one without a key waits for nothing. The walk of a lane begins
    /// behind the empty key, which a foreign hand may have written.
    pub(super) fn may_close(&self, key: Option<&Key>) -> bool {
        key.is_some_and(|key| self.walk != Walk::Over || key.as_str().is_empty() || self.filter.may_have(key))
    }

    /// Something was expected before so many rows, and nothing stood there. Of keys that healed, too many are kept then.
    pub(super) fn were_open(&mut self, rows: usize) {
        self.open += rows;
        if self.open > FEW.max(2 * self.found) {
            self.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::Start;

    use super::*;

    fn held(lanes: &[(u16, i64)]) -> Vec<HeldLane> {
        lanes
            .iter()
            .map(|(lane, term)| HeldLane { lane: Lane(*lane), term: Term(*term), start: Start::Clean })
            .collect()
    }

    fn key(text: &str) -> Key {
        Key::unchecked(text)
    }

    fn place(lane: i64, text: &str) -> Place {
        Place { lane, key: key(text) }
    }

    /// So many places of one lane, as many keys.
    fn places(lane: i64, number: usize) -> Vec<Place> {
        (0..number).map(|n| place(lane, &format!("k{n}"))).collect()
    }

    /// A step through these places.
    fn step(exceptions: &mut Exceptions, places: &[Place]) -> bool {
        let Next::Step(_, from) = exceptions.next() else { panic!("no step is due") };
        exceptions.walked(from, places.to_vec())
    }

    /// Two lanes, not walked.
    fn held_only() -> Exceptions {
        let mut exceptions = Exceptions::default();
        exceptions.follow(&held(&[(3, 1), (9, 1)]));
        exceptions
    }

    /// The same, walked: one has a key.
    fn known() -> Exceptions {
        let mut exceptions = held_only();
        assert!(step(&mut exceptions, &[place(1, "a")]));
        exceptions
    }

    fn closes(exceptions: &Exceptions, text: &str) -> bool {
        exceptions.may_close(Some(&key(text)))
    }

    #[test]
    fn any_key_may_be_closed_until_the_walk_is_over_and_then_those_it_found_and_those_put_in_since() {
        let (mut exceptions, lanes) = (held_only(), vec![Lane(3), Lane(9)]);
        exceptions.put(&key("ignored"));
        assert!(closes(&exceptions, "z"));
        assert_eq!(exceptions.next(), Next::Step(lanes.clone(), place(1, "")));
        exceptions.put(&key("told"));
        assert!(!step(&mut exceptions, &places(1, STEP)));
        assert_eq!(exceptions.next(), Next::Step(lanes, places(1, STEP).pop().unwrap()));
        assert!(closes(&exceptions, "z"));
        assert!(step(&mut exceptions, &[place(1, "l"), place(2, "b")]));
        assert_eq!(exceptions.next(), Next::Known);
        exceptions.put(&key("later"));
        assert!((0..STEP).all(|n| closes(&exceptions, &format!("k{n}"))));
        let found = ["l", "b", "told", "later", "", "ignored", "z"].map(|text| closes(&exceptions, text));
        assert_eq!(found, [true, true, true, true, true, false, false]);
        assert!(!exceptions.may_close(None), "without a key nothing stands before it");
    }

    #[test]
    fn another_lane_or_term_begins_anew_and_the_same_ones_do_not() {
        for other in [&[(3, 1), (9, 2)][..], &[(3, 1)], &[(3, 1), (9, 1), (10, 1)], &[]] {
            let mut exceptions = known();
            exceptions.follow(&held(&[(3, 1), (9, 1)]));
            assert!(!closes(&exceptions, "z"));
            exceptions.follow(&held(other));
            assert!(closes(&exceptions, "z"), "{other:?}");
            assert!(matches!(exceptions.next(), Next::Step(_, from) if from == place(1, "")));
        }
    }

    #[test]
    fn a_step_that_was_under_way_when_everything_was_forgotten_counts_for_nothing() {
        let mut exceptions = held_only();
        let Next::Step(_, from) = exceptions.next() else { panic!("no step is due") };
        exceptions.forget();
        assert!(!exceptions.walked(from, Vec::new()));
        assert!(closes(&exceptions, "z"));
    }

    #[test]
    fn a_step_that_does_not_ascend_ends_the_walk_and_nothing_is_known() {
        let mut exceptions = held_only();
        assert!(!step(&mut exceptions, &[place(2, "b"), place(1, "a")]));
        assert_eq!(exceptions.next(), Next::Unknown);
        assert!(closes(&exceptions, "z"));
    }

    #[test]
    fn keys_that_healed_are_walked_anew_when_they_turned_up_often() {
        let mut exceptions = known();
        exceptions.were_open(FEW);
        assert_eq!(exceptions.next(), Next::Known);
        exceptions.were_open(1);
        assert!(step(&mut exceptions, &[]));
        assert!(!closes(&exceptions, "a"));
        let mut exceptions = held_only();
        assert!(!step(&mut exceptions, &places(1, STEP)));
        assert!(step(&mut exceptions, &[]));
        exceptions.were_open(2 * STEP);
        assert_eq!(exceptions.next(), Next::Known, "twice as often as there were any");
    }

    #[test]
    fn too_many_keys_are_given_up_until_other_lanes_are_held() {
        let mut exceptions = held_only();
        let mut number = 0;
        while matches!(exceptions.next(), Next::Step(..)) {
            let places: Vec<Place> = (number..number + 100_000).map(|n| place(1, &format!("k{n}"))).collect();
            number += 100_000;
            assert!(!step(&mut exceptions, &places));
        }
        assert!((2_800_000..3_100_000).contains(&number), "{number}");
        exceptions.put(&key("k"));
        assert_eq!(exceptions.next(), Next::Unknown);
        assert!(closes(&exceptions, "z"));
        exceptions.follow(&held(&[(3, 2)]));
        assert!(matches!(exceptions.next(), Next::Step(..)));
    }

    #[test]
    fn where_what_is_told_crowds_the_filter_it_is_walked_anew() {
        let mut exceptions = known();
        let mut number = 0;
        while exceptions.walk == Walk::Over {
            exceptions.put(&key(&number.to_string()));
            number += 1;
        }
        assert!(number > 2_800_000);
        assert!(step(&mut exceptions, &[]));
        assert!(!closes(&exceptions, "5"));
    }
}
