//! A destination that takes calls and does not answer, beside one that does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::by_hand::{Hand, a_look, aside, only, retrying, row, rows_of};
use super::world::name;
use crate::machine::Wanted;
use crate::*;

const WORKS: usize = 0;
const SILENT: usize = 1;
/// What the window holds.
const ROWS: i64 = 16;

/// Every row of a full window is on its way to both, or waits for the silent one, which takes one at a time.
fn hand() -> Hand {
    let mut hand = Hand::with(2, |settings| {
        settings.window_rows = usize::try_from(ROWS).unwrap();
        let profile = &mut settings.destinations[SILENT].profile;
        (profile.max_batch, profile.max_concurrent) = (1, 1);
    });
    hand.give_new((1..=ROWS).map(|id| row(id, Some(&format!("k{id}")))).collect());
    hand
}

/// The one that works accepts whatever it was sent.
fn works(hand: &mut Hand) {
    while let Some(at) = hand.flights.iter().position(|(place, ..)| place.get() == WORKS) {
        let (_, flight, rows) = hand.flights.remove(at);
        hand.publish((flight, rows.len()), None);
    }
}

fn passes(hand: &mut Hand, millis: u64) {
    hand.now = hand.now + Duration::from_millis(millis);
    hand.act();
}

#[test]
fn a_destination_that_does_not_answer_fills_the_window_for_two_seconds_and_no_longer() {
    let mut hand = hand();
    works(&mut hand);
    passes(&mut hand, 1_999);
    assert!(hand.settles.is_empty(), "it may answer yet: {:?}", hand.settles);
    passes(&mut hand, 1);
    let batch = hand.settle();
    let expected = Outcome::SetAside { waiting_for: Some(vec![name(SILENT)]) };
    assert!(batch.iter().all(|settlement| settlement.outcome == expected), "{batch:?}");
    let left = rows_of(&batch);
    assert_eq!(left, (2..=ROWS).collect::<Vec<_>>(), "all but the one that is on its way");
    hand.settled(&left);
    let silent: Vec<bool> = hand.machine.destinations().iter().map(|view| view.silent_since.is_some()).collect();
    assert_eq!(silent, [false, true]);
    hand.give_new(vec![row(100, Some("k100"))]);
    assert!(hand.flights.iter().any(|(place, _, rows)| place.get() == WORKS && *rows == [100]));
    assert!(hand.machine.destinations().iter().all(|destination| destination.paused.is_none()), "nobody said so");
}

/// What stands before it in memory is on its way to the one that does not answer.
#[test]
fn what_waits_in_the_table_for_another_destination_does_not_wait_for_an_answer() {
    let mut hand = Hand::new(2);
    hand.give_new(vec![only(SILENT, row(1, Some("k")))]);
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(2, Some("k")) }]);
    hand.settle();
    hand.settled(&[2]);
    hand.give_to(a_look, vec![aside(2, "k")]);
    assert!(hand.now < Tick::ZERO + Duration::from_secs(1));
    assert!(hand.flights.iter().any(|(place, _, rows)| place.get() == WORKS && *rows == [2]), "{:?}", hand.flights);
}

/// The row before it is on its way to the one that does not answer, and it failed at the other one.
#[test]
fn what_is_tried_again_at_another_destination_does_not_wait_for_an_answer() {
    let tried = |destination, row| Row { progress: BTreeMap::from([(name(destination), 1)]), ..row };
    let mut hand = Hand::new(2);
    hand.give_due(vec![tried(SILENT, only(SILENT, retrying(1, "k")))]);
    assert!(hand.flights.iter().any(|(place, _, rows)| place.get() == SILENT && *rows == [1]), "{:?}", hand.flights);
    hand.give_due(vec![Row { closed: Closed::For(vec![name(SILENT)]), ..tried(WORKS, retrying(2, "k")) }]);
    assert!(hand.flights.iter().any(|(place, _, rows)| place.get() == WORKS && *rows == [2]), "{:?}", hand.flights);
}

#[test]
fn what_waits_in_the_table_for_a_silent_destination_is_looked_for_when_it_answers() {
    let mut hand = hand();
    works(&mut hand);
    passes(&mut hand, 2_000);
    let left = rows_of(&hand.settle());
    hand.settled(&left);
    let late = hand.flight(1);
    hand.publish(late, None);
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(2, "k2")]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![only(SILENT, aside(2, "k2"))]);
    assert!(hand.flights.iter().any(|(place, _, rows)| place.get() == SILENT && *rows == [2]));
}

#[test]
fn a_silence_that_ends_in_a_pause_is_over_when_the_pause_is() {
    let mut hand = hand();
    works(&mut hand);
    passes(&mut hand, 2_000);
    let left = rows_of(&hand.settle());
    hand.settled(&left);
    let late = hand.flight(1);
    hand.publish(late, Some(ErrorKind::Unknown));
    assert!(hand.machine.destinations()[SILENT].paused.is_some());
    assert!(hand.read(|wanted| matches!(wanted, Wanted::Walk(..))).is_none(), "it pauses");
    while !hand.flights.iter().any(|(place, ..)| place.get() == SILENT) {
        match hand.read.take() {
            Some(read) => hand.answer(read, Vec::new(), false),
            None => hand.wait(),
        }
    }
    let probe = hand.flight(1);
    hand.publish(probe, None);
    assert!(hand.read(|wanted| matches!(wanted, Wanted::Walk(..))).is_some());
}

/// With nobody else to make room for, all that would come of it are writes.
#[test]
fn where_every_destination_is_silent_nothing_leaves_memory() {
    let mut hand = hand();
    passes(&mut hand, 5_000);
    assert!(hand.settles.is_empty(), "{:?}", hand.settles);
}

#[test]
fn the_only_destination_may_take_its_time() {
    let mut hand = Hand::with_window(1, 16);
    hand.give_new((1..=16).map(|id| row(id, Some("k"))).collect());
    passes(&mut hand, 5_000);
    assert!(hand.settles.is_empty(), "{:?}", hand.settles);
}
