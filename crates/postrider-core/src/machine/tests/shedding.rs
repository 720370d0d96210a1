//! A full window of rows that wait for a paused destination.

use super::by_hand::{Hand, aside, only, row};
use crate::machine::{DestinationIndex, Event, Wanted};
use crate::*;

fn rows(batch: &[Settlement]) -> Vec<i64> {
    batch.iter().map(|settlement| settlement.row.0).collect()
}

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
    assert_eq!(rows(&aside), (2..=32).collect::<Vec<_>>());
    hand.settled(&rows(&aside));
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
    let shed = rows(&hand.settle());
    assert_eq!(shed, [1, 4, 5, 6, 7, 8]);
    hand.settled(&shed);
    let flight = hand.flight(2);
    hand.publish(flight, None);
    assert!(matches!(hand.settle()[0].outcome, Outcome::SetAside { .. }), "it is owed to the other one yet");
    hand.settled(&[2]);
    let flight = hand.flight(3);
    hand.publish(flight, None);
    // That this one is delivered is not recorded before the end.
    assert_eq!(rows(&hand.settle()), [3]);
    while hand.checks == 0 {
        hand.wait();
    }
    hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(2, "k")]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![only(0, aside(2, "k"))]);
    hand.flight(2);
}
