//! What goes into one call, and what waits for the next one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::by_hand::{Hand, freed, row};
use super::world::name;
use crate::machine::{Event, Ordering};
use crate::*;

const MIB: usize = 1 << 20;

fn calls(hand: &Hand) -> Vec<Vec<i64>> {
    hand.flights.iter().map(|(_, _, rows)| rows.clone()).collect()
}

/// The brokers accept every call, one after the other; what each carried.
fn accept_everything(hand: &mut Hand) -> Vec<Vec<i64>> {
    let mut accepted = Vec::new();
    while !hand.flights.is_empty() {
        let (_, flight, rows) = hand.flights.remove(0);
        hand.publish((flight, rows.len()), None);
        accepted.push(rows);
    }
    accepted
}

#[test]
fn a_call_is_filled_up_to_its_most_bytes_and_a_heavier_message_travels_by_itself() {
    for keyed in [false, true] {
        let mut hand = Hand::new(1);
        let weighing = |(id, weight): (i64, usize)| {
            let key = format!("k{id}");
            Row { weight: weight * MIB, ..row(id, keyed.then_some(&key)) }
        };
        hand.give_new([(1, 3), (2, 1), (3, 5), (4, 3), (5, 2)].map(weighing).into());
        assert_eq!(calls(&hand), [vec![1, 2], vec![3], vec![4], vec![5]], "keyed: {keyed}");
    }
}

#[test]
fn messages_of_a_key_that_are_too_heavy_together_follow_each_other() {
    let mut hand = Hand::new(1);
    hand.give_new((1..=5).map(|id| Row { weight: 3 * MIB / 2, ..row(id, Some("k")) }).collect());
    assert_eq!(calls(&hand), [[1, 2]]);
    assert_eq!(accept_everything(&mut hand), [vec![1, 2], vec![3, 4], vec![5]]);
}

#[test]
fn messages_of_which_nothing_is_known_share_a_call_on_a_shared_connection() {
    let mut hand = Hand::with(1, |settings| settings.destinations[0].profile.isolation = Isolation::SharedConnection);
    hand.give_new((1..=6).map(|id| row(id, (id % 2 == 0).then_some("k"))).collect());
    assert_eq!(calls(&hand).len(), 1, "{:?}", hand.flights);
    assert_eq!(accept_everything(&mut hand)[0].len(), 6);
}

/// A broker that fails one of them goes on with what has another key, or none.
#[test]
fn where_everything_has_one_order_a_call_carries_messages_of_one_key() {
    let mut hand = Hand::with(1, |settings| settings.ordering = Ordering::Everything);
    let keys = [Some("a"), Some("a"), Some("b"), None, None, Some("a"), Some("a")];
    hand.give_new((1..).zip(keys).map(|(id, key)| row(id, key)).collect());
    let expected = [vec![1, 2], vec![3], vec![4], vec![5], vec![6, 7]];
    assert_eq!(accept_everything(&mut hand), expected, "and each waits for the one before");
}

#[test]
fn attempts_are_numbered_for_each_destination_by_itself() {
    let mut hand = Hand::new(2);
    let progress = BTreeMap::from([(name(0), 1), (name(1), 4)]);
    hand.give_due(vec![Row { attempts: 5, progress, ..freed(1, "k") }]);
    assert_eq!(hand.attempts, [2, 5]);
}

#[test]
fn a_failure_beside_a_message_that_was_accepted_in_the_same_call_pauses_nothing() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("a")), row(2, Some("b"))]);
    assert_eq!(calls(&hand), [[1, 2]]);
    let (flight, _) = hand.flight(1);
    let failed = Published::Failed(Error::new(ErrorKind::Unavailable, "scripted"));
    hand.machine.on(hand.now, Event::Published(flight, vec![Published::Accepted(Accepted::FRESH), failed]));
    hand.act();
    assert!(hand.machine.destinations()[0].paused.is_none(), "it plainly works");
    let settled = hand.settle();
    assert!(matches!(
        settled.iter().find(|one| one.row == RowId(2)).map(|one| &one.outcome),
        Some(Outcome::Retry { attempts: 0, .. })
    ));
}

#[test]
fn what_is_known_of_a_message_is_forgotten_with_its_death_so_that_a_replay_begins_anew() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![Row { attempts: 3, ..freed(1, "k") }]);
    let last = hand.flight(1);
    hand.publish(last, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[0].outcome, Outcome::Dead { .. }));
    hand.settled(&[1]);
    hand.give_new(vec![row(2, None)]);
    let other = hand.flight(2);
    hand.publish(other, None);
    hand.settle();
    hand.settled(&[2]);
    hand.give_due(vec![freed(1, "k")]);
    let replayed = hand.flight(1);
    hand.publish(replayed, Some(ErrorKind::Unavailable));
    assert!(hand.settles.is_empty(), "its first failure is charged: {:?}", hand.settles);
    assert!(hand.machine.destinations()[0].paused.is_some());
}

/// A crash would bring the first one back, and then it came after the second one.
#[test]
fn a_key_that_stands_in_line_waits_until_the_end_of_its_head_is_recorded() {
    let mut hand = Hand::with(1, |settings| settings.destinations[0].profile.max_concurrent = 1);
    hand.give_new(vec![row(9, None)]);
    let busy = hand.flight(9);
    let lifetime = Lifetime { expires: Expires::In(Duration::from_secs(1)), ..Lifetime::default() };
    hand.give_new(vec![Row { lifetime, ..row(1, Some("k")) }, row(2, Some("k"))]);
    hand.now = hand.now + Duration::from_secs(2);
    hand.act();
    let [Settlement { row: RowId(1), outcome: Outcome::Dead { reason: DeadReason::Expired, .. }, .. }] =
        &hand.settle()[..]
    else {
        panic!("it is over")
    };
    hand.publish(busy, None);
    assert!(hand.flights.is_empty(), "{:?}", hand.flights);
    hand.settled(&[1]);
    hand.flight(2);
}
