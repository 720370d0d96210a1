//! Destinations that a row is owed to and that the configuration does not name any more.

use super::by_hand::{Hand, retrying};
use super::world::name;
use crate::*;

const GONE: &str = "gone";

/// A row that is owed to the one destination there is, to another one of before, and to nothing else.
fn owed_to_one_that_is_gone() -> Row {
    Row { waiting_for: Some(vec![name(0), DestinationName::new(GONE)]), ..retrying(1, "k") }
}

#[test]
fn what_was_accepted_elsewhere_stays_owed_to_a_destination_that_is_gone() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![owed_to_one_that_is_gone()]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    let [Settlement { outcome: Outcome::Retry { waiting_for, failures, attempts, .. }, .. }] = &hand.settle()[..]
    else {
        panic!("it was delivered, and nobody would ever know of the other one")
    };
    assert_eq!(waiting_for.as_deref(), Some(&[DestinationName::new(GONE)][..]));
    assert_eq!((failures.len(), failures[0].kind, *attempts), (1, ErrorKind::Config, 1), "seen, and uncharged");
}

#[test]
fn a_message_is_not_given_up_while_it_is_owed_to_a_destination_that_is_gone() {
    let mut hand = Hand::new(1);
    let row = Row { attempts: 1_000, ..owed_to_one_that_is_gone() };
    hand.give_due(vec![row]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    let [Settlement { outcome: Outcome::Retry { waiting_for, .. }, .. }] = &hand.settle()[..] else {
        panic!("it was given up, and nobody would ever know of the other one")
    };
    assert_eq!(waiting_for.as_deref(), Some(&[name(0), DestinationName::new(GONE)][..]));
}
