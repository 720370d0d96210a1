//! How many lanes are mine, which of them are surplus, and which may be released.
//!
//! Every member decides for itself from the same list of living members, and only ever gives away what it holds or
//! takes what is free: two members that see different lists for a moment share unevenly for a moment, and no more.

use std::collections::BTreeMap;

use crate::lane::{HeldLane, Lane, LaneCount, RelayId};

/// The share of one member: the lanes divided by the members, rounded down, and one more for the first ones by the
/// order of their ids, so that all lanes are given out and no two shares differ by more than one.
///
/// None for a relay that is not among the living.
pub fn share(me: RelayId, living: &[RelayId], lanes: LaneCount) -> Option<u16> {
    let rank = living.iter().filter(|other| **other < me).count();
    let members = living.contains(&me).then_some(living.len())?;
    let lanes = usize::from(lanes.get());
    let share = lanes / members + usize::from(rank < lanes % members);
    u16::try_from(share).ok()
}

/// What a member does to come to its share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Balance {
    /// So many free lanes are to be taken.
    pub take: u16,
    /// These lanes are to be handed back: nothing more is read of them, and what is on its way is settled first.
    pub hand_back: Vec<HeldLane>,
}

/// What a member did not know about its lanes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Lanes that were not known to be its own, whose acquisition was never answered.
    pub gained: Vec<HeldLane>,
    /// Lanes that belong to somebody else now.
    pub lost: Vec<Lane>,
}

/// How far a lane is on its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// It is kept.
    Kept,
    /// Its messages are being settled.
    Leaving,
    /// Nothing of it is on its way any more: it may be released.
    Done,
}

/// The lanes of one membership.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holdings {
    me: RelayId,
    lanes: BTreeMap<Lane, (HeldLane, Stage)>,
}

impl Holdings {
    /// A membership that holds nothing yet.
    pub const fn new(me: RelayId) -> Self {
        Self { me, lanes: BTreeMap::new() }
    }

