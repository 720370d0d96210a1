//! How long a lane whose owner died is read carefully, and by which way of finding its rows.

use std::time::Duration;

use super::by_hand::{Hand, a_look, aside, head, row};
use super::careful::{some_rows, suspected, taken_over};
use super::world::name;
use crate::machine::{Answer, Event, Read, Wanted};
use crate::*;

fn new_rows(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::New)
}

fn due_rows(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Due(_))
}

fn a_walk(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Walk(..))
}

fn a_sweep(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Sweep(_))
}

/// How the next read of a kind treats the lane; it finds nothing.
fn start_of(hand: &mut Hand, kind: impl Fn(&Wanted) -> bool) -> Start {
    let read = hand.read(kind).expect("no such read");
    let start = read.lanes[0].start;
    hand.answer(read, Vec::new(), false);
    start
}

fn fails(hand: &mut Hand, read: Read) {
    let error = Error::new(ErrorKind::Unavailable, "scripted");
    hand.machine.on(hand.now, Event::Answered(read, Answer::Failed(error)));
    hand.act();
}

/// What is found one way says nothing of what is found another way.
#[test]
fn what_was_read_to_its_end_is_read_whole_while_something_set_aside_is_still_to_be_looked_at() {
    let mut hand = taken_over();
    hand.give_to(a_walk, vec![aside(1, "k")]);
    assert_eq!(start_of(&mut hand, new_rows), Start::Careful, "any may have been in the dead relay's hands");
    hand.give_to(a_look, vec![Row { state: RowState::SetAside, ..head(1, Some("k"), 0) }]);
    start_of(&mut hand, due_rows);
    // What stands behind the first one of the key is looked at when that one is through.
    assert_eq!((start_of(&mut hand, new_rows), start_of(&mut hand, due_rows)), (Start::Clean, Start::Clean));
    assert_eq!(hand.machine.held()[0].start, Start::Careful);
    assert_eq!(suspected(&hand.settle()), [(1, 1)]);
    hand.settled(&[1]);
    hand.give_to(some_rows, vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[1]);
    assert_eq!(start_of(&mut hand, a_look), Start::Careful, "the message that kills would come whole");
}

#[test]
fn what_was_set_aside_is_looked_at_carefully_though_everything_else_was_read_before_the_walk() {
    for answered_late in [false, true] {
        let mut hand = taken_over();
        let (mut new, mut due) = (false, false);
        let walk = loop {
            let read = hand.read(|_| true).unwrap();
            match read.wanted {
                Wanted::Walk(..) if new && due => break read,
                Wanted::Walk(..) => {
                    fails(&mut hand, read);
                    continue;
                }
                Wanted::New => new = true,
                Wanted::Due(_) => due = true,
                _ => {}
            }
            hand.answer(read, Vec::new(), false);
        };
        if answered_late {
            (0..3).for_each(|_| hand.act());
        }
        hand.answer(walk, vec![aside(1, "a")], false);
        assert_eq!(start_of(&mut hand, a_look), Start::Careful, "the message that kills would come whole");
        start_of(&mut hand, due_rows);
        assert_eq!(hand.machine.held()[0].start, Start::Clean, "nothing is left that was not looked at");
    }
}

#[test]
fn a_sweep_brings_heads_while_new_rows_of_the_lane_are_still_to_be_read() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_millis(50));
    hand.lose();
    hand.gain_as(Start::Careful);
    for id in 1..1_000 {
        hand.now = hand.now + Duration::from_millis(1);
        let read = hand.read(|_| true).expect("a sweep is due");
        match read.wanted {
            Wanted::Sweep(_) if !read.lanes.is_empty() => {
                assert_eq!(read.lanes[0].start, Start::Careful, "the message that kills would come whole");
                return;
            }
            // Of these none is due, so that nothing in memory says that the lane is careful.
            Wanted::New => {
                let later = Row { due: Due::In(Duration::from_secs(60)), ..head(id, None, 0) };
                hand.answer(read, vec![later], true);
            }
            _ => hand.answer(read, Vec::new(), false),
        }
    }
    panic!("no sweep");
}

/// New rows may hold other suspects, but what was set aside comes one key after the other: were it waited for, the message
/// that kills would wait for itself.
#[test]
fn a_message_that_was_set_aside_is_given_up_when_the_new_rows_are_read() {
    let mut hand = taken_over();
    hand.give_to(a_walk, vec![aside(1, "k")]);
    hand.give_new(Vec::new());
    hand.give_to(a_look, vec![Row { state: RowState::SetAside, ..head(1, Some("k"), 3) }]);
    let batch = hand.settle();
    assert!(matches!(batch[0].outcome, Outcome::Dead { reason: DeadReason::RelayDied, .. }), "{batch:?}");
}

#[test]
fn a_lane_that_was_lost_leaves_nothing_to_be_careful_about_when_it_comes_back_clean() {
    let only = |row: Row| Row { waiting_for: Some(vec![name(0)]), ..row };
    let mut hand = Hand::with(2, |settings| settings.window_rows = 3);
    hand.lose();
    hand.gain_as(Start::Careful);
    // One is sent, its destination pauses, and all of them go back to the table.
    hand.give_new(vec![only(head(1, None, 0)), only(head(2, None, 1)), only(head(3, Some("k"), 2))]);
    assert_eq!(suspected(&hand.settle()), [(1, 1)]);
    hand.settled(&[1]);
    hand.give_to(some_rows, vec![only(row(1, None))]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    for _ in 0..20 {
        while !hand.settles.is_empty() {
            let rows: Vec<i64> = hand.settle().iter().map(|one| one.row.0).collect();
            hand.settled(&rows);
        }
        hand.wait();
    }
    assert_eq!(start_of(&mut hand, due_rows), Start::Careful, "two were not tried");
    // Another relay tried them meanwhile, and released the lane.
    hand.lose();
    hand.gain();
    hand.give_to(a_walk, Vec::new());
    assert_eq!(start_of(&mut hand, due_rows), Start::Clean);
    hand.hand_back();
    assert_eq!(hand.released[0].start, Start::Clean, "whoever reads it next would begin carefully for nothing");
}

#[test]
fn rows_of_a_clean_lane_that_are_set_aside_come_back_whole() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_millis(50));
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.give_new(vec![row(2, Some("k"))]);
    hand.publish(flight, Some(ErrorKind::Rejected));
    while !hand.settles.is_empty() {
        let rows: Vec<i64> = hand.settle().iter().map(|one| one.row.0).collect();
        hand.settled(&rows);
    }
    assert_eq!(hand.machine.window().0, 0, "one waits for its next attempt, and one behind it");
    assert_eq!((start_of(&mut hand, due_rows), start_of(&mut hand, a_sweep)), (Start::Clean, Start::Clean));
}
