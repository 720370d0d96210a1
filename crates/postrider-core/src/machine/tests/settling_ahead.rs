//! A second settle, asked for before the first one is answered.

use super::by_hand::{Hand, row, rows_of};
use crate::machine::Event;
use crate::*;

/// Five rows are delivered, and two go into a settle.
fn delivered() -> Hand {
    let mut hand = Hand::with(1, |settings| settings.settle_rows = 2);
    hand.give_new((1..=5).map(|id| row(id, None)).collect());
    hand.accept_all();
    assert_eq!(hand.settles.iter().map(|batch| rows_of(batch)).collect::<Vec<_>>(), [[1, 2], [3, 4]]);
    hand
}

#[test]
fn only_a_full_settle_is_asked_for_ahead_and_two_are_under_way_at_most() {
    let mut hand = delivered();
    hand.settles.clear();
    hand.settled(&[1, 2]);
    assert!(hand.settles.is_empty(), "one row waits, and one settle is under way");
    hand.settled(&[3, 4]);
    assert_eq!(rows_of(&hand.settle()), [5]);
    hand.settled(&[5]);
    assert_eq!(hand.machine.window(), (0, 0));
}

/// Were the later rows of a key recorded without the earlier ones, a crash would bring these back alone.
#[test]
fn what_failed_and_what_was_not_made_because_of_that_is_recorded_in_its_order() {
    let mut hand = delivered();
    hand.settles.clear();
    hand.machine.on(hand.now, Event::Settled(Err(Error::new(ErrorKind::Unavailable, "scripted"))));
    for _ in 0..10 {
        hand.wait();
        assert!(hand.settles.is_empty(), "one is not answered yet that stands behind what failed");
    }
    hand.machine.on(hand.now, Event::NotSettled);
    while hand.settles.is_empty() {
        hand.wait();
    }
    assert_eq!(rows_of(&hand.settle()), [1, 2], "nothing is asked for ahead while the store is away");
    hand.settled(&[1, 2]);
    assert_eq!(hand.settles.iter().map(|batch| rows_of(batch)).collect::<Vec<_>>(), [vec![3, 4]]);
}

/// What failed waits for the answer to the one behind it, and the lane is lost in between.
#[test]
fn what_failed_of_a_lane_that_is_lost_meanwhile_is_not_asked_for_again() {
    let mut hand = delivered();
    hand.settles.clear();
    hand.machine.on(hand.now, Event::Settled(Err(Error::new(ErrorKind::Unavailable, "scripted"))));
    hand.lose();
    hand.machine.on(hand.now, Event::NotSettled);
    for _ in 0..10 {
        hand.wait();
        assert!(hand.settles.is_empty(), "of a lane that is somebody else's: {:?}", hand.settles);
    }
    assert!(hand.machine.is_drained());
}

/// The lane is somebody else's: nothing of what was not made waits.
#[test]
fn what_was_not_made_because_its_lane_is_lost_is_forgotten() {
    let mut hand = delivered();
    hand.machine.on(hand.now, Event::Settled(Err(Error::new(ErrorKind::Fenced, "scripted"))));
    hand.settles.clear();
    hand.machine.on(hand.now, Event::NotSettled);
    hand.act();
    assert!(hand.settles.is_empty() && hand.machine.is_drained());
    assert_eq!(hand.machine.window(), (0, 0));
}
