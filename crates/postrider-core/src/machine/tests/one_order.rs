//! Where all messages have one order, or none, step by step.

use super::by_hand::{Hand, aside, retrying, row, rows_of};
use crate::machine::{Answer, Event, Ordering, Wanted};
use crate::*;

fn new(wanted: &Wanted) -> bool {
    *wanted == Wanted::New
}

fn look(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Key(..))
}

fn walk(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Walk(..))
}

fn one_order() -> Hand {
    Hand::with(1, |settings| settings.ordering = Ordering::Everything)
}

#[test]
fn the_ordering_is_told_as_it_was_set_and_by_its_word() {
    for (ordering, word) in [(Ordering::Key, "key"), (Ordering::None, "none"), (Ordering::Everything, "everything")] {
        let hand = Hand::with(1, |settings| settings.ordering = ordering);
        assert_eq!((hand.machine.ordering(), hand.machine.ordering().as_str()), (ordering, word));
    }
}

#[test]
fn in_one_order_nothing_new_is_read_while_the_head_waits_to_be_tried_again_and_everything_after() {
    let mut hand = one_order();
    hand.give_new(vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.give_new(vec![row(2, Some("k"))]);
    assert!(hand.flights.is_empty(), "the first one is not answered");
    hand.publish(flight, Some(ErrorKind::Rejected));
    while !hand.settles.is_empty() {
        let rows = rows_of(&hand.settle());
        hand.settled(&rows);
    }
    assert_eq!(hand.machine.window(), (0, 0));
    assert!(hand.read(new).is_none(), "whatever is new would only be set aside");
    hand.give_due(vec![retrying(1, "k")]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[1]);
    hand.give_to(look, vec![aside(2, "k")]);
    let flight = hand.flight(2);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[2]);
    hand.give_new(vec![row(3, None)]);
    hand.flight(3);
}

/// Left where it is, what is new would keep the look waiting, and the look what is new.
#[test]
fn in_one_order_what_is_new_is_read_while_a_look_waits_for_it() {
    let mut hand = one_order();
    hand.lose();
    hand.gain();
    let read = hand.read(walk).unwrap();
    hand.machine.on(hand.now, Event::Answered(read, Answer::Keys(vec![Key::everything()])));
    hand.give_to(look, vec![aside(5, "k")]);
    assert!(hand.flights.is_empty(), "an ordinary row of the relay before may stand before it");
    let read = hand.read(new).expect("a page of new rows");
    hand.answer(read, vec![row(2, Some("k"))], true);
    assert!(matches!(hand.settle()[0].outcome, Outcome::SetAside { .. }));
    hand.settled(&[2]);
    hand.give_new(Vec::new());
    hand.give_to(look, vec![aside(2, "k"), aside(5, "k")]);
    let sent: Vec<i64> = hand.flights.iter().flat_map(|(_, _, rows)| rows.clone()).collect();
    assert_eq!(sent, [2, 5]);
}

#[test]
fn without_ordering_what_was_set_aside_under_another_configuration_still_leaves_in_order() {
    let mut hand = Hand::with(1, |settings| {
        settings.ordering = Ordering::None;
        settings.destinations[0].profile.order = OrderInBatch::NotKept;
    });
    hand.lose();
    hand.gain();
    hand.give_to(walk, vec![aside(1, "k")]);
    hand.give_to(look, vec![aside(1, "k"), aside(2, "k")]);
    let sent: Vec<_> = hand.flights.iter().map(|(_, _, rows)| rows.clone()).collect();
    assert_eq!(sent, [[1]], "a broker that keeps no order gets one of a key at a time");
    let flight = hand.flight(1);
    hand.publish(flight, None);
    hand.flight(2);
}
