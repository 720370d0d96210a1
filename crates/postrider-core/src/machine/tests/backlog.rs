//! A backlog is read ahead: what a read promises of the window, and when it is not made.

use super::by_hand::{Hand, row};
use crate::machine::*;
use crate::*;

/// A window of eight rows that is read in pages of two.
fn hand() -> Hand {
    Hand::with(1, |settings| {
        (settings.window_rows, settings.page_rows, settings.window_bytes) = (8, 2, 1_000);
    })
}

fn new(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::New)
}

/// The next read of new rows brings a full page of rows of this weight.
fn full_page(hand: &mut Hand, first: i64, weight: usize) {
    let read = hand.read(new).unwrap();
    let count = i64::try_from(read.room.rows).unwrap();
    let rows = (first..first + count).map(|id| Row { weight, ..row(id, None) }).collect();
    hand.answer(read, rows, true);
}

#[test]
fn behind_a_full_page_the_next_read_is_asked_for_ahead_out_of_what_is_left() {
    let mut hand = hand();
    full_page(&mut hand, 1, 10);
    let (read, ahead) = (hand.read.as_ref().unwrap(), hand.ahead.as_ref().unwrap());
    assert_eq!((&read.wanted, &ahead.wanted), (&Wanted::New, &Wanted::New));
    let (rows, bytes) = hand.machine.window();
    assert!(rows + read.room.rows + ahead.room.rows <= 8);
    assert!(bytes + read.room.bytes + ahead.room.bytes <= 1_000);
}

#[test]
fn a_window_without_room_for_two_pages_is_read_one_at_a_time() {
    let mut hand = hand();
    full_page(&mut hand, 1, 10);
    full_page(&mut hand, 3, 10);
    full_page(&mut hand, 5, 10);
    assert!(hand.read.is_some() && hand.ahead.is_none(), "six rows are in the window, two are promised");
}

#[test]
fn the_read_by_which_a_source_forgets_a_lane_is_not_asked_for_ahead() {
    let mut hand = hand();
    full_page(&mut hand, 1, 10);
    assert!(hand.ahead.is_some());
    hand.lose();
    hand.gain_again(Start::Clean);
    full_page(&mut hand, 3, 10);
    assert!(hand.read.is_some() && hand.ahead.is_none(), "one that is asked for ahead may not be made");
    full_page(&mut hand, 5, 10);
    assert_eq!(hand.read(new).unwrap().lanes, []);
}

#[test]
fn behind_heavy_rows_nothing_is_asked_for_ahead() {
    let mut hand = hand();
    full_page(&mut hand, 1, 126);
    assert!(hand.read.is_some() && hand.ahead.is_none(), "the window holds fewer than four such pages");
}

#[test]
fn behind_a_page_that_is_not_full_nothing_is_asked_for_ahead() {
    let mut hand = hand();
    let read = hand.read(new).unwrap();
    hand.answer(read, vec![row(1, None)], true);
    assert!(hand.read.is_some() && hand.ahead.is_none());
}

#[test]
fn a_read_goes_on_only_where_its_room_was_filled_and_sufficed() {
    let read = hand().read(new).unwrap();
    let page = |count: i64, weight: usize, more: bool| {
        let rows = (1..=count).map(|id| Row { weight, ..row(id, None) }).collect();
        Answer::Page(Page { rows, more, ..Page::EMPTY })
    };
    assert!(read.goes_on(&page(2, 10, true)));
    assert!(!read.goes_on(&page(2, 10, false)), "there is nothing more");
    assert!(!read.goes_on(&page(1, 10, true)), "something ended the page before it was full");
    assert!(!read.goes_on(&page(2, 501, true)), "the rows take more than was promised");
    assert!(!read.goes_on(&Answer::NotMade));
}

#[test]
fn a_look_that_was_not_made_is_asked_for_again() {
    let look = |wanted: &Wanted| matches!(wanted, Wanted::Key(..));
    let mut hand = hand();
    full_page(&mut hand, 1, 10);
    let read = hand.read.take().unwrap();
    let behind_its_head = Row { closed: Closed::ForAll, ..row(3, Some("k")) };
    hand.answer(read, vec![behind_its_head, row(4, None)], true);
    hand.settle();
    hand.settled(&[3]);
    full_page(&mut hand, 5, 10);
    assert!(look(&hand.ahead.as_ref().unwrap().wanted), "the look takes its turn behind a page of the backlog");
    let read = hand.read.take().unwrap();
    hand.answer(read, Vec::new(), false);
    assert!(hand.read(look).is_some());
}
