//! A pause that few messages met says little of others: a receiver may fail at one message alone, and look as if it were away.

use std::time::Duration;

use super::by_hand::{Hand, row, rows_of};
use super::hurrying::{longest_until_the_next_call, probe, sent_after};
use crate::machine::{Flight, Ordering};
use crate::*;

const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// These messages were sent in turn until the pauses are long, failed each time, and nothing is on its way.
fn paused_by(hand: &mut Hand, rows: Vec<Row>, fail: impl Fn(&mut Hand, (Flight, usize))) {
    let ids: Vec<i64> = rows.iter().map(|row| row.id.0).collect();
    hand.give_new(rows);
    for n in 0..12.max(ids.len()) {
        let flight = probe(hand, ids[n % ids.len()]);
        fail(hand, flight);
    }
}

/// As a receiver that answers 500, or nothing.
fn paused_by_unkeyed(ids: std::ops::RangeInclusive<i64>, kind: ErrorKind) -> Hand {
    let mut hand = Hand::with(1, |settings| settings.destinations[0].profile.max_batch = 1);
    paused_by(&mut hand, ids.map(|id| row(id, None)).collect(), |hand, flight| hand.publish(flight, Some(kind)));
    hand
}

fn is_paused(hand: &Hand) -> bool {
    hand.machine.destinations()[0].paused.is_some()
}

#[test]
fn where_one_message_alone_fails_another_one_is_next_and_soon_and_then_the_first_is_charged() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown] {
        let mut hand = paused_by_unkeyed(1..=1, kind);
        hand.give_new(vec![row(2, None)]);
        let after = sent_after(&mut hand, 2);
        assert!(after <= FIRST_PAUSE && !is_paused(&hand), "{kind:?}: {after:?}");
        assert_eq!(rows_of(&hand.settle()), [2]);
        hand.settled(&[2]);
        let flight = probe(&mut hand, 1);
        hand.publish(flight, Some(kind));
        assert!(!is_paused(&hand), "{kind:?}");
        let settled = hand.settle();
        let is_charged = |outcome: &Outcome| matches!(outcome, Outcome::Retry { attempts: 1, .. });
        assert!(rows_of(&settled) == [1] && is_charged(&settled[0].outcome), "{settled:?}");
    }
}

#[test]
fn one_that_comes_while_the_first_is_on_its_way_again_is_the_next() {
    let mut hand = paused_by_unkeyed(1..=1, ErrorKind::Unavailable);
    let under_way = probe(&mut hand, 1);
    hand.give_new(vec![row(2, None)]);
    hand.publish(under_way, Some(ErrorKind::Unavailable));
    let after = sent_after(&mut hand, 2);
    assert!(after <= FIRST_PAUSE, "{after:?}");
}

#[test]
fn each_message_that_fails_as_well_doubles_what_the_next_one_waits() {
    for (fail, most) in [(2, 2 * FIRST_PAUSE), (4, 8 * FIRST_PAUSE)] {
        let mut hand = paused_by_unkeyed(1..=fail, ErrorKind::Unavailable);
        hand.give_new(vec![row(100, None)]);
        let after = sent_after(&mut hand, 100);
        assert!(after <= most, "{fail}: {after:?}");
    }
}

#[test]
fn what_many_messages_met_is_an_outage_for_all() {
    let waited = longest_until_the_next_call(|| {
        let mut hand = paused_by_unkeyed(1..=9, ErrorKind::Unavailable);
        hand.give_new(vec![row(100, None)]);
        hand
    });
    assert!(waited > Duration::from_secs(1), "{waited:?}");
}

/// As a receiver that was started again, and fails at one message from then on.
#[test]
fn a_connection_that_could_not_be_made_is_forgotten_when_it_is_made_again() {
    let mut hand = Hand::new(1);
    paused_by(&mut hand, vec![row(1, None)], Hand::publish_unsent);
    for _ in 0..2 {
        let flight = probe(&mut hand, 1);
        hand.publish(flight, Some(ErrorKind::Unavailable));
    }
    hand.give_new(vec![row(2, None)]);
    let after = sent_after(&mut hand, 2);
    assert!(after <= FIRST_PAUSE, "{after:?}");
}

#[test]
fn a_connection_that_cannot_be_made_is_an_outage_for_all() {
    let waited = longest_until_the_next_call(|| {
        let mut hand = Hand::new(1);
        paused_by(&mut hand, vec![row(1, None)], Hand::publish_unsent);
        hand.give_new(vec![row(2, None)]);
        hand
    });
    assert!(waited > Duration::from_secs(1), "{waited:?}");
}

#[test]
fn what_stands_behind_the_one_that_fails_does_not_make_it_be_tried_more_often() {
    let of_its_key = || {
        let mut hand = Hand::new(1);
        paused_by(&mut hand, vec![row(1, Some("k"))], |hand, flight| hand.publish(flight, Some(ErrorKind::Unknown)));
        hand.give_new(vec![row(2, Some("k"))]);
        hand
    };
    let of_one_order = || {
        let mut hand = Hand::with(1, |settings| settings.ordering = Ordering::Everything);
        paused_by(&mut hand, vec![row(1, None)], |hand, flight| hand.publish(flight, Some(ErrorKind::Unknown)));
        hand.give_new(vec![row(2, None)]);
        hand
    };
    for waited in [longest_until_the_next_call(of_its_key), longest_until_the_next_call(of_one_order)] {
        assert!(waited > Duration::from_secs(1), "{waited:?}");
    }
}
