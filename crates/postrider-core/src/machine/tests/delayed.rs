//! A delayed message that is due waits until what was written before it is read.

use std::time::Duration;

use super::by_hand::{Hand, head, retrying, row};
use crate::machine::{Answer, Event, Ordering, Read, Wanted};
use crate::*;

fn a_due_read(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Due(_))
}

fn sent(hand: &Hand) -> Vec<i64> {
    hand.flights.iter().flat_map(|(_, _, rows)| rows.clone()).collect()
}

/// The next read, of whatever kind; no time passes but until it is asked for.
fn next(hand: &mut Hand) -> Read {
    loop {
        hand.act();
        match hand.read.take() {
            Some(read) => return read,
            None => hand.wait(),
        }
    }
}

/// The next due read; what is read of new rows before it is not all there is.
fn due_in_backlog(hand: &mut Hand) -> Read {
    loop {
        match next(hand) {
            read if a_due_read(&read.wanted) => return read,
            read if read.wanted == Wanted::New => {
                hand.now = hand.now + Duration::from_millis(50);
                hand.answer(read, Vec::new(), true);
            }
            read => hand.answer(read, Vec::new(), false),
        }
    }
}

fn new(hand: &mut Hand, rows: Vec<Row>, more: bool) {
    let read = hand.read(|wanted| *wanted == Wanted::New).unwrap();
    hand.answer(read, rows, more);
}

fn deliver(hand: &mut Hand, row: i64) {
    let flight = hand.flight(row);
    hand.publish(flight, None);
}

fn left_out(read: &Read) -> Vec<RowId> {
    let Wanted::Due(rows) = &read.wanted else { panic!("{read:?}") };
    rows.clone()
}

#[test]
fn an_earlier_message_of_its_key_that_is_not_read_yet_goes_before_it() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![row(2, Some("k"))]);
    assert!(sent(&hand).is_empty());
    hand.give_new(vec![row(1, Some("k"))]);
    hand.give_due(vec![row(2, Some("k"))]);
    assert_eq!(sent(&hand), [1]);
    deliver(&mut hand, 1);
    assert_eq!(sent(&hand), [2]);
}

/// The read that brings it may have been made before the earlier one was scheduled for another attempt, and tells of nothing
/// that stands before it.
#[test]
fn an_earlier_message_of_its_key_that_failed_meanwhile_goes_before_it() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![row(2, Some("k"))]);
    hand.give_new(vec![row(1, Some("k"))]);
    let due = hand.read(a_due_read).unwrap();
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    hand.settle();
    hand.settled(&[1]);
    hand.answer(due, vec![row(2, Some("k"))], false);
    assert!(sent(&hand).is_empty());
    assert!(matches!(hand.settle()[..], [Settlement { row: RowId(2), outcome: Outcome::SetAside { .. }, .. }]));
}

/// It goes towards a present that may have known neither of the two.
#[test]
fn a_reading_that_had_begun_before_it_was_found_is_not_enough() {
    let mut hand = Hand::new(1);
    let due = due_in_backlog(&mut hand);
    hand.answer(due, vec![row(2, Some("k"))], false);
    new(&mut hand, Vec::new(), true);
    new(&mut hand, Vec::new(), false);
    let due = due_in_backlog(&mut hand);
    assert_eq!(left_out(&due), [RowId(2)]);
    hand.answer(due, Vec::new(), false);
    new(&mut hand, vec![row(1, Some("k"))], false);
    hand.give_due(vec![row(2, Some("k"))]);
    assert_eq!(sent(&hand), [1]);
}

#[test]
fn a_reading_goes_on_towards_the_present_of_its_first_read_though_that_failed() {
    let mut hand = Hand::new(1);
    hand.give_new(Vec::new());
    let read = hand.read(|wanted| *wanted == Wanted::New).unwrap();
    let failed = Answer::Failed(Error::new(ErrorKind::Unavailable, "scripted"));
    hand.machine.on(hand.now, Event::Answered(read, failed));
    hand.now = hand.now + Duration::from_secs(9);
    let due = next(&mut hand);
    assert!(a_due_read(&due.wanted), "no other read began it: {due:?}");
    hand.answer(due, vec![row(2, Some("k"))], false);
    new(&mut hand, Vec::new(), false);
    let due = due_in_backlog(&mut hand);
    assert_eq!(left_out(&due), [RowId(2)]);
}

#[test]
fn what_keeps_no_order_goes_at_once() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![row(2, None)]);
    assert_eq!(sent(&hand), [2]);
    let mut hand = Hand::with(1, |settings| settings.ordering = Ordering::None);
    hand.give_due(vec![row(2, Some("k"))]);
    assert_eq!(sent(&hand), [2]);
}

#[test]
fn a_quiet_outbox_is_looked_at_at_once_for_its_sake_and_then_for_what_is_due() {
    let mut hand = Hand::new(1);
    for _ in 0..20 {
        hand.give_new(Vec::new());
    }
    let due = hand.read(a_due_read).unwrap();
    let found = hand.now;
    hand.answer(due, vec![row(2, Some("k"))], false);
    for wanted in ["new", "due"] {
        let read = next(&mut hand);
        assert_eq!(read.wanted == Wanted::New, wanted == "new", "{read:?}");
        let rows = if wanted == "due" { vec![row(2, Some("k"))] } else { Vec::new() };
        hand.answer(read, rows, false);
    }
    assert_eq!(sent(&hand), [2]);
    assert_eq!(hand.now, found);
}

