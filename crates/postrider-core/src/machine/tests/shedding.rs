//! A full window of rows that wait for a paused destination.

use std::time::Duration;

use super::by_hand::{Hand, aside, only, row, rows_of};
use super::world::name;
use crate::machine::{DestinationIndex, Event, Wanted};
use crate::*;

/// Its head may be why the destination pauses, and only another key's message could tell.
#[test]
fn of_a_key_that_fills_the_window_during_a_pause_only_its_share_stays() {
    let mut hand = Hand::with_window(1, 32);
    hand.give_new((1..=32).map(|id| row(id, Some("k"))).collect());
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert!(hand.machine.destinations()[0].paused.is_some());
    let aside = hand.settle();
    assert!(aside.iter().all(|settlement| matches!(settlement.outcome, Outcome::SetAside { .. })));
    assert_eq!(rows_of(&aside), (2..=32).collect::<Vec<_>>());
    hand.settled(&rows_of(&aside));
    assert_eq!(hand.machine.window().0, 1);
}

/// Its key stays in memory all the while, for a row that is on its way elsewhere.
#[test]
fn a_row_that_left_memory_for_want_of_room_goes_when_its_destination_goes_on() {
    let mut hand = Hand::with(2, |settings| {
        settings.window_rows = 8;
        settings.destinations[1].profile.order = OrderInBatch::NotKept;
    });
    hand.give_new(vec![only(0, row(1, None))]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert!(hand.machine.destinations()[0].paused.is_some());
    let others = (4..=8).map(|id| only(0, row(id, None)));
    hand.give_new([row(2, Some("k")), only(1, row(3, Some("k")))].into_iter().chain(others).collect());
    let shed = rows_of(&hand.settle());
    assert_eq!(shed, [1, 4, 5, 6, 7, 8]);
    hand.settled(&shed);
    let flight = hand.flight(2);
    hand.publish(flight, None);
    assert!(matches!(hand.settle()[0].outcome, Outcome::SetAside { .. }), "it is owed to the other one yet");
    hand.settled(&[2]);
    let flight = hand.flight(3);
    hand.publish(flight, None);
    // That this one is delivered is not recorded before the end.
    assert_eq!(rows_of(&hand.settle()), [3]);
    while hand.checks == 0 {
        hand.wait();
    }
    hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(2, "k")]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![only(0, aside(2, "k"))]);
    hand.flight(2);
}

/// The first of two destinations pauses, and what there is to probe it with is on its way. Then the message behind one whose
/// end is being recorded waits for it, and the window is full.
fn behind_one_that_ends(mut hand: Hand) {
    assert!(hand.machine.destinations()[0].paused.is_some());
    assert_eq!(hand.flights[0].2, [9]);
    hand.give_new(vec![only(1, row(3, None))]);
    assert_eq!(hand.machine.window().0, 4);
    assert!(hand.settles.is_empty(), "it left memory for want of room: {:?}", hand.settles);
    hand.settled(&[1]);
    let probe = hand.flight(9);
    hand.publish(probe, None);
    hand.flight(2);
}

fn until_something_is_sent(hand: &mut Hand) {
    while hand.flights.is_empty() {
        match hand.read.take() {
            Some(read) => hand.answer(read, Vec::new(), false),
            None => hand.wait(),
        }
    }
}

/// A key that sends nothing yet is not what the line of a destination is crowded with.
#[test]
fn a_message_behind_one_that_is_given_up_stays_in_memory_during_a_pause_until_that_is_recorded() {
    let mut hand = Hand::with_window(2, 4);
    let last = Row { attempts: 3, progress: [(name(0), 3)].into_iter().collect(), ..row(1, Some("k")) };
    hand.give_new(vec![only(0, row(9, None))]);
    hand.give_new(vec![only(0, last)]);
    hand.give_new(vec![only(0, row(2, Some("k")))]);
    let (pausing, refused) = (hand.flight(9), hand.flight(1));
    hand.publish(pausing, Some(ErrorKind::Unavailable));
    hand.publish(refused, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[..], [Settlement { row: RowId(1), outcome: Outcome::Dead { .. }, .. }]));
    until_something_is_sent(&mut hand);
    behind_one_that_ends(hand);
}

#[test]
fn a_message_behind_one_that_is_over_stays_in_memory_during_a_pause_until_that_is_recorded() {
    let mut hand = Hand::with_window(2, 4);
    hand.give_new(vec![only(0, row(9, None))]);
    let pausing = hand.flight(9);
    hand.publish(pausing, Some(ErrorKind::Unavailable));
    until_something_is_sent(&mut hand);
    let over = Lifetime { expires: Expires::In(Duration::ZERO), ..Lifetime::default() };
    hand.give_new(vec![only(0, Row { lifetime: over, ..row(1, Some("k")) }), only(0, row(2, Some("k")))]);
    assert!(matches!(hand.settle()[..], [Settlement { row: RowId(1), outcome: Outcome::Dead { .. }, .. }]));
    behind_one_that_ends(hand);
}
