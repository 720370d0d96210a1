//! The rules of a lease: who owns a lane, who may settle in it, and how long a relay may trust its lease.
//!
//! A store in memory keeps these records as they are; a database has the same rules in its statements.

use std::time::Duration;

use crate::lane::{HeldLane, Lane, RelayId, Start, Term};
use crate::tick::Tick;

/// A lane as the lane table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaneRecord {
    /// Who may relay it.
    pub owner: Option<RelayId>,
    /// The term of the last acquisition; 0 before the first.
    pub term: Term,
    /// Whether the last owner gave it back, with everything it had sent settled and nothing left to be careful of.
    pub clean: bool,
    /// How it was left before the present owner came; clean where there is none.
    pub start: Start,
}

impl LaneRecord {
    /// A lane that nobody ever owned.
    pub const NEW: Self = Self { owner: None, term: Term(0), clean: true, start: Start::Clean };

    /// The lane goes to `me` under a new term, if it is free; it counts as left in disorder until it is released.
    pub fn acquire(&mut self, lane: Lane, me: RelayId) -> Option<HeldLane> {
        if self.owner.is_some() {
            return None;
        }
        let start = if self.clean { Start::Clean } else { Start::Careful };
        *self = Self { owner: Some(me), term: Term(self.term.0.saturating_add(1)), clean: false, start };
        Some(self.held(lane))
    }

    /// The lease of the present owner.
    pub const fn held(&self, lane: Lane) -> HeldLane {
        HeldLane { lane, term: self.term, start: self.start }
    }

    /// The owner gives the lane back, and says how its next owner is to start; whether it was still `me` who held it,
    /// under this term. A release that takes effect late leaves a lane alone that was acquired again.
    pub fn release(&mut self, me: RelayId, held: HeldLane) -> bool {
        let mine = self.admits(me, held.term);
        if mine {
            *self = Self { owner: None, clean: held.start == Start::Clean, start: Start::Clean, ..*self };
        }
        mine
    }

    /// The owner is no member any more: the lane is free, and its next owner starts carefully.
    pub fn free(&mut self) {
        (self.owner, self.start) = (None, Start::Clean);
    }

    /// The fence: whether `me` may record outcomes in this lane, under the term at which it read the rows.
    pub fn admits(&self, me: RelayId, term: Term) -> bool {
        self.owner == Some(me) && self.term == term
    }
}

/// Until when a relay may rely on a lease of length `ttl`, by its own clock.
///
/// The lease began when the database took the renewal in, which is no earlier than it was `sent`; when the answer came
/// says nothing. A tenth of the lease is kept as a margin for clocks that do not run alike.
pub fn trusted_until(sent: Tick, ttl: Duration) -> Tick {
    sent + (ttl - ttl / 10)
}

/// The longest wait after a lease statement that failed.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// How long a relay waits before it tries again, after a renewal or another statement of a lease of length `ttl` failed:
/// a twelfth of the lease, 250 ms at most.
///
/// A renewal is sent every third of the lease, so that seven tries fit between the first that fails and the end of the
/// trust: an outage that meets one of them is not met by all the others.
pub fn try_again_after(ttl: Duration) -> Duration {
    (ttl / 12).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const FIRST: RelayId = RelayId(Uuid::from_u128(1));
    const SECOND: RelayId = RelayId(Uuid::from_u128(2));
    const LANE: Lane = Lane(3);

    #[test]
    fn a_lane_has_one_owner_and_a_new_term_each_time() {
        let mut record = LaneRecord::NEW;
        let first = record.acquire(LANE, FIRST).unwrap();
        assert_eq!((first.term, first.start), (Term(1), Start::Clean));
        assert_eq!(record.acquire(LANE, SECOND), None);
        record.free();
        let second = record.acquire(LANE, SECOND).unwrap();
        assert_eq!((second.term, second.start), (Term(2), Start::Careful), "nobody gave it back");
        assert!(record.release(SECOND, HeldLane { start: Start::Clean, ..second }));
        assert_eq!(record.acquire(LANE, FIRST).map(|held| held.start), Some(Start::Clean));
    }

    #[test]
    fn a_lane_is_handed_on_as_carefully_as_its_owner_left_it() {
        let mut record = LaneRecord::NEW;
        record.acquire(LANE, FIRST).unwrap();
        record.free();
        let second = record.acquire(LANE, SECOND).unwrap();
        assert!(record.release(SECOND, second), "before it was looked through");
        let third = record.acquire(LANE, FIRST).unwrap();
        assert_eq!((third.start, record.held(LANE)), (Start::Careful, third));
    }

    #[test]
    fn a_release_that_comes_late_leaves_a_lane_alone_that_was_acquired_again() {
        let mut record = LaneRecord::NEW;
        let first = record.acquire(LANE, FIRST).unwrap();
        assert!(record.release(FIRST, first));
        let again = record.acquire(LANE, FIRST).unwrap();
        assert!(!record.release(FIRST, first) && record.admits(FIRST, again.term));
    }

    #[test]
    fn the_fence_asks_for_owner_and_term() {
        let mut record = LaneRecord::NEW;
        let first = record.acquire(LANE, FIRST).unwrap();
        assert!(record.admits(FIRST, first.term) && !record.admits(SECOND, first.term));
        assert!(!record.release(SECOND, first) && record.release(FIRST, first));
        assert!(!record.admits(FIRST, first.term));
        record.acquire(LANE, FIRST).unwrap();
        assert!(!record.admits(FIRST, first.term), "the same owner, under another term");
    }

    #[test]
    fn trust_ends_before_the_lease() {
        let sent = Tick::after_start(Duration::from_secs(7));
        assert_eq!(trusted_until(sent, Duration::from_secs(10)), sent + Duration::from_secs(9));
    }

    #[test]
    fn a_renewal_that_failed_is_tried_again_several_times_before_trust_ends() {
        for (lease, wait) in [(500, 41), (1_200, 100), (3_000, 250), (60_000, 250)] {
            let ttl = Duration::from_millis(lease);
            let found = try_again_after(ttl);
            assert_eq!(found.as_millis(), wait, "of a lease of {ttl:?}");
            let sent = Tick::ZERO;
            assert!(sent + ttl / 3 + found * 6 < trusted_until(sent, ttl), "{ttl:?}");
        }
    }

    #[test]
    fn a_lane_that_was_given_back_says_nothing_of_how_its_owner_began() {
        let mut record = LaneRecord { clean: false, ..LaneRecord::NEW };
        let careful = record.acquire(LANE, FIRST).unwrap();
        assert_eq!(careful.start, Start::Careful);
        assert!(record.release(FIRST, careful));
        assert_eq!(record, LaneRecord { term: Term(1), clean: false, ..LaneRecord::NEW });
    }
}
