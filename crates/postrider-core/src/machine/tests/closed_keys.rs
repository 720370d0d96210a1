//! A key of which a message failed is closed until that is recorded, and one whose message is given up goes on in memory.

use std::time::Duration;

use super::by_hand::{Hand, a_look, aside, only, retrying, row, rows_of};
use super::world::name;
use crate::machine::{Event, Wanted};
use crate::*;

fn sent(hand: &Hand) -> Vec<(usize, Vec<i64>)> {
    hand.flights.iter().map(|(place, _, rows)| (place.get(), rows.clone())).collect()
}

/// The next attempt at it is the last one at the first destination.
fn on_its_last_attempt(row: Row) -> Row {
    Row { attempts: 3, progress: [(name(0), 3)].into_iter().collect(), ..row }
}

/// The first message of a call is refused, and the other one was not sent for that.
fn refuse_the_first_of_two(hand: &mut Hand) {
    let (flight, rows) = hand.flight(1);
    assert_eq!(rows, 2);
    let refused = Published::Failed(Error::new(ErrorKind::Rejected, "scripted"));
    hand.machine.on(hand.now, Event::Published(flight, vec![refused, Published::NotSent]));
    hand.act();
}

/// A message of the key is on its way, and what becomes of one behind it is being recorded.
fn before_one_that_is_recorded(behind: Row) -> Hand {
    let mut hand = Hand::with(1, |settings| settings.on_dead = vec![(TopicPattern::every(), OnDead::Hold)]);
    hand.give_due(vec![retrying(1, "k")]);
    hand.give_new(vec![behind]);
    hand
}

/// What comes behind it need not go through the table: nothing will be sent of it before the end is recorded.
#[test]
fn a_successor_of_a_message_that_is_given_up_waits_in_memory_until_that_is_recorded() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![on_its_last_attempt(row(1, Some("k"))), row(2, Some("k"))]);
    refuse_the_first_of_two(&mut hand);
    let batch = hand.settle();
    assert_eq!(rows_of(&batch), [1]);
    assert!(matches!(batch[0].outcome, Outcome::Dead { .. }), "{batch:?}");
    assert_eq!(sent(&hand), [], "its end is not recorded");
    hand.settled(&[1]);
    assert_eq!(sent(&hand), [(0, vec![2])]);
}

/// Should it fail there for now, it is tried again wherever it is owed.
#[test]
fn while_a_message_is_on_its_way_elsewhere_its_last_failure_lets_nothing_pass_it() {
    let mut hand = Hand::new(2);
    hand.give_new(vec![on_its_last_attempt(row(1, Some("k"))), only(0, row(2, Some("k")))]);
    refuse_the_first_of_two(&mut hand);
    assert_eq!(sent(&hand), [(1, vec![1])], "its successor passed it");
    let elsewhere = hand.flight(1);
    hand.publish(elsewhere, Some(ErrorKind::Rejected));
    assert_eq!(rows_of(&hand.settle()), [2]);
    hand.settled(&[2]);
    let batch = hand.settle();
    assert!(matches!(batch[0].outcome, Outcome::Retry { waiting_for: None, .. }), "{batch:?}");
    assert_eq!(sent(&hand), [], "its successor passed it");
}

/// Another one of its key that was tried before is due meanwhile: an operator replayed the first.
#[test]
fn a_key_whose_message_failed_stays_closed_though_another_one_of_it_leaves_memory() {
    let mut hand = before_one_that_is_recorded(row(2, Some("k")));
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert_eq!(rows_of(&hand.settle()), [2]);
    hand.settled(&[2]);
    assert!(matches!(hand.settles[0][..], [Settlement { row: RowId(1), outcome: Outcome::Retry { .. }, .. }]));
    hand.give_due(vec![retrying(5, "k")]);
    assert_eq!(sent(&hand), [], "it passed the one that failed");
}

