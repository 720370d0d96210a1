//! What is taken beside what, while lanes whose owner died are handled carefully.

use super::by_hand::{Hand, head, only, row};
use super::careful::{record, some_rows, suspected, take, taken_over};
use crate::machine::Wanted;
use crate::*;

/// Fetches a row that may be sent, and has it delivered.
fn deliver(hand: &mut Hand, id: i64, key: Option<&str>) {
    hand.give_to(some_rows, vec![row(id, key)]);
    let flight = hand.flight(id);
    hand.publish(flight, None);
    assert_eq!(hand.settle()[0].outcome, Outcome::Delivered);
    hand.settled(&[id]);
}

/// Should the relay die now, nobody could say of which of them.
#[test]
fn nothing_that_comes_later_is_taken_beside_a_suspect() {
    let mut hand = taken_over();
    assert_eq!(take(&mut hand, vec![head(1, None, 1)]), [(1, 2)]);
    hand.give_to(some_rows, vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.give_new(vec![head(2, None, 0)]);
    assert!(hand.settles.is_empty(), "taken beside it");
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[1]);
    assert_eq!(suspected(&hand.settle()), [(2, 1)]);
}

/// A relay that dies raises the suspicion of few, and one call that a broker does not answer holds nobody up.
#[test]
fn a_batch_that_nobody_suspects_is_filled_up_while_some_of_it_are_on_their_way() {
    let mut hand = taken_over();
    assert_eq!(take(&mut hand, (1..=100).map(|id| head(id, None, 0)).collect()).len(), 100);
    hand.give_to(some_rows, (1..=100).map(|id| row(id, None)).collect());
    assert!(!hand.flights.is_empty());
    hand.give_new((101..=300).map(|id| head(id, None, 0)).collect());
    let beside = suspected(&hand.settle());
    assert_eq!(beside, (101..=128).map(|id| (id, 1)).collect::<Vec<_>>());
    hand.settled(&beside.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    hand.give_to(some_rows, (101..=128).map(|id| row(id, None)).collect());
    hand.give_new(Vec::new());
    assert!(hand.settles.is_empty(), "no more are in hands at once");
}

/// What stands behind the suspects goes together when all of them are through, however much it is.
#[test]
fn a_suspect_follows_another_one_though_many_that_nobody_suspects_stand_between_them() {
    let mut hand = taken_over();
    let behind = (2..=200).map(|id| head(id, Some("a"), 0));
    let heads = std::iter::once(head(1, Some("a"), 1)).chain(behind).chain([head(201, Some("b"), 1)]);
    assert_eq!(take(&mut hand, heads.collect()), [(1, 2)]);
    deliver(&mut hand, 1, Some("a"));
    assert_eq!(record(&mut hand), [(201, 2)], "it waits for all that stood behind the first one");
    deliver(&mut hand, 201, Some("b"));
    assert_eq!(suspected(&hand.settle()).len(), 128);
}

/// Whoever kills relays from outside spreads the deaths over many; those that came to two say so even when they are answered.
#[test]
fn a_message_that_came_with_two_deaths_speaks_against_the_guilt_of_another_one_after_it_was_delivered() {
    let mut hand = taken_over();
    assert_eq!(take(&mut hand, vec![head(1, None, 3), head(2, None, 2)]), [(2, 3)]);
    deliver(&mut hand, 2, None);
    assert_eq!(suspected(&hand.settle()), [(1, 4)], "one death more is asked for");
}

/// Without its message it could not be tried again, and without its suspicion another relay would die of it.
#[test]
fn a_message_on_its_way_to_one_destination_is_not_let_go_because_another_one_pauses() {
    let mut hand = Hand::new(2);
    hand.lose();
    hand.gain_as(Start::Careful);
    assert_eq!(take(&mut hand, vec![only(1, head(9, None, 0))]), [(9, 1)]);
    hand.give_to(some_rows, vec![only(1, row(9, None))]);
    let flight = hand.flight(9);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!(record(&mut hand), [(9, 0)]);
    hand.give_new(vec![head(1, None, 1)]);
    assert_eq!(record(&mut hand), [(1, 2)]);
    hand.give_to(some_rows, vec![row(1, None)]);
    hand.act();
    assert!(hand.settles.is_empty(), "let go on its way");
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unknown));
}

/// A row that was sent to one of two destinations goes back to the table, because the other one pauses and the window is
/// full: what is recorded of it.
fn half_answered(suspicion: u16) -> (Hand, Settlement) {
    let mut hand = Hand::with(2, |settings| settings.window_rows = 3);
    hand.lose();
    hand.gain_as(Start::Careful);
    let heads = vec![only(1, head(8, None, 0)), only(1, head(9, None, 0)), head(10, None, suspicion)];
    hand.give_new(heads);
    let mut settled = None;
    for _ in 0..40 {
        while !hand.settles.is_empty() {
            let batch = hand.settle();
            let is_back = |one: &&Settlement| one.row == RowId(10) && !matches!(one.outcome, Outcome::Suspected { .. });
            settled = settled.or(batch.iter().find(is_back).cloned());
            hand.settled(&batch.iter().map(|one| one.row.0).collect::<Vec<_>>());
        }
        if let Some(settled) = settled {
            return (hand, settled);
        }
        while let Some((destination, flight, rows)) = hand.flights.pop() {
            let failure = if destination.get() == 0 { ErrorKind::Rejected } else { ErrorKind::Unavailable };
            hand.publish((flight, rows.len()), Some(failure));
        }
        match hand.read.take() {
            Some(read) => {
                let rows: Vec<Row> = match &read.wanted {
                    Wanted::Rows(rows) if rows.contains(&RowId(10)) => vec![row(10, None)],
                    Wanted::Rows(rows) => rows.iter().map(|id| only(1, row(id.0, None))).collect(),
                    _ => Vec::new(),
                };
                hand.answer(read, rows, false);
            }
            None => hand.wait(),
        }
    }
    panic!("it does not go back");
}

/// It lived through one destination; that says nothing of the other one.
#[test]
fn a_row_that_goes_back_keeps_its_suspicion_where_one_of_its_destinations_has_not_answered_it() {
    let (mut hand, settled) = half_answered(2);
    assert!(matches!(settled.outcome, Outcome::Retry { attempts: 1, .. }), "{settled:?}");
    assert_eq!(settled.suspicion, 2);
    let read = hand.read(|wanted| matches!(wanted, Wanted::Due(_))).unwrap();
    assert_eq!(read.lanes[0].start, Start::Careful, "it would come whole");
}
