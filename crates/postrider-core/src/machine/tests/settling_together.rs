//! Deliveries that nobody waits for are recorded together.

use std::time::Duration;

use super::by_hand::{Hand, head, retrying, row, rows_of};
use crate::machine::{Event, Wanted};
use crate::*;

const PAUSE: Duration = Duration::from_millis(20);

fn calm() -> Hand {
    Hand::with(1, |settings| settings.settle_pause = PAUSE)
}

/// These rows are read, all there are, and delivered.
fn deliver(hand: &mut Hand, rows: &[i64]) {
    hand.give_new(rows.iter().map(|id| row(*id, None)).collect());
    hand.accept_all();
}

#[test]
fn what_is_delivered_within_the_pause_is_recorded_at_once() {
    let mut hand = calm();
    deliver(&mut hand, &[1]);
    let end = hand.now + PAUSE;
    deliver(&mut hand, &[2, 3]);
    assert!(hand.settles.is_empty() && hand.now < end);
    while hand.settles.is_empty() {
        hand.until_the_next_read();
    }
    assert_eq!((rows_of(&hand.settle()), hand.now), (vec![1, 2, 3], end));
    hand.settled(&[1, 2, 3]);
    deliver(&mut hand, &[4]);
    assert!(hand.settles.is_empty(), "the next one waits as long");
}

#[test]
fn a_failure_is_recorded_at_once_and_takes_along_what_waits() {
    let mut hand = calm();
    deliver(&mut hand, &[1]);
    hand.give_new(vec![row(2, None)]);
    let flight = hand.flight(2);
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert_eq!(rows_of(&hand.settle()), [1, 2]);
}

/// What comes after a row that was tried again is looked for when that one is recorded.
#[test]
fn a_delivery_that_its_key_waits_for_is_recorded_at_once() {
    let mut hand = calm();
    hand.give_due(vec![retrying(1, "k")]);
    hand.accept_all();
    assert_eq!(rows_of(&hand.settle()), [1]);
    hand.settled(&[1]);
    deliver(&mut hand, &[2]);
    assert!(hand.settles.is_empty(), "nobody waits for this one");
}

#[test]
fn a_lane_that_is_wanted_elsewhere_and_a_relay_that_stops_wait_for_no_company() {
    let mut hand = calm();
    deliver(&mut hand, &[1]);
    hand.hand_back();
    assert_eq!(rows_of(&hand.settle()), [1]);
    hand.settled(&[1]);
    assert_eq!(hand.released.len(), 1);

    let mut hand = calm();
    deliver(&mut hand, &[1]);
    hand.machine.on(hand.now, Event::Stop);
    hand.act();
    assert_eq!(rows_of(&hand.settle()), [1]);
}

#[test]
fn a_window_without_room_and_a_backlog_wait_for_nothing() {
    let mut hand = Hand::with(1, |settings| (settings.settle_pause, settings.window_rows) = (PAUSE, 2));
    deliver(&mut hand, &[1, 2]);
    assert_eq!(rows_of(&hand.settle()), [1, 2]);

    let mut hand = Hand::with(1, |settings| (settings.settle_pause, settings.page_rows) = (PAUSE, 1));
    let read = hand.read(|wanted| *wanted == Wanted::New).unwrap();
    hand.answer(read, vec![row(1, None)], true);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    assert_eq!(rows_of(&hand.settle()), [1]);
}

#[test]
fn as_many_as_one_settle_takes_wait_for_no_more() {
    let mut hand = Hand::with(1, |settings| (settings.settle_pause, settings.settle_rows) = (PAUSE, 2));
    deliver(&mut hand, &[1, 2, 3]);
    assert_eq!(rows_of(&hand.settle()), [1, 2]);
    hand.settled(&[1, 2]);
    assert!(hand.settles.is_empty());
}

/// What is in hands is the more suspect the longer it is there, and the next ones wait for it.
#[test]
fn during_a_careful_start_nothing_waits_for_company() {
    let mut hand = calm();
    hand.lose();
    hand.gain_as(Start::Careful);
    hand.give_new(vec![head(1, None, 0)]);
    assert!(matches!(hand.settle()[..], [Settlement { outcome: Outcome::Suspected { .. }, .. }]));
    hand.settled(&[1]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Rows(_)), vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    assert_eq!(rows_of(&hand.settle()), [1]);
}
