//! A read that brought nothing, or not all, is asked for again, and one that brought all is not.

use std::time::Duration;

use super::by_hand::{Hand, freed, retrying, row};
use crate::machine::{Answer, Event, Note, Read, Wanted};
use crate::*;

fn a_walk(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Walk(..))
}

fn due(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Due(_))
}

fn fail(hand: &mut Hand, read: Read) {
    let error = Error::new(ErrorKind::Unavailable, "scripted");
    hand.machine.on(hand.now, Event::Answered(read, Answer::Failed(error)));
}

fn keys(count: usize) -> Vec<Row> {
    (0..count).map(|n| row(1, Some(&format!("k{n:03}")))).collect()
}

fn taken_over() -> Hand {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain();
    hand
}

fn walk(hand: &mut Hand) -> Read {
    hand.read(a_walk).expect("no walk")
}

#[test]
fn a_walk_that_brought_nothing_is_made_again_from_where_it_was_to_begin() {
    for is_made in [true, false] {
        let mut hand = taken_over();
        for keys_before in [0, 100] {
            if keys_before > 0 {
                let read = walk(&mut hand);
                hand.answer(read, keys(keys_before), false);
            }
            let read = walk(&mut hand);
            let wanted = read.wanted.clone();
            if is_made {
                fail(&mut hand, read);
            } else {
                hand.machine.on(hand.now, Event::Answered(read, Answer::NotMade));
            }
            let again = walk(&mut hand);
            assert_eq!(again.wanted, wanted, "made: {is_made}");
            // It is under way still: the next round of the test answers it anew.
            hand.machine.on(hand.now, Event::Answered(again, Answer::NotMade));
        }
    }
}

#[test]
fn a_walk_goes_on_behind_a_full_page_and_ends_with_one_that_is_not() {
    let mut hand = taken_over();
    let read = walk(&mut hand);
    hand.answer(read, keys(100), false);
    let read = walk(&mut hand);
    assert_eq!(read.wanted, Wanted::Walk(Lane(0), Some(Key::unchecked("k099"))));
    hand.answer(read, keys(99), false);
    assert!(hand.read(a_walk).is_none(), "there is nothing behind it");
}

#[test]
fn a_walk_of_a_lane_that_was_lost_meanwhile_is_not_made_again() {
    for gained_before in [true, false] {
        let mut hand = taken_over();
        let read = walk(&mut hand);
        let other = HeldLane { lane: Lane(1), term: Term(1), start: Start::Clean };
        if gained_before {
            hand.machine.on(hand.now, Event::Gained(vec![other]));
        }
        hand.lose();
        fail(&mut hand, read);
        if !gained_before {
            hand.machine.on(hand.now, Event::Gained(vec![other]));
        }
        let lost = |wanted: &Wanted| matches!(wanted, Wanted::Walk(Lane(0), _));
        assert!(hand.read(lost).is_none(), "nobody holds it");
    }
}

#[test]
fn a_store_that_answers_anything_but_an_idle_step_of_a_sweep_is_back() {
    let mut hand = Hand::new(1);
    let read = hand.read(|_| true).unwrap();
    fail(&mut hand, read);
    hand.machine.take_notes();
    hand.give_new(Vec::new());
    assert!(hand.machine.take_notes().contains(&Note::StoreBack));
}

#[test]
fn due_rows_are_read_at_once_behind_a_full_page_of_which_anything_came_in_and_later_behind_any_other() {
    let interval = Duration::from_secs(2);
    let next_due = |rows: Vec<Row>, more: bool| {
        let mut hand = Hand::with(1, |settings| settings.due_interval = interval);
        hand.give_new(vec![row(1, Some("k"))]);
        let read = hand.read(due).unwrap();
        let at = hand.now;
        hand.answer(read, rows, more);
        hand.read(due).expect("due rows are not read again");
        hand.now >= at + interval
    };
    assert!(!next_due(vec![retrying(2, "j")], true), "there is more");
    assert!(next_due(vec![retrying(2, "j")], false), "that was all");
    // It is in the window; a page of what waits only would come again and again.
    assert!(next_due(vec![row(1, Some("k"))], true), "it would only come again");
}

#[test]
fn the_read_of_due_rows_leaves_out_those_in_memory_that_it_could_bring_and_names_no_others() {
    let mut hand = Hand::new(1);
    let mut delayed = row(3, Some("c"));
    if let Content::Message(message) = &mut delayed.content {
        let at = Timestamp(1_000_000);
        *message = std::sync::Arc::new(Message::clone(message).deliver_at(at));
    }
    hand.give_new(vec![row(1, Some("a"))]);
    hand.give_due(vec![freed(2, "b"), delayed.clone()]);
    hand.give_due(vec![delayed]);
    let read = hand.read(due).unwrap();
    assert_eq!(read.wanted, Wanted::Due(vec![RowId(2), RowId(3)]));
}

#[test]
fn a_row_whose_time_has_not_come_goes_when_the_due_rows_bring_it_and_not_before() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![Row { due: Due::In(Duration::from_secs(9)), ..row(1, None) }, row(2, None)]);
    let sent: Vec<i64> = hand.flights.iter().flat_map(|(_, _, rows)| rows.clone()).collect();
    assert_eq!(sent, [2]);
    hand.give_due(vec![row(1, None)]);
    hand.flight(1);
}

#[test]
fn what_came_in_is_noted_and_that_nothing_came_is_not() {
    let read = |notes: &[Note]| -> Vec<u64> {
        notes.iter().filter_map(|note| if let Note::Read(rows) = note { Some(*rows) } else { None }).collect()
    };
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_secs(1));
    hand.give_new(Vec::new());
    assert!(read(&hand.machine.take_notes()).is_empty());
    hand.give_new(vec![row(1, None), row(2, None)]);
    assert_eq!(read(&hand.machine.take_notes()), [2]);
    let sweep = |wanted: &Wanted| matches!(wanted, Wanted::Sweep(_));
    for (rows, found) in [(Vec::new(), None), (vec![row(3, None)], Some(Note::SweepFound(1)))] {
        hand.give_to(sweep, rows);
        let notes = hand.machine.take_notes();
        assert_eq!(notes.into_iter().find(|note| matches!(note, Note::SweepFound(_))), found);
    }
}
