//! A sweep goes in steps, between which everything else goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use super::by_hand::{Hand, row};
use crate::machine::{Answer, Event, Note, Wanted};
use crate::*;

const ROUND: Duration = Duration::from_secs(100);

fn hand() -> Hand {
    Hand::with(1, |settings| settings.sweep_round = ROUND)
}

/// Answers everything with nothing until a step of a sweep is asked for; the row that it goes on after, and when.
fn next_step(hand: &mut Hand) -> (crate::machine::Read, RowId, Tick) {
    loop {
        let read = hand.read(|_| true).expect("a step is asked for");
        match read.wanted {
            Wanted::Sweep(after) => return (read, after, hand.now),
            _ => hand.answer(read, Vec::new(), false),
        }
    }
}

fn answer(hand: &mut Hand, read: crate::machine::Read, reached: Option<i64>, rows: Vec<Row>) {
    let reached = reached.map(|row| (Lane(0), RowId(row))).into_iter().collect::<BTreeMap<_, _>>();
    hand.machine.on(hand.now, Event::Answered(read, Answer::Page(Page { rows, reached, ..Page::EMPTY })));
    hand.act();
}

#[test]
fn steps_follow_each_other_after_a_pause_until_the_end_and_a_round_later_it_begins_anew() {
    let mut hand = hand();
    let (read, after, first) = next_step(&mut hand);
    assert_eq!(after, RowId(0));
    answer(&mut hand, read, Some(5_000), Vec::new());
    let (read, after, second) = next_step(&mut hand);
    assert_eq!(after, RowId(5_000), "where the last step ended");
    assert!(second >= first + Duration::from_millis(20) && second < first + Duration::from_millis(200), "{second:?}");
    answer(&mut hand, read, Some(i64::MAX), Vec::new());
    let (_, after, third) = next_step(&mut hand);
    assert_eq!(after, RowId(0));
    assert!(third >= second + ROUND && third < second + ROUND * 2);
}

#[test]
fn a_step_that_looked_at_nothing_or_failed_is_made_again() {
    let mut hand = hand();
    let (read, ..) = next_step(&mut hand);
    answer(&mut hand, read, Some(5_000), Vec::new());
    let (read, after, first) = next_step(&mut hand);
    answer(&mut hand, read, None, Vec::new());
    let (read, again, second) = next_step(&mut hand);
    assert_eq!(again, after, "no lane was read up to date");
    assert!(second >= first + Duration::from_secs(1) && second < first + Duration::from_secs(2), "{second:?}");
    let error = Error::new(ErrorKind::Unavailable, "gone");
    hand.machine.on(hand.now, Event::Answered(read, Answer::Failed(error)));
    assert_eq!(next_step(&mut hand).1, after);
}

#[test]
fn a_step_that_came_no_further_is_the_last_one_and_lanes_go_no_further_than_the_one_behind() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = ROUND);
    let (read, ..) = next_step(&mut hand);
    let reached = BTreeMap::from([(Lane(0), RowId(500)), (Lane(1), RowId(100))]);
    hand.machine.on(hand.now, Event::Answered(read, Answer::Page(Page { reached, ..Page::EMPTY })));
    hand.act();
    let (read, after, first) = next_step(&mut hand);
    assert_eq!(after, RowId(100));
    answer(&mut hand, read, Some(100), Vec::new());
    let (_, after, second) = next_step(&mut hand);
    assert!(after == RowId(0) && second >= first + ROUND, "{after:?} {second:?}");
}

#[test]
fn a_step_that_looked_at_nothing_does_not_say_that_the_store_is_back() {
    let mut hand = hand();
    let (read, ..) = next_step(&mut hand);
    answer(&mut hand, read, None, Vec::new());
    let read = hand.read(|wanted| matches!(wanted, Wanted::New)).unwrap();
    let error = Error::new(ErrorKind::Unavailable, "gone");
    hand.machine.on(hand.now, Event::Answered(read, Answer::Failed(error)));
    hand.machine.take_notes();
    hand.now = hand.now + Duration::from_secs(5);
    while let Some(read) = hand.read(|_| true) {
        let is_sweep = matches!(read.wanted, Wanted::Sweep(_));
        match is_sweep {
            true => answer(&mut hand, read, None, Vec::new()),
            false => {
                let error = Error::new(ErrorKind::Unavailable, "gone");
                hand.machine.on(hand.now, Event::Answered(read, Answer::Failed(error)));
            }
        }
        let notes = hand.machine.take_notes();
        assert!(!notes.iter().any(|note| matches!(note, Note::StoreBack)), "{notes:?}");
        if is_sweep {
            break;
        }
    }
}

#[test]
fn what_a_step_finds_is_sent_and_told_of() {
    let mut hand = hand();
    let (read, ..) = next_step(&mut hand);
    answer(&mut hand, read, Some(7), vec![row(7, None)]);
    assert!(hand.machine.take_notes().iter().any(|note| matches!(note, Note::SweepFound(1))));
    hand.flight(7);
}
