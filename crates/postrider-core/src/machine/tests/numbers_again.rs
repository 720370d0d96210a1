//! A number of a row comes with another message: the table was emptied or restored, or its server lost its last numbers.

use std::sync::Arc;

use super::by_hand::{Hand, row};
use crate::machine::{Event, Note, Wanted};
use crate::*;

/// The message that got the number of another one.
const OTHER: i64 = 900;

/// Another message under this number.
fn another(number: i64, key: Option<&str>) -> Row {
    let message = Message::new("all", "y").id(uuid::Uuid::from_u128(u128::try_from(OTHER).unwrap()));
    let message = match key {
        Some(key) => message.key(key),
        None => message,
    };
    Row { content: Content::Message(Arc::new(message)), ..row(number, key) }
}

fn is_new(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::New)
}

fn came_again(hand: &mut Hand) -> usize {
    hand.machine.take_notes().iter().filter(|note| matches!(note, Note::NumbersCameAgain(_))).count()
}

/// Nothing of the lane is trusted any more, and nothing that stood behind the row in the same page goes before it.
#[test]
fn under_the_number_of_a_row_whose_settle_was_never_answered_another_message_comes_and_its_lane_is_read_anew() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(7, Some("k"))]);
    let flight = hand.flight(7);
    hand.publish(flight, None);
    let settle = hand.settle();
    assert_eq!(settle[0].message, row(7, None).message_id());
    hand.machine.on(hand.now, Event::Settled(Err(Error::new(ErrorKind::Unknown, "the connection was lost"))));
    hand.give_new(vec![another(7, Some("k")), row(8, Some("k"))]);
    assert_eq!((came_again(&mut hand), hand.machine.held().len()), (1, 0));
    assert!(hand.flights.is_empty());

    hand.settles.clear();
    hand.gain();
    hand.give_new(vec![another(7, Some("k")), row(8, Some("k"))]);
    let flight = hand.flight(OTHER);
    hand.publish(flight, None);
    assert_eq!(came_again(&mut hand), 0);
}

/// What stays in memory of the one does not become the other's.
#[test]
fn the_answer_for_a_message_is_not_taken_for_that_of_another_one_that_got_its_number() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(7, None)]);
    let of_the_first = hand.flight(7);
    hand.give_new(vec![another(7, None)]);
    hand.gain();
    hand.give_new(vec![another(7, None)]);
    hand.publish(of_the_first, None);
    assert!(hand.settles.is_empty(), "it was not sent yet");
    let of_the_second = hand.flight(OTHER);
    hand.publish(of_the_second, None);
    assert_eq!(hand.settle()[0].message, another(7, None).message_id());
}

#[test]
fn a_message_that_got_the_number_of_one_settled_since_its_read_was_sent_is_news() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(7, None)]);
    let flight = hand.flight(7);
    let read = hand.read(is_new).unwrap();
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[7]);
    hand.answer(read, vec![another(7, None)], false);
    hand.flight(OTHER);
    assert_eq!(came_again(&mut hand), 0);
}

/// As of a row that could not be read, of which the number alone tells.
#[test]
fn a_row_without_an_id_is_the_one_that_has_its_number() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(7, None)]);
    let unreadable = Content::Malformed { id: None, key: None, reason: "no id".to_owned() };
    hand.give_new(vec![Row { content: unreadable, ..row(7, None) }]);
    assert_eq!((came_again(&mut hand), hand.machine.held().len()), (0, 1));
}
