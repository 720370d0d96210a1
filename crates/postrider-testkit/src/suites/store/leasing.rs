//! Members and lanes.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Lane, Leases, RelayId, Renewal, Start};
use uuid::Uuid;

use super::bench::LONG;
use super::{LANES, StoreHarness};

const SHORT: Duration = Duration::from_millis(300);

fn fresh() -> RelayId {
    RelayId(Uuid::now_v7())
}

async fn leases(harness: &dyn StoreHarness) -> Box<dyn Leases> {
    harness.store().leases().await.unwrap()
}

/// Somebody who never joined gets nothing.
pub async fn only_a_member_acquires_lanes(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    assert!(leases.acquire(fresh(), LANES).await.unwrap().is_empty());
    let expired = fresh();
    leases.join(expired, "expired", Duration::from_millis(1)).await.unwrap();
    harness.pass(Duration::from_millis(50)).await;
    assert!(leases.acquire(expired, LANES).await.unwrap().is_empty());
}

/// What is owned is not free.
pub async fn a_lane_is_acquired_once(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (one, two) = (fresh(), fresh());
    leases.join(one, "one", LONG).await.unwrap();
    leases.join(two, "two", LONG).await.unwrap();
    let mine = leases.acquire(one, 3).await.unwrap();
    assert_eq!(mine.len(), 3);
    assert!(mine.iter().all(|held| held.start == Start::Clean), "never owned before");
    assert_eq!(leases.acquire(two, u16::MAX).await.unwrap().len(), usize::from(LANES) - 3);
    assert!(leases.acquire(one, u16::MAX).await.unwrap().is_empty());
    assert!(leases.acquire(two, 0).await.unwrap().is_empty());
}

/// The trap of the obvious statement.
pub async fn two_acquirers_at_once_never_share_a_lane(harness: &dyn StoreHarness) {
    for _ in 0..10 {
        let (one, two) = (fresh(), fresh());
        let (mut first, mut second) = (leases(harness).await, leases(harness).await);
        first.join(one, "one", LONG).await.unwrap();
        second.join(two, "two", LONG).await.unwrap();
        let (mine, theirs) = tokio::join!(first.acquire(one, u16::MAX), second.acquire(two, u16::MAX));
        let (mine, theirs) = (mine.unwrap(), theirs.unwrap());
        let lanes: BTreeSet<Lane> = mine.iter().chain(&theirs).map(|held| held.lane).collect();
        assert_eq!(lanes.len(), mine.len() + theirs.len(), "a lane has two owners");
        first.leave(one).await.unwrap();
        second.leave(two).await.unwrap();
    }
}

/// The database issues them.
pub async fn terms_increase_with_every_owner(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let mut last = None;
    for _ in 0..3 {
        let me = fresh();
        leases.join(me, "me", LONG).await.unwrap();
        let held = leases.acquire(me, u16::MAX).await.unwrap();
        let term = held.iter().find(|held| held.lane == Lane(0)).unwrap().term;
        assert!(last < Some(term), "{last:?} then {term:?}");
        last = Some(term);
        assert_eq!(leases.release(me, &held).await.unwrap().len(), held.len());
        leases.leave(me).await.unwrap();
    }
}

/// Eviction frees the lanes, and the renewal says so.
pub async fn an_evicted_member_is_told(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (dying, other) = (fresh(), fresh());
    leases.join(other, "other", LONG).await.unwrap();
    leases.join(dying, "dying", SHORT).await.unwrap();
    assert_eq!(leases.acquire(dying, 2).await.unwrap().len(), 2);
    assert_eq!(leases.evict().await.unwrap(), 0, "its lease stands");
    harness.pass(SHORT + Duration::from_millis(10)).await;
    assert_eq!(leases.evict().await.unwrap(), 2);
    assert_eq!(leases.evict().await.unwrap(), 0);
    assert_eq!(leases.renew(dying, LONG).await.unwrap(), Renewal::Evicted);
    assert_eq!(leases.renew(other, LONG).await.unwrap(), Renewal::Renewed);
    assert_eq!(leases.acquire(other, u16::MAX).await.unwrap().len(), usize::from(LANES));
}

/// Heartbeats count.
pub async fn a_renewed_member_is_not_evicted(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let me = fresh();
    leases.join(me, "me", SHORT).await.unwrap();
    leases.acquire(me, u16::MAX).await.unwrap();
    assert_eq!(leases.renew(me, LONG).await.unwrap(), Renewal::Renewed);
    harness.pass(SHORT + Duration::from_millis(10)).await;
    assert_eq!(leases.evict().await.unwrap(), 0);
}

/// Nobody said that its messages were safe.
pub async fn a_lane_after_an_unclean_end_starts_carefully(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (dying, heir) = (fresh(), fresh());
    leases.join(dying, "dying", SHORT).await.unwrap();
    let before = leases.acquire(dying, u16::MAX).await.unwrap();
    harness.pass(SHORT + Duration::from_millis(10)).await;
    leases.evict().await.unwrap();
    leases.join(heir, "heir", LONG).await.unwrap();
    let after = leases.acquire(heir, u16::MAX).await.unwrap();
    assert_eq!(after.len(), usize::from(LANES));
    for held in after {
        let old = before.iter().find(|old| old.lane == held.lane).unwrap();
        assert!(held.term > old.term && held.start == Start::Careful, "{held:?}");
    }
}

