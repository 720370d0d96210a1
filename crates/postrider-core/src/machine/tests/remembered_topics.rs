//! Which topics a pause is remembered to be for: only then a message of another one is no reason to wait.

use std::time::Duration;

use super::by_hand::Hand;
use super::hurrying::of;
use crate::machine::Event;
use crate::*;

const LONG: Duration = Duration::from_secs(20);

fn next_call(hand: &mut Hand) {
    for _ in 0..100_000 {
        if !hand.flights.is_empty() {
            return;
        }
        match hand.read.take() {
            Some(read) => hand.answer(read, Vec::new(), false),
            None => hand.wait(),
        }
    }
    panic!("nothing is sent");
}

/// A message of topic `uncovered` is answered with these, one after the other, the last of which asks for a long pause;
/// then a message of another topic comes. How long it takes until something is sent, and what.
fn after(answers: Vec<Error>) -> (Duration, Vec<i64>) {
    let mut hand = Hand::new(1);
    hand.give_new(vec![of("uncovered", 1)]);
    for answer in answers {
        next_call(&mut hand);
        let (flight, _) = hand.flight(1);
        hand.machine.on(hand.now, Event::Published(flight, vec![Published::Failed(answer)]));
        hand.act();
    }
    hand.give_new(vec![of("covered", 2)]);
    let start = hand.now;
    next_call(&mut hand);
    (hand.now.since(start), hand.flights.remove(0).2)
}

fn config() -> Error {
    Error::new(ErrorKind::Config, "scripted")
}

#[test]
fn the_topic_that_met_a_wrong_setting_is_remembered_and_a_message_of_another_one_is_sent_soon() {
    let (after, sent) = after(vec![config(), config().retry_after(LONG)]);
    assert!(after <= Duration::from_millis(300), "{after:?}");
    assert_eq!(sent, [2]);
}

/// It is to be left alone for so long, whatever else comes.
#[test]
fn a_topic_is_not_remembered_where_the_broker_itself_asks_for_a_pause() {
    let (after, sent) = after(vec![config().retry_after(LONG)]);
    assert!(after > LONG / 2, "{after:?}");
    assert_eq!(sent, [1]);
}
