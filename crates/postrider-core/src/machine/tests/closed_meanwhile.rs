//! A key that closes while a read is under way: what that read brings was seen before.

use super::by_hand::{Hand, aside, freed, row};
use crate::machine::Wanted;
use crate::*;

/// The first row of a key failed and waits in the table, nothing of the key is in memory, and the second one comes with a
/// read that was sent before.
fn read_before_its_head_failed() -> Hand {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    let read = hand.read(|wanted| *wanted == Wanted::New).unwrap();
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[0].outcome, Outcome::Retry { .. }));
    hand.settled(&[1]);
    assert_eq!(hand.machine.window(), (0, 0));
    hand.answer(read, vec![row(2, Some("k"))], false);
    hand
}

#[test]
fn a_row_that_was_read_before_its_head_failed_is_set_aside_behind_it() {
    let mut hand = read_before_its_head_failed();
    assert!(hand.flights.is_empty(), "it overtook its head");
    let settled = hand.settle();
    assert!(matches!(settled[0].outcome, Outcome::SetAside { .. }), "{settled:?}");
}

/// An operator discarded the head, and found no row behind it but the third: the second one is not set aside yet.
#[test]
fn a_row_made_due_waits_for_one_before_it_that_is_on_its_way_to_the_table() {
    let mut hand = read_before_its_head_failed();
    hand.settle();
    hand.give_due(vec![freed(3, "k")]);
    assert!(hand.flights.is_empty(), "it overtook the second one");
    hand.settled(&[2]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![aside(2, "k"), freed(3, "k")]);
    let sent: Vec<i64> = hand.flights.iter().flat_map(|(_, _, rows)| rows.clone()).collect();
    assert_eq!(sent, [2, 3]);
}