/// A release says so.
pub async fn a_released_lane_starts_cleanly(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (one, two) = (fresh(), fresh());
    leases.join(one, "one", LONG).await.unwrap();
    leases.join(two, "two", LONG).await.unwrap();
    let held = leases.acquire(one, 2).await.unwrap();
    let mut released = leases.release(one, &held).await.unwrap();
    released.sort_unstable();
    let mut expected: Vec<Lane> = held.iter().map(|held| held.lane).collect();
    expected.sort_unstable();
    assert_eq!(released, expected);
    let taken = leases.acquire(two, u16::MAX).await.unwrap();
    assert!(taken.iter().all(|held| held.start == Start::Clean), "{taken:?}");
}

/// Whoever gives a lane back before it was looked through leaves that to the next one.
pub async fn a_lane_released_during_its_careful_start_starts_carefully_again(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (dying, heir) = (fresh(), fresh());
    leases.join(dying, "dying", SHORT).await.unwrap();
    assert_eq!(leases.acquire(dying, u16::MAX).await.unwrap().len(), usize::from(LANES));
    harness.pass(SHORT + Duration::from_millis(10)).await;
    leases.evict().await.unwrap();
    leases.join(heir, "heir", LONG).await.unwrap();
    let mut held = leases.acquire(heir, u16::MAX).await.unwrap();
    held[0].start = Start::Clean;
    assert_eq!(leases.release(heir, &held).await.unwrap().len(), held.len());
    for again in leases.acquire(heir, u16::MAX).await.unwrap() {
        let left = held.iter().find(|held| held.lane == again.lane).unwrap().start;
        assert_eq!(again.start, left, "{again:?}");
    }
}

/// Releasing is for owners.
pub async fn a_lane_of_somebody_else_is_not_released(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (one, two) = (fresh(), fresh());
    leases.join(one, "one", LONG).await.unwrap();
    leases.join(two, "two", LONG).await.unwrap();
    let held = leases.acquire(one, 1).await.unwrap();
    assert!(leases.release(two, &held).await.unwrap().is_empty());
    assert_eq!(leases.release(one, &held).await.unwrap(), [held[0].lane]);
}

/// A release on a connection that was given up may come late.
pub async fn a_release_under_an_older_term_releases_nothing(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let me = fresh();
    leases.join(me, "me", LONG).await.unwrap();
    let before = leases.acquire(me, u16::MAX).await.unwrap();
    assert_eq!(leases.release(me, &before).await.unwrap().len(), before.len());
    let after = leases.acquire(me, u16::MAX).await.unwrap();
    assert!(leases.release(me, &before).await.unwrap().is_empty(), "the term in the statement is not looked at");
    let mut owned = leases.owned(me).await.unwrap();
    owned.sort_by_key(|held| held.lane);
    assert_eq!(owned, after);
}

/// What an even share is made from.
pub async fn the_living_members_are_known_in_the_order_of_their_ids(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    assert!(leases.members().await.unwrap().is_empty());
    let mut members: Vec<RelayId> = (0..5).map(|_| RelayId(Uuid::new_v4())).collect();
    for me in &members {
        leases.join(*me, "same", LONG).await.unwrap();
    }
    leases.join(fresh(), "dying", SHORT).await.unwrap();
    harness.pass(SHORT + Duration::from_millis(10)).await;
    members.sort_unstable();
    assert_eq!(leases.members().await.unwrap(), members, "one that has expired does not count, evicted or not");
    leases.leave(members.remove(0)).await.unwrap();
    assert_eq!(leases.members().await.unwrap(), members);
}

/// An acquisition may have taken effect although nobody heard of it.
pub async fn a_member_can_ask_what_it_owns_and_how_that_was_left(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (dying, heir) = (fresh(), fresh());
    leases.join(dying, "dying", SHORT).await.unwrap();
    assert_eq!(leases.acquire(dying, 2).await.unwrap().len(), 2);
    harness.pass(SHORT + Duration::from_millis(10)).await;
    leases.evict().await.unwrap();
    leases.join(heir, "heir", LONG).await.unwrap();
    assert!(leases.owned(heir).await.unwrap().is_empty());
    let mut acquired = leases.acquire(heir, u16::MAX).await.unwrap();
    acquired.sort_by_key(|held| held.lane);
    let careful = acquired.iter().filter(|held| held.start == Start::Careful).count();
    assert_eq!((acquired.len(), careful), (usize::from(LANES), 2));
    assert_eq!(leases.owned(heir).await.unwrap(), acquired, "it says the same as the answer to the acquisition");
    assert!(leases.owned(dying).await.unwrap().is_empty());
}

/// Lanes never stay with a name that is gone.
pub async fn a_member_that_leaves_frees_its_lanes(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (one, two) = (fresh(), fresh());
    leases.join(one, "one", LONG).await.unwrap();
    leases.acquire(one, u16::MAX).await.unwrap();
    leases.leave(one).await.unwrap();
    assert_eq!(leases.renew(one, LONG).await.unwrap(), Renewal::Evicted);
    leases.join(two, "two", LONG).await.unwrap();
    leases.evict().await.unwrap();
    assert_eq!(leases.acquire(two, u16::MAX).await.unwrap().len(), usize::from(LANES));
}

/// A name is a label.
pub async fn two_relays_of_one_name_are_two_members(harness: &dyn StoreHarness) {
    let mut leases = leases(harness).await;
    let (one, two) = (fresh(), fresh());
    leases.join(one, "same", LONG).await.unwrap();
    leases.join(two, "same", LONG).await.unwrap();
    assert_eq!(leases.acquire(one, 2).await.unwrap().len(), 2);
    assert_eq!(leases.acquire(two, 2).await.unwrap().len(), 2);
    let mut operator = harness.store().operator().await.unwrap();
    assert_eq!(operator.status(10).await.unwrap().members.len(), 2);
}
