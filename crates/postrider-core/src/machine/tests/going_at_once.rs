//! Which due rows go at once, and which wait for a look at their key.

use std::collections::BTreeMap;
use std::time::Duration;

use super::by_hand::{Hand, a_look, aside, retrying};
use super::world::name;
use crate::machine::{Event, Wanted};
use crate::*;

fn a_walk(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Walk(..))
}

/// A walk has just told that rows of the key may stand in the table.
fn walked(destinations: usize) -> Hand {
    let mut hand = Hand::with(destinations, |settings| settings.sweep_round = Duration::from_millis(50));
    let walk = hand.read(a_walk).unwrap();
    // Otherwise the look would come first.
    hand.machine.on(hand.now, Event::Hint);
    hand.answer(walk, vec![aside(9, "k")], false);
    hand
}

/// The next read of due rows; the key was not looked at before it.
fn give_due_unlooked(hand: &mut Hand, due: Vec<Row>) {
    for _ in 0..100 {
        hand.act();
        match hand.read.take() {
            Some(read) if matches!(read.wanted, Wanted::Due(_)) => return hand.answer(read, due, false),
            Some(read) => {
                assert!(!a_look(&read.wanted), "looked at too early for this test");
                hand.answer(read, Vec::new(), false);
            }
            None => hand.wait(),
        }
    }
    panic!("no such read");
}

fn sent(hand: &Hand) -> Vec<(usize, Vec<i64>)> {
    hand.flights.iter().map(|(place, _, rows)| (place.get(), rows.clone())).collect()
}

/// It is the head of its key there, whatever stands behind it.
#[test]
fn a_row_that_was_sent_before_goes_without_a_look_at_its_key() {
    let mut one = walked(1);
    // With one destination the table may not tell where the attempts were.
    give_due_unlooked(&mut one, vec![retrying(1, "k")]);
    assert_eq!(sent(&one), [(0, vec![1])]);

    let mut two = walked(2);
    let only = Row { waiting_for: Some(vec![name(0)]), progress: BTreeMap::from([(name(0), 1)]), ..retrying(1, "k") };
    give_due_unlooked(&mut two, vec![only]);
    assert_eq!(sent(&two), [(0, vec![1])]);
}

#[test]
fn a_row_that_was_sent_elsewhere_waits_for_a_look_at_its_key() {
    for progress in [BTreeMap::from([(name(0), 1)]), BTreeMap::new()] {
        let mut hand = walked(2);
        let row = Row { waiting_for: Some(vec![name(1)]), progress, ..retrying(5, "k") };
        give_due_unlooked(&mut hand, vec![row.clone()]);
        assert_eq!(sent(&hand), [], "an earlier one of its key may be owed there");
        let first = Row { waiting_for: Some(vec![name(1)]), ..aside(1, "k") };
        hand.give_to(a_look, vec![first, row]);
        assert_eq!(sent(&hand), [(1, vec![1, 5])]);
    }
}

/// It is sent nowhere, and overtakes nothing.
#[test]
fn a_row_that_is_over_ends_at_once_though_its_lane_is_not_read() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain();
    hand.act();
    let read = hand.read.take().unwrap();
    assert!(matches!(read.wanted, Wanted::Due(_)), "{read:?}");
    let over = Lifetime { expires: Expires::In(Duration::ZERO), ..Lifetime::default() };
    hand.answer(read, vec![Row { lifetime: over, ..retrying(1, "k") }], false);
    let batch = hand.settle();
    assert!(matches!(batch[0].outcome, Outcome::Dead { reason: DeadReason::Expired, .. }), "{batch:?}");
}