/// Otherwise a page of them would be all that a due read brings, as long as there is a backlog.
#[test]
fn what_waits_is_left_out_of_the_next_due_reads_and_what_is_behind_it_goes() {
    let mut hand = Hand::new(1);
    let due = due_in_backlog(&mut hand);
    assert!(left_out(&due).is_empty());
    hand.answer(due, (2..=9).map(|id| row(id, Some("k"))).collect(), true);
    let due = due_in_backlog(&mut hand);
    assert_eq!(left_out(&due), (2..=9).map(RowId).collect::<Vec<_>>());
    hand.answer(due, vec![retrying(1, "other")], false);
    assert_eq!(sent(&hand), [1]);
}

#[test]
fn while_one_waits_nothing_is_idle_and_one_that_is_gone_waits_no_more() {
    let mut hand = Hand::new(1);
    let idle = |hand: &mut Hand| {
        for _ in 0..8 {
            let read = next(hand);
            hand.answer(read, Vec::new(), false);
        }
        hand.machine.is_idle()
    };
    assert!(idle(&mut hand));
    hand.give_due(vec![row(2, Some("k"))]);
    assert!(!hand.machine.is_idle());
    hand.give_new(Vec::new());
    assert!(!hand.machine.is_idle());
    assert!(idle(&mut hand), "the due read after that did not bring it: it is gone");
}

#[test]
fn it_waits_no_more_where_its_lane_was_lost() {
    let mut hand = Hand::new(1);
    let due = due_in_backlog(&mut hand);
    hand.answer(due, vec![row(2, Some("k"))], false);
    hand.lose();
    hand.gain();
    assert!(left_out(&due_in_backlog(&mut hand)).is_empty());
}

/// The last reads of every kind found nothing, but one of them left it out.
#[test]
fn while_one_waits_that_no_read_may_bring_nothing_is_idle() {
    let mut hand = Hand::new(1);
    let due = due_in_backlog(&mut hand);
    hand.answer(due, vec![row(2, Some("k"))], false);
    new(&mut hand, Vec::new(), true);
    new(&mut hand, Vec::new(), false);
    hand.now = hand.now + Duration::from_secs(9);
    let due = next(&mut hand);
    assert_eq!(left_out(&due), [RowId(2)]);
    hand.answer(due, Vec::new(), false);
    assert!(!hand.machine.is_idle());
}

/// A source takes the lane for one that it has read, and is to forget that first.
#[test]
fn a_reading_that_left_its_lane_out_is_not_enough() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain_again(Start::Clean);
    hand.give_due(vec![row(2, Some("k"))]);
    let read = hand.read(|wanted| *wanted == Wanted::New).unwrap();
    assert_eq!(read.lanes, []);
    hand.answer(read, Vec::new(), false);
    hand.give_due(vec![row(2, Some("k"))]);
    assert!(sent(&hand).is_empty(), "its lane is not read");
    hand.give_new(vec![row(1, Some("k"))]);
    hand.give_due(vec![row(2, Some("k"))]);
    assert_eq!(sent(&hand), [1]);
}

#[test]
fn it_waits_no_more_where_its_lane_goes_back_though_something_of_that_is_on_its_way() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None)]);
    let due = due_in_backlog(&mut hand);
    hand.answer(due, vec![row(2, Some("k"))], false);
    let other = HeldLane { lane: Lane(1), term: Term(1), start: Start::Clean };
    hand.machine.on(hand.now, Event::Gained(vec![other]));
    hand.hand_back();
    assert!(hand.released.is_empty());
    assert!(left_out(&due_in_backlog(&mut hand)).is_empty());
}

#[test]
fn what_is_left_out_is_told_in_order_whether_it_waits_or_is_in_memory() {
    let mut hand = Hand::new(1);
    let due = due_in_backlog(&mut hand);
    hand.answer(due, vec![row(2, Some("k")), retrying(5, "other"), row(9, Some("k"))], false);
    assert_eq!(left_out(&due_in_backlog(&mut hand)), [2, 5, 9].map(RowId));
}

/// Otherwise nothing would bring its retry.
#[test]
fn one_that_was_read_in_its_place_meanwhile_and_failed_is_due_as_all_others() {
    let mut hand = Hand::new(1);
    let due = due_in_backlog(&mut hand);
    hand.answer(due, vec![row(2, Some("k"))], false);
    new(&mut hand, vec![row(2, Some("k"))], true);
    let flight = hand.flight(2);
    hand.publish(flight, Some(ErrorKind::Rejected));
    hand.settle();
    hand.settled(&[2]);
    assert!(left_out(&due_in_backlog(&mut hand)).is_empty());
}

/// Only row numbers wait, and only so many.
#[test]
fn beyond_the_most_that_wait_in_memory_they_come_again() {
    let mut hand = Hand::new(1);
    let rows = |ids: std::ops::Range<i64>| ids.map(|id| row(id, Some("k"))).collect::<Vec<_>>();
    for page in 0..8 {
        let due = due_in_backlog(&mut hand);
        hand.answer(due, rows(2 + page * 1_024..2 + (page + 1) * 1_024), true);
    }
    let due = due_in_backlog(&mut hand);
    assert_eq!(left_out(&due).len(), 8_192);
    hand.answer(due, rows(9_000..9_010), false);
    let due = due_in_backlog(&mut hand);
    assert_eq!(left_out(&due).len(), 8_192);
    assert!(sent(&hand).is_empty());
}

#[test]
fn after_a_death_it_comes_as_a_head_though_it_came_before() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain_as(Start::Careful);
    for _ in 0..3 {
        let due = due_in_backlog(&mut hand);
        assert_eq!(due.lanes[0].start, Start::Careful);
        let rows = if left_out(&due).is_empty() { vec![head(2, Some("k"), 0)] } else { Vec::new() };
        hand.answer(due, rows, false);
    }
}
