//! Deliveries that are recorded together, and what does not wait for others.

use std::time::Duration;

use super::by_hand::{Hand, aside, head, row};
use crate::machine::Wanted;
use crate::*;

const INTERVAL: Duration = Duration::from_millis(20);

/// Row 1 is delivered and recorded just now.
fn begun() -> Hand {
    let mut hand = Hand::with(1, |settings| (settings.settle_interval, settings.settle_rows) = (INTERVAL, 4));
    deliver(&mut hand, &[row(1, Some("a"))]);
    assert_eq!(rows(&hand.settle()), [1], "after a pause the first one does not wait");
    hand.settled(&[1]);
    hand
}

fn deliver(hand: &mut Hand, rows: &[Row]) {
    hand.give_new(rows.to_vec());
    while !hand.flights.is_empty() {
        let (_, flight, rows) = hand.flights.remove(0);
        hand.publish((flight, rows.len()), None);
    }
}

fn rows(batch: &[Settlement]) -> Vec<i64> {
    batch.iter().map(|settlement| settlement.row.0).collect()
}

#[test]
fn deliveries_wait_for_each_other_as_long_as_the_interval_and_no_longer() {
    let mut hand = begun();
    let since = hand.now;
    deliver(&mut hand, &[row(2, Some("b"))]);
    deliver(&mut hand, &[row(3, Some("c"))]);
    assert!(hand.settles.is_empty() && !hand.machine.is_drained());
    while hand.settles.is_empty() {
        if let Some(read) = hand.read.take() {
            hand.answer(read, Vec::new(), false);
        }
        hand.wait();
    }
    assert_eq!(rows(&hand.settle()), [2, 3]);
    assert!(hand.now.since(since) <= INTERVAL, "{:?}", hand.now.since(since));
}

#[test]
fn a_full_settle_does_not_wait() {
    let mut hand = begun();
    deliver(&mut hand, &[row(2, None), row(3, None), row(4, None), row(5, None)]);
    assert_eq!(rows(&hand.settle()), [2, 3, 4, 5]);
}

#[test]
fn whatever_is_no_delivery_takes_those_before_it_along_at_once() {
    let mut hand = begun();
    deliver(&mut hand, &[row(2, Some("b"))]);
    hand.give_new(vec![row(3, Some("c"))]);
    assert!(hand.settles.is_empty());
    let failing = hand.flight(3);
    hand.publish(failing, Some(ErrorKind::Rejected));
    assert_eq!(rows(&hand.settle()), [2, 3]);
    hand.settled(&[2, 3]);
    deliver(&mut hand, &[row(4, Some("d"))]);
    assert!(hand.settles.is_empty(), "the next delivery waits again");
}

/// What the table has of a key is looked at when nothing of it is in memory any more.
#[test]
fn a_delivery_of_a_key_that_has_more_in_the_table_does_not_wait() {
    let mut hand = begun();
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(2, Some("b")) }]);
    assert_eq!(rows(&hand.settle()), [2], "set aside");
    hand.settled(&[2]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![aside(2, "b")]);
    let flight = hand.flight(2);
    hand.publish(flight, None);
    assert_eq!(rows(&hand.settle()), [2]);
}

#[test]
fn a_message_that_may_kill_its_relay_does_not_wait() {
    let mut hand = begun();
    hand.lose();
    hand.gain_as(Start::Careful);
    hand.give_new(vec![head(2, Some("b"), 1)]);
    assert_eq!(rows(&hand.settle()), [2], "suspected, before its payload is fetched");
    hand.settled(&[2]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Rows(_)), vec![row(2, Some("b"))]);
    let flight = hand.flight(2);
    hand.publish(flight, None);
    assert_eq!(rows(&hand.settle()), [2]);
}

#[test]
fn a_lane_that_goes_back_and_a_stop_wait_for_nothing() {
    let mut hand = begun();
    deliver(&mut hand, &[row(2, Some("b"))]);
    assert!(hand.settles.is_empty());
    hand.hand_back();
    assert_eq!(rows(&hand.settle()), [2]);
    let mut hand = begun();
    deliver(&mut hand, &[row(2, Some("b"))]);
    hand.machine.on(hand.now, crate::machine::Event::Stop);
    hand.act();
    assert_eq!(rows(&hand.settle()), [2]);
}

/// Nothing more could be read meanwhile.
#[test]
fn in_a_full_window_nothing_waits() {
    let mut hand = Hand::with(1, |settings| (settings.settle_interval, settings.window_bytes) = (INTERVAL, 30));
    deliver(&mut hand, &[row(1, None)]);
    hand.settle();
    hand.settled(&[1]);
    deliver(&mut hand, &[row(2, None)]);
    assert!(hand.settles.is_empty());
    hand.give_new(vec![row(3, None), row(4, None)]);
    assert_eq!(rows(&hand.settle()), [2]);
}