    /// Whose they are.
    pub const fn me(&self) -> RelayId {
        self.me
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Every lane that was not released yet, in order.
    pub fn all(&self) -> Vec<HeldLane> {
        self.lanes.values().map(|(held, _)| *held).collect()
    }

    /// Lanes were acquired.
    pub fn gain(&mut self, gained: &[HeldLane]) {
        self.lanes.extend(gained.iter().map(|held| (held.lane, (*held, Stage::Kept))));
    }

    /// Compares what is kept with the share. Surplus lanes, the highest first, are on their way back from now on.
    pub fn balance(&mut self, living: &[RelayId], lanes: LaneCount) -> Balance {
        let Some(share) = share(self.me, living, lanes) else { return Balance::default() };
        let kept: Vec<Lane> =
            self.lanes.values().filter(|(_, stage)| *stage == Stage::Kept).map(|(held, _)| held.lane).collect();
        let mut balance = Balance::default();
        for lane in kept.iter().skip(usize::from(share)) {
            if let Some((held, stage)) = self.lanes.get_mut(lane) {
                *stage = Stage::Leaving;
                balance.hand_back.push(*held);
            }
        }
        balance.take = share.saturating_sub(u16::try_from(kept.len()).unwrap_or(u16::MAX));
        balance
    }

    /// Nothing of this lane is on its way any more, or it turned out to be somebody else's: it may be released, with the
    /// start that it has here. A lane that was acquired again since then, under another term, is left alone.
    pub fn done(&mut self, with: HeldLane) {
        if let Some((held, stage)) = self.lanes.get_mut(&with.lane).filter(|(held, _)| held.term == with.term) {
            (*held, *stage) = (with, Stage::Done);
        }
    }

    /// The lanes that may be released.
    pub fn releasable(&self) -> Vec<HeldLane> {
        self.lanes.values().filter(|(_, stage)| *stage == Stage::Done).map(|(held, _)| *held).collect()
    }

    /// The release of these lanes was answered: whatever the answer, they are not held any more.
    pub fn released(&mut self, lanes: &[HeldLane]) {
        for released in lanes {
            self.lanes.retain(|_, (held, _)| (held.lane, held.term) != (released.lane, released.term));
        }
    }

    /// Compares what is known with what the lease tables say, after a statement that was not answered, and now and
    /// then: a statement on a connection that was given up may take effect late.
    pub fn reconcile(&mut self, owned: &[HeldLane]) -> Difference {
        let is_owned = |known: &HeldLane| owned.iter().any(|own| (own.lane, own.term) == (known.lane, known.term));
        let mut difference = Difference::default();
        for (held, stage) in self.lanes.values().filter(|(held, _)| !is_owned(held)) {
            if *stage != Stage::Done {
                difference.lost.push(held.lane);
            }
        }
        self.lanes.retain(|_, (held, _)| is_owned(held));
        difference.gained = owned.iter().filter(|own| !self.lanes.contains_key(&own.lane)).copied().collect();
        self.gain(&difference.gained.clone());
        difference
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::lane::{Start, Term};

    fn member(n: u128) -> RelayId {
        RelayId(Uuid::from_u128(n))
    }

    fn members(n: u128) -> Vec<RelayId> {
        (0..n).map(member).collect()
    }

    fn count(lanes: u16) -> LaneCount {
        LaneCount::new(lanes).unwrap()
    }

    fn held(lane: u16, term: i64) -> HeldLane {
        HeldLane { lane: Lane(lane), term: Term(term), start: Start::Clean }
    }

    #[test]
    fn a_lane_is_released_as_the_machine_left_it_and_not_as_it_was_acquired() {
        let careful = |lane: u16| HeldLane { start: Start::Careful, ..held(lane, 1) };
        let mut holdings = Holdings::new(member(0));
        holdings.gain(&[careful(0), careful(1), held(2, 1)]);
        holdings.done(held(0, 1));
        holdings.done(careful(2));
        assert_eq!(holdings.releasable(), [held(0, 1), careful(2)]);
        assert_eq!(holdings.all(), [held(0, 1), careful(1), careful(2)], "of one nothing was said");
    }

    fn of(me: RelayId, lanes: u16) -> Holdings {
        let mut holdings = Holdings::new(me);
        holdings.gain(&(0..lanes).map(|lane| held(lane, 1)).collect::<Vec<_>>());
        holdings
    }

    #[test]
    fn the_shares_of_all_members_are_all_lanes_and_differ_by_one_at_most() {
        for lanes in [1, 2, 7, 8, 63, 64, 65, 4_096] {
            for n in 1..=20_u16 {
                let living = members(u128::from(n));
                let shares: Vec<u16> = living.iter().map(|me| share(*me, &living, count(lanes)).unwrap()).collect();
                assert_eq!(shares.iter().sum::<u16>(), lanes, "{n} members: {shares:?}");
                let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
                assert!(most - least <= 1, "{n} members: {shares:?}");
                assert!(shares.is_sorted_by(|one, next| one >= next), "the first by their ids get one more");
            }
        }
    }

    #[test]
    fn a_newcomer_with_the_last_id_takes_the_only_lane_from_nobody() {
        assert_eq!(share(member(0), &members(2), LaneCount::ONE), Some(1));
        assert_eq!(share(member(1), &members(2), LaneCount::ONE), Some(0));
    }

    #[test]
    fn who_is_not_among_the_living_has_no_share_and_does_nothing() {
        assert_eq!(share(member(9), &members(2), count(8)), None);
        assert_eq!(share(member(9), &[], count(8)), None);
        assert_eq!(of(member(9), 8).balance(&members(2), count(8)), Balance::default());
    }

    #[test]
    fn the_surplus_is_handed_back_once_and_what_is_missing_is_taken() {
        let mut holdings = of(member(0), 8);
        let balance = holdings.balance(&members(3), count(8));
        let lanes: Vec<_> = balance.hand_back.iter().map(|held| held.lane.0).collect();
        assert_eq!((balance.take, lanes), (0, vec![3, 4, 5, 6, 7]));
        assert_eq!(holdings.balance(&members(3), count(8)), Balance::default(), "they are on their way");
        let balance = holdings.balance(&members(2), count(8));
        assert_eq!((balance.take, balance.hand_back), (1, Vec::new()), "of three living members one is gone");
        assert!(holdings.releasable().is_empty());
    }

    #[test]
    fn a_lane_is_released_when_the_machine_is_done_with_it_and_not_before() {
        let mut holdings = of(member(0), 2);
        holdings.balance(&members(2), count(2));
        assert!(holdings.releasable().is_empty(), "its messages are still on their way");
        holdings.done(held(1, 1));
        assert_eq!(holdings.releasable(), [held(1, 1)]);
        holdings.released(&[held(1, 1)]);
        assert_eq!(holdings.all(), [held(0, 1)]);
        assert_eq!(holdings.balance(&members(1), count(2)).take, 1);
    }

    #[test]
    fn what_was_said_of_an_earlier_term_does_not_touch_a_lane_that_was_acquired_again() {
        let mut holdings = of(member(0), 2);
        holdings.gain(&[held(1, 5)]);
        holdings.done(held(1, 1));
        assert!(holdings.releasable().is_empty());
        holdings.released(&[held(1, 1)]);
        assert_eq!(holdings.all(), [held(0, 1), held(1, 5)]);
    }

    #[test]
    fn lanes_acquired_without_an_answer_are_gained_and_lanes_of_others_are_lost() {
        let mut holdings = of(member(0), 3);
        holdings.done(held(2, 1));
        let difference = holdings.reconcile(&[held(0, 1), held(1, 7), held(5, 2)]);
        assert_eq!(difference.lost, [Lane(1)], "under another term it is another lease; the done one was released");
        assert_eq!(difference.gained, [held(1, 7), held(5, 2)]);
        assert_eq!(holdings.all(), [held(0, 1), held(1, 7), held(5, 2)]);
        assert_eq!(holdings.reconcile(&holdings.all()), Difference::default());
    }

    #[test]
    fn a_lane_that_is_to_be_released_and_was_not_stays_so() {
        let mut holdings = of(member(0), 1);
        holdings.done(held(0, 1));
        assert_eq!(holdings.reconcile(&[held(0, 1)]), Difference::default());
        assert_eq!(holdings.releasable(), [held(0, 1)]);
    }

    #[test]
    fn who_released_everything_holds_nothing() {
        let mut holdings = of(member(0), 1);
        assert!(!holdings.is_empty());
        holdings.released(&[held(0, 1)]);
        assert!(holdings.is_empty());
    }
}
