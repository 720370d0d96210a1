//! A pause for a setting that one topic met says nothing of other topics.

use std::sync::Arc;
use std::time::Duration;

use super::by_hand::{Hand, row};
use crate::machine::DestinationIndex;
use crate::*;

pub fn of(topic: &str, id: i64) -> Row {
    of_topic(topic, row(id, None))
}

/// The same row with a message of this topic.
pub fn of_topic(topic: &str, row: Row) -> Row {
    let Content::Message(message) = &row.content else { unreachable!() };
    let message = Message { topic: Topic::unchecked(topic), ..(**message).clone() };
    Row { content: Content::Message(Arc::new(message)), ..row }
}

/// A topic for which nothing is set up was tried so often that the pauses are long, and nothing is on its way.
fn long_paused(kind: ErrorKind) -> Hand {
    let mut hand = Hand::new(1);
    hand.give_new(vec![of("uncovered", 1)]);
    for _ in 0..12 {
        let flight = probe(&mut hand, 1);
        hand.publish(flight, Some(kind));
    }
    hand
}

/// The next time that this message is sent.
pub fn probe(hand: &mut Hand, id: i64) -> (crate::machine::Flight, usize) {
    for _ in 0..100_000 {
        hand.act();
        if hand.flights.iter().any(|(.., rows)| rows.contains(&id)) {
            return hand.flight(id);
        }
        if let Some(read) = hand.read.take() {
            hand.answer(read, Vec::new(), false);
        }
        hand.wait();
    }
    panic!("it is not sent")
}

pub fn sent_after(hand: &mut Hand, id: i64) -> Duration {
    let start = hand.now;
    let flight = probe(hand, id);
    hand.publish(flight, None);
    hand.now.since(start)
}

#[test]
fn a_message_of_another_topic_is_the_next_probe_and_soon() {
    let mut hand = long_paused(ErrorKind::Config);
    hand.give_new(vec![of("covered", 2)]);
    let after = sent_after(&mut hand, 2);
    assert!(after <= Duration::from_millis(300), "{after:?}");
    assert!(hand.machine.destinations()[DestinationIndex::new(0).get()].paused.is_none());
}

#[test]
fn one_that_comes_while_a_probe_is_under_way_is_the_next_one() {
    let mut hand = long_paused(ErrorKind::Config);
    let under_way = probe(&mut hand, 1);
    hand.give_new(vec![of("covered", 2)]);
    hand.publish(under_way, Some(ErrorKind::Config));
    let after = sent_after(&mut hand, 2);
    assert!(after <= Duration::from_millis(300), "{after:?}");
}

#[test]
fn after_another_topic_that_failed_as_well_the_next_one_is_tried_soon() {
    let mut hand = long_paused(ErrorKind::Config);
    hand.give_new(vec![of("covered", 3), of("uncovered-too", 2)]);
    let second = probe(&mut hand, 2);
    hand.publish(second, Some(ErrorKind::Config));
    let after = sent_after(&mut hand, 3);
    assert!(after <= Duration::from_millis(300), "{after:?}");
}

#[test]
fn a_message_of_a_topic_that_failed_waits_for_the_next_probe() {
    let waited = longest_until_the_next_call(|| {
        let mut hand = long_paused(ErrorKind::Config);
        hand.give_new(vec![of("uncovered", 2)]);
        hand
    });
    assert!(waited > Duration::from_secs(1), "{waited:?}");
}

/// The longest of several times until anything is sent.
pub fn longest_until_the_next_call(begin: impl Fn() -> Hand) -> Duration {
    let once = |_| {
        let mut hand = begin();
        let start = hand.now;
        while hand.flights.is_empty() {
            if let Some(read) = hand.read.take() {
                hand.answer(read, Vec::new(), false);
            }
            hand.wait();
        }
        hand.now.since(start)
    };
    (0..3).map(once).max().unwrap_or_default()
}
