//! Messages that travel alone, because twice the connection broke that they shared with others.

use std::collections::BTreeSet;
use std::time::Duration;

use super::by_hand::{Hand, row};
use crate::machine::{DestinationIndex, Event};
use crate::*;

fn calls(hand: &Hand) -> Vec<Vec<i64>> {
    hand.flights.iter().map(|(_, _, rows)| rows.clone()).collect()
}

/// The destination answers a look at it.
fn goes_on(hand: &mut Hand) {
    hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
    hand.act();
}

/// The only call under way ends so.
fn answer(hand: &mut Hand, failure: Option<ErrorKind>) {
    assert_eq!(hand.flights.len(), 1, "{:?}", hand.flights);
    let (_, flight, rows) = hand.flights.remove(0);
    hand.publish((flight, rows.len()), failure);
}

/// These share a call twice, and the connection breaks each time; now each is to travel alone, and the first one does.
fn suspects(rows: Vec<Row>) -> Hand {
    let mut hand = Hand::with(1, |settings| settings.destinations[0].profile.isolation = Isolation::SharedConnection);
    let first = rows[0].id.0;
    let count = rows.len();
    hand.give_new(rows);
    for _ in 0..2 {
        assert_eq!(hand.flights[0].2.len(), count);
        answer(&mut hand, Some(ErrorKind::Unavailable));
        goes_on(&mut hand);
    }
    assert_eq!(calls(&hand), [[first]]);
    hand
}

#[test]
fn suspects_and_calls_of_others_take_turns() {
    let mut hand = suspects(vec![row(1, None), row(2, Some("k"))]);
    hand.give_new((10..110).map(|id| row(id, None)).collect());
    assert_eq!(calls(&hand), [[1]], "nothing goes beside it");
    answer(&mut hand, None);
    assert_eq!(calls(&hand), [(10..26).collect::<Vec<_>>()], "a call of others first, and the next suspect then");
    answer(&mut hand, None);
    assert_eq!(calls(&hand), [[2]], "nobody waits for ever, however many others there are");
    answer(&mut hand, None);
    assert_eq!(calls(&hand).len(), 4, "nothing is to be told apart any more");
}

#[test]
fn a_suspect_waits_for_an_earlier_message_of_its_key_that_came_later() {
    let mut hand = suspects(vec![row(4, None), row(5, Some("k"))]);
    hand.give_new(vec![row(10, None)]);
    answer(&mut hand, None);
    assert_eq!(calls(&hand), [[10]]);
    hand.give_new(vec![row(3, Some("k"))]);
    for next in [3, 5] {
        answer(&mut hand, None);
        assert_eq!(calls(&hand), [[next]]);
    }
}

#[test]
fn a_suspect_whose_time_passes_before_its_turn_is_never_sent() {
    let lifetime = Lifetime { expires: Expires::In(Duration::from_secs(1)), ..Lifetime::default() };
    let mut hand = suspects(vec![row(1, None), Row { lifetime, ..row(2, None) }]);
    hand.now = hand.now + Duration::from_secs(2);
    hand.act();
    assert!(matches!(hand.settle()[0].outcome, Outcome::Dead { reason: DeadReason::Expired, .. }));
    answer(&mut hand, None);
    assert!(hand.flights.is_empty(), "{:?}", hand.flights);
}

#[test]
fn suspects_that_wait_for_their_turn_when_a_pause_begins_go_after_it() {
    let mut hand = suspects(vec![row(1, None), row(2, None), row(3, Some("k")), row(4, Some("k"))]);
    answer(&mut hand, Some(ErrorKind::Unavailable));
    assert!(hand.machine.destinations()[0].paused.is_some());
    let mut accepted = BTreeSet::new();
    for _ in 0..100 {
        if let Some((_, flight, rows)) = hand.flights.pop() {
            accepted.extend(rows.iter().copied());
            hand.publish((flight, rows.len()), None);
        } else if let Some(read) = hand.read.take() {
            hand.answer(read, Vec::new(), false);
        } else {
            hand.wait();
        }
    }
    assert_eq!(accepted, BTreeSet::from([1, 2, 3, 4]));
}
