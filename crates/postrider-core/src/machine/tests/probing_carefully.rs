//! Heads as probes of a destination that pauses, after a relay that died.

use super::by_hand::{Hand, head, row, rows_of};
use super::careful::{some_rows, suspected, take, taken_over};
use crate::machine::DestinationIndex;
use crate::*;

#[test]
fn a_head_is_the_next_probe_where_everything_in_memory_was_tried() {
    for key in [None, Some("k")] {
        let mut hand = taken_over();
        assert_eq!(take(&mut hand, vec![head(1, None, 0), head(2, key, 1), head(3, None, 2)]), [(1, 1)]);
        hand.give_to(some_rows, vec![row(1, None)]);
        let flight = hand.flight(1);
        hand.publish(flight, Some(ErrorKind::Unavailable));
        assert_eq!(suspected(&hand.settle()), [(1, 0)]);
        hand.settled(&[1]);
        while hand.settles.is_empty() {
            assert!(hand.flights.is_empty(), "the first one may be why the destination pauses");
            match hand.read.take() {
                Some(read) => hand.answer(read, Vec::new(), false),
                None => hand.wait(),
            }
        }
        assert_eq!(suspected(&hand.settle()), [(2, 2)]);
        let due = hand.now;
        assert!(hand.machine.wake_at(due) > due, "it waits for the store");
        hand.settled(&[2]);
        hand.give_to(some_rows, vec![row(2, key)]);
        assert_eq!(hand.now, due, "it goes at once, and is not let go");
        let flight = hand.flight(2);
        hand.publish(flight, None);
        hand.flight(1);
    }
}

/// Finds nothing, settles whatever is to be settled, or lets time pass.
fn step(hand: &mut Hand) {
    if let Some(batch) = hand.settles.pop() {
        let rows = rows_of(&batch);
        return hand.settled(&rows);
    }
    match hand.read.take() {
        Some(read) => hand.answer(read, Vec::new(), false),
        None => hand.wait(),
    }
}

fn answer_at(hand: &mut Hand, destination: usize, of: i64, failure: Option<ErrorKind>) {
    let is_it = |(place, _, rows): &(DestinationIndex, _, Vec<i64>)| place.get() == destination && rows.contains(&of);
    let place = hand.flights.iter().position(is_it).expect("it was not sent there");
    let (_, flight, rows) = hand.flights.remove(place);
    hand.publish((flight, rows.len()), failure);
}

/// Each of the two destinations pauses, and one of them answered it.
#[test]
fn a_head_that_is_the_next_probe_goes_though_another_destination_answered_it() {
    let mut hand = Hand::new(2);
    hand.lose();
    hand.gain_as(Start::Careful);
    assert_eq!(take(&mut hand, vec![head(1, None, 0), head(2, None, 1)]), [(1, 1)]);
    hand.give_to(some_rows, vec![row(1, None)]);
    answer_at(&mut hand, 0, 1, Some(ErrorKind::Unavailable));
    answer_at(&mut hand, 1, 1, None);
    while !hand.settles.iter().flatten().any(|settlement| settlement.row == RowId(2)) {
        step(&mut hand);
    }
    step(&mut hand);
    hand.give_to(some_rows, vec![row(2, None)]);
    answer_at(&mut hand, 1, 2, Some(ErrorKind::Unavailable));
    let is_probe = |hand: &Hand| hand.flights.iter().any(|(place, _, rows)| place.get() == 0 && rows.contains(&2));
    for _ in 0..1_000 {
        let wanted = hand.read.as_ref().is_some_and(|read| some_rows(&read.wanted));
        if is_probe(&hand) {
            return;
        }
        match hand.flights.pop() {
            Some((_, flight, rows)) => hand.publish((flight, rows.len()), Some(ErrorKind::Unavailable)),
            None if wanted => hand.give_to(some_rows, vec![row(2, None)]),
            None => step(&mut hand),
        }
    }
    panic!("it was never sent");
}