#[test]
fn a_key_whose_message_failed_stays_closed_though_one_that_holds_it_unsent_leaves_memory() {
    let malformed = Content::Malformed { id: None, key: Some(Key::unchecked("k")), reason: "scripted".to_owned() };
    let mut hand = before_one_that_is_recorded(Row { content: malformed, ..row(2, Some("k")) });
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[..], [Settlement { row: RowId(2), outcome: Outcome::Holding { .. }, .. }]));
    hand.settled(&[2]);
    assert!(matches!(hand.settles[0][..], [Settlement { row: RowId(1), outcome: Outcome::Retry { .. }, .. }]));
    hand.give_due(vec![retrying(5, "k")]);
    assert_eq!(sent(&hand), [], "it passed the one that failed");
}

/// It stays in memory for the other destination, which pauses, and so nothing of the key is recorded before that goes on.
#[test]
fn what_waits_in_the_table_is_looked_for_behind_a_message_that_was_accepted_here_and_waits_elsewhere() {
    let mut hand = Hand::new(2);
    hand.give_new(vec![row(1, Some("k"))]);
    let (here, elsewhere) = (hand.flight_to(0, 1), hand.flight_to(1, 1));
    hand.publish(elsewhere, Some(ErrorKind::Unavailable));
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(2, Some("k")) }]);
    assert_eq!(rows_of(&hand.settle()), [2], "what stands before it is not known");
    hand.settled(&[2]);
    hand.publish(here, None);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![aside(2, "k")]);
    assert!(sent(&hand).contains(&(0, vec![2])), "{:?}", sent(&hand));
}

/// What stands before it in memory is on its way to one destination still, and the other one has accepted it.
#[test]
fn what_waits_in_the_table_is_looked_for_where_nothing_of_its_key_is_on_its_way() {
    let mut hand = Hand::new(2);
    hand.give_new(vec![row(1, Some("k"))]);
    let here = hand.flight_to(0, 1);
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(2, Some("k")) }]);
    hand.settle();
    hand.settled(&[2]);
    while hand.now < Tick::ZERO + Duration::from_secs(1) {
        let looks = hand.read.as_ref().is_some_and(|read| a_look(&read.wanted));
        assert!(!looks, "it could stand before one that is on its way");
        hand.until_the_next_read();
    }
    hand.publish(here, None);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![aside(2, "k")]);
    assert_eq!(sent(&hand), [(1, vec![1]), (0, vec![2])], "and not where it could overtake");
    let elsewhere = hand.flight_to(1, 1);
    hand.publish(elsewhere, None);
    let here = hand.flight_to(0, 2);
    hand.publish(here, None);
    for row in [1, 2] {
        assert_eq!(rows_of(&hand.settle()), [row]);
        hand.settled(&[row]);
    }
    // The first look crossed the settle.
    for _ in 0..2 {
        hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![only(1, aside(2, "k"))]);
    }
    assert_eq!(sent(&hand), [(1, vec![2])]);
}

/// The destination of the last one answers nothing: until it does, that one waits in memory for its turn at the other.
#[test]
fn what_waits_in_the_table_goes_before_a_later_message_that_is_held_back_and_on_its_way_elsewhere() {
    let mut hand = Hand::new(2);
    hand.give_new(vec![only(1, row(1, Some("k"))), only(1, row(2, Some("k"))), row(3, Some("k"))]);
    assert_eq!(sent(&hand), [(0, vec![3]), (1, vec![1, 2, 3])]);
    let (flight, _) = hand.flight_to(1, 1);
    let refused = Published::Failed(Error::new(ErrorKind::Rejected, "scripted"));
    hand.machine.on(hand.now, Event::Published(flight, vec![refused, Published::NotSent, Published::NotSent]));
    hand.act();
    while !hand.settles.is_empty() {
        let batch = rows_of(&hand.settle());
        hand.settled(&batch);
    }
    hand.give_due(vec![only(1, retrying(1, "k"))]);
    let again = hand.flight_to(1, 1);
    hand.publish(again, None);
    assert_eq!(rows_of(&hand.settle()), [1]);
    hand.settled(&[1]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![only(1, aside(2, "k"))]);
    assert_eq!(sent(&hand), [(0, vec![3]), (1, vec![2])]);
}
