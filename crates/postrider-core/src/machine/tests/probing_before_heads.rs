//! Lanes of a relay that died beside lanes that were left in order, while a destination pauses.

use super::by_hand::{Hand, head, row};
use super::careful::{some_rows, suspected};
use crate::machine::Event;
use crate::*;

const CLEAN: Lane = Lane(1);

/// A suspect is risked only where nothing else could end the pause.
#[test]
fn no_head_is_a_probe_while_a_message_waits_there_that_was_not_tried() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain_as(Start::Careful);
    let clean = HeldLane { lane: CLEAN, term: Term(1), start: Start::Clean };
    hand.machine.on(hand.now, Event::Gained(vec![clean]));
    hand.give_new(vec![head(1, None, 0), head(2, None, 1)]);
    assert_eq!(suspected(&hand.settle()), [(1, 1)]);
    hand.settled(&[1]);
    hand.give_to(some_rows, vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!(suspected(&hand.settle()), [(1, 0)]);
    hand.settled(&[1]);
    assert!(hand.flights.is_empty());
    hand.give_new(vec![Row { lane: CLEAN, ..row(10, None) }]);
    for _ in 0..100 {
        assert!(hand.settles.is_empty(), "a suspect is taken: {:?}", hand.settles);
        match hand.flights.pop() {
            Some((_, _, rows)) if rows == [10] => return,
            Some((_, flight, rows)) => hand.publish((flight, rows.len()), Some(ErrorKind::Unavailable)),
            None => match hand.read.take() {
                Some(read) => hand.answer(read, Vec::new(), false),
                None => hand.wait(),
            },
        }
    }
    panic!("it was never tried");
}
