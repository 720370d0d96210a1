//! What a look at a key says, and whether the key is looked at again.

use std::time::Duration;

use super::by_hand::{Hand, a_look, aside, only, retrying, row};
use crate::machine::{Ordering, Read, Wanted};
use crate::*;

/// The key's row 1 was delivered to the first destination, where others may wait, and row 5 is on its way to the
/// second; a look at the key is under way.
fn looking_beside_a_flight() -> (Hand, Read) {
    let mut hand = Hand::new(2);
    hand.give_due(vec![only(0, retrying(1, "k"))]);
    hand.give_new(vec![only(1, row(5, Some("k")))]);
    let first = hand.flight(1);
    hand.publish(first, None);
    hand.settle();
    hand.settled(&[1]);
    let look = hand.read(a_look).unwrap();
    (hand, look)
}

fn sent(hand: &Hand) -> Vec<i64> {
    hand.flights.iter().flat_map(|(_, _, rows)| rows.clone()).collect()
}

#[test]
fn of_a_look_that_a_failure_crossed_what_stands_before_the_failed_row_goes_and_what_stands_behind_it_waits() {
    let (mut hand, look) = looking_beside_a_flight();
    let flight = hand.flight(5);
    hand.publish(flight, Some(ErrorKind::Rejected));
    hand.answer(look, vec![only(0, aside(3, "k")), only(0, aside(7, "k"))], false);
    assert_eq!(sent(&hand), [3]);
}

/// What the look saw is older than the row that came back, whose successors must wait for it.
#[test]
fn a_key_is_looked_at_again_where_a_row_came_back_to_the_table_while_a_look_was_under_way() {
    let (mut hand, look) = looking_beside_a_flight();
    let flight = hand.flight(5);
    hand.publish(flight, Some(ErrorKind::Rejected));
    hand.settle();
    hand.settled(&[5]);
    hand.answer(look, Vec::new(), false);
    assert!(hand.read(a_look).is_some());
}

#[test]
fn a_key_that_is_held_is_looked_at_when_its_last_row_has_left_and_one_that_is_to_be_tried_again_is_not() {
    let holding = Row { state: RowState::Holding, ..only(0, row(2, Some("k"))) };
    let later = Row { due: Due::In(Duration::from_secs(9)), ..only(0, retrying(2, "k")) };
    for (head, is_looked_at) in [(holding, true), (later, false)] {
        for behind in [Vec::new(), vec![only(0, aside(3, "k"))]] {
            let (mut hand, look) = looking_beside_a_flight();
            let rows = [vec![head.clone()], behind].concat();
            hand.answer(look, rows, false);
            assert_eq!(sent(&hand), [5], "a successor of the head went");
            assert!(hand.read(a_look).is_none(), "nothing has changed");
            let flight = hand.flight(5);
            hand.publish(flight, None);
            hand.settle();
            hand.settled(&[5]);
            assert_eq!(hand.read(a_look).is_some(), is_looked_at, "{:?}", head.state);
        }
    }
}

/// So many rows of the key wait for their time at the first of two destinations, and there is more behind them.
fn brought(count: i64) -> (Hand, Option<Read>) {
    let mut hand = Hand::new(2);
    hand.lose();
    hand.gain();
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(1, "k")]);
    let look = hand.read(a_look).unwrap();
    let later = |id| Row { due: Due::In(Duration::from_secs(900)), ..only(0, retrying(id, "k")) };
    hand.answer(look, (1..=count).map(later).collect(), true);
    let again = hand.read(a_look);
    (hand, again)
}

#[test]
fn a_look_goes_on_beyond_what_cannot_go_until_it_is_too_long() {
    for count in [16, 8_191] {
        let (mut hand, again) = brought(count);
        let again = again.expect("others may go that it did not see");
        assert!(again.room.rows >= usize::try_from(2 * count).unwrap(), "{:?}", again.room);
        hand.answer(again, vec![only(1, aside(9_000, "k"))], false);
        assert_eq!(sent(&hand), [9_000], "it owes the other destination alone");
    }
    assert!(brought(8_192).1.is_none(), "what lies behind them waits");
}

#[test]
fn behind_a_page_of_which_something_went_the_key_is_looked_at_again_when_that_has_left() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain();
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(1, "k")]);
    let look = hand.read(a_look).unwrap();
    hand.answer(look, vec![aside(1, "k")], true);
    assert_eq!(sent(&hand), [1]);
    assert!(hand.read(a_look).is_none(), "it is on its way");
    let flight = hand.flight(1);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[1]);
    hand.give_to(a_look, vec![aside(2, "k")]);
    assert_eq!(sent(&hand), [2]);
}

/// Its delay has passed, and it was never tried: it is no head.
#[test]
fn a_due_row_that_was_never_tried_waits_behind_the_head_that_is_to_be_tried_again() {
    let mut hand = Hand::with(1, |settings| settings.ordering = Ordering::Everything);
    hand.give_new(vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    hand.settle();
    hand.settled(&[1]);
    hand.give_due(vec![row(2, None)]);
    assert_eq!(sent(&hand), [0_i64; 0]);
}
