//! Whose turn it is to be read, how often and how far, and when nothing is left to be read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::by_hand::{Hand, a_look, aside, head, row};
use crate::machine::{Answer, Event, Read, Wanted};
use crate::*;

const ROUND: Duration = Duration::from_secs(4);

fn new(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::New)
}

fn a_walk(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Walk(..))
}

fn other(lane: u16) -> HeldLane {
    HeldLane { lane: Lane(lane), term: Term(1), start: Start::Clean }
}

fn taken_over(start: Start) -> Hand {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain_as(start);
    hand
}

fn fail(hand: &mut Hand, read: Read) {
    let error = Error::new(ErrorKind::Unavailable, "scripted");
    hand.machine.on(hand.now, Event::Answered(read, Answer::Failed(error)));
}

/// The next read of any kind.
fn next(hand: &mut Hand) -> Read {
    hand.read(|_| true).expect("it does not read")
}

/// The walk of a lane that was gained is under way, late: everything else was read before it.
fn walked_last(start: Start) -> (Hand, Read) {
    let mut hand = taken_over(start);
    let walk = hand.read(a_walk).unwrap();
    fail(&mut hand, walk);
    hand.give_new(Vec::new());
    let walk = loop {
        match next(&mut hand) {
            read if a_walk(&read.wanted) => break read,
            read if new(&read.wanted) => panic!("new rows are read again before the walk"),
            read => hand.answer(read, Vec::new(), false),
        }
    };
    hand.act();
    (hand, walk)
}

/// A window of eight rows that is read in pages of two, and a full one was read.
fn behind_a_full_page(start: Start, content: impl Fn(i64) -> Row) -> Hand {
    let mut hand = Hand::with(1, |settings| {
        (settings.window_rows, settings.page_rows, settings.window_bytes) = (8, 2, 1_000);
    });
    hand.lose();
    hand.gain_as(start);
    hand.give_to(a_walk, Vec::new());
    let read = hand.read(new).unwrap();
    assert_eq!(read.room.rows, 2);
    hand.answer(read, (1..=2).map(content).collect(), true);
    hand
}

#[test]
fn when_a_backlog_ends_nothing_more_is_asked_for_behind_the_read_that_was_asked_for_ahead() {
    let mut hand = behind_a_full_page(Start::Clean, |id| row(id, None));
    let (read, ahead) = (hand.read.take().unwrap(), hand.ahead.take().unwrap());
    let page = Page { rows: vec![row(3, None)], ..Page::EMPTY };
    hand.machine.on(hand.now, Event::Answered(read, Answer::Page(page)));
    hand.act();
    assert!(hand.read.is_none() && hand.ahead.is_none(), "one is under way that is not made any more");
    hand.machine.on(hand.now, Event::Answered(ahead, Answer::NotMade));
    assert!(hand.read(new).is_some_and(|read| !read.ahead));
}

/// What the answer says decides whether heads or messages are to be read next.
#[test]
fn during_a_careful_start_nothing_is_asked_for_ahead() {
    let hand = behind_a_full_page(Start::Careful, |id| head(id, None, 0));
    assert!(hand.read.as_ref().is_some_and(|read| new(&read.wanted)), "{:?}", hand.read);
    assert!(hand.ahead.is_none(), "{:?}", hand.ahead);
}

#[test]
fn without_a_lane_nothing_is_read() {
    let mut hand = Hand::new(1);
    hand.lose();
    for _ in 0..5 {
        hand.wait();
        assert!(hand.read.is_none() && hand.ahead.is_none());
    }
}

#[test]
fn a_store_that_failed_is_left_alone_for_a_while() {
    let mut hand = Hand::new(1);
    let read = hand.read(new).unwrap();
    fail(&mut hand, read);
    let failed_at = hand.now;
    hand.act();
    assert!(hand.read.is_none(), "it is asked again at once");
    next(&mut hand);
    assert!(hand.now >= failed_at + Duration::from_millis(25), "{:?}", hand.now);
}

#[test]
fn a_lane_that_is_read_in_part_is_swept() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_millis(50));
    hand.lose();
    hand.gain();
    for _ in 0..50 {
        hand.now = hand.now + Duration::from_millis(10);
        match next(&mut hand) {
            read if matches!(read.wanted, Wanted::Sweep(_)) => return assert_eq!(read.lanes.len(), 1),
            read if new(&read.wanted) => {
                let reached = BTreeMap::from([(Lane(0), RowId(5))]);
                let page = Page { more: true, reached, ..Page::EMPTY };
                hand.machine.on(hand.now, Event::Answered(read, Answer::Page(page)));
            }
            read => hand.answer(read, Vec::new(), false),
        }
    }
    panic!("what its reading missed waits for the end of the backlog");
}

/// The message that killed the relay before may be among those that the walk tells of.
#[test]
fn what_a_walk_finds_that_comes_last_is_looked_at_carefully() {
    let (mut hand, walk) = walked_last(Start::Careful);
    hand.answer(walk, vec![aside(1, "k")], false);
    let look = hand.read(a_look).unwrap();
    assert_eq!(look.lanes[0].start, Start::Careful);
}

#[test]
fn the_careful_start_is_over_with_the_walk_that_comes_last_and_finds_nothing() {
    let (mut hand, walk) = walked_last(Start::Careful);
    assert_eq!(hand.machine.held()[0].start, Start::Careful);
    hand.answer(walk, Vec::new(), false);
    assert_eq!(hand.machine.held()[0].start, Start::Clean);
}

#[test]
fn a_walk_goes_on_behind_a_full_page() {
    let mut hand = taken_over(Start::Clean);
    let keys: Vec<Row> = (1..=100).map(|id| aside(id, &format!("k{id:03}"))).collect();
    let last = keys[99].key().cloned();
    hand.give_to(a_walk, keys);
    assert_eq!(hand.read(a_walk).expect("what lies behind it is stranded").wanted, Wanted::Walk(Lane(0), last));
}

#[test]
fn a_walk_waits_while_a_thousand_keys_are_to_be_looked_at() {
    let mut hand = taken_over(Start::Clean);
    let (mut walked, mut looked) = (0, 0);
    for _ in 0..80 {
        let read = next(&mut hand);
        let keys = match read.wanted {
            Wanted::Walk(..) => (walked..walked + 100).map(|id| aside(id, &format!("k{id:05}"))).collect(),
            _ => Vec::new(),
        };
        looked += i64::from(a_look(&read.wanted));
        walked += i64::try_from(keys.len()).unwrap();
        assert!(walked - looked <= 1_100, "{walked} keys are in memory");
        hand.answer(read, keys, false);
    }
    assert!(walked >= 1_000, "{walked}");
}

#[test]
fn a_look_asks_for_more_rows_than_those_of_its_key_that_are_in_memory() {
    let mut hand = Hand::with(2, |settings| settings.sweep_round = Duration::from_secs(1));
    hand.give_new((1..=20).map(|id| row(id, Some("k"))).collect());
    while let Some((destination, flight, rows)) = hand.flights.pop() {
        match destination.get() {
            0 => hand.publish((flight, rows.len()), None),
            _ => hand.publish_unsent((flight, rows.len())),
        }
    }
    assert_eq!(hand.machine.window().0, 20, "they wait for the destination that pauses");
    hand.give_to(a_walk, vec![aside(21, "k")]);
    let look = hand.read(a_look).expect("the other destination does not pause");
    assert!(look.room.rows > 20, "{:?} would bring nothing but what is here", look.room);
}

#[test]
fn a_lane_that_is_lost_before_it_is_read_leaves_nothing_to_do() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain();
    hand.machine.on(hand.now, Event::Gained(vec![other(1)]));
    hand.machine.on(hand.now, Event::Lost(vec![Lane(1)]));
    let mut walked = Vec::new();
    for _ in 0..20 {
        let read = next(&mut hand);
        if let Wanted::Walk(lane, _) = read.wanted {
            walked.push(lane);
        }
        hand.answer(read, Vec::new(), false);
    }
    assert_eq!(walked, [Lane(0)], "that of the lane that is held, and no other one");
    assert!(hand.machine.is_idle());
}

#[test]
fn every_lane_has_its_waiting_keys_walked_within_a_round() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = ROUND);
    hand.machine.on(hand.now, Event::Gained((1..4).map(other).collect()));
    let mut walked = BTreeSet::new();
    loop {
        let read = next(&mut hand);
        if hand.now >= Tick::ZERO + ROUND * 2 {
            break;
        }
        match &read.wanted {
            // Before that the walks of the beginning are made.
            Wanted::Walk(lane, _) if hand.now >= Tick::ZERO + ROUND => walked.insert(*lane),
            _ => false,
        };
        hand.answer(read, Vec::new(), false);
    }
    assert_eq!(walked.len(), 4, "{walked:?}");
}

/// Whoever drives it would turn without a pause otherwise.
#[test]
fn what_is_due_at_the_moment_at_which_it_wants_to_be_asked_is_done_at_that_moment() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_millis(50));
    let mut swept = 0;
    for _ in 0..200 {
        hand.act();
        match hand.read.take() {
            Some(read) => {
                swept += i32::from(matches!(read.wanted, Wanted::Sweep(_)));
                hand.answer(read, Vec::new(), false);
                // Asked for by the answer.
                continue;
            }
            None => {
                let wake = hand.machine.wake_at(hand.now);
                assert!(wake > hand.now, "it was asked just now");
                hand.now = wake;
            }
        }
    }
    assert!(swept > 3);
}

#[test]
fn a_relay_that_found_nothing_is_idle_while_it_looks_for_new_rows_again() {
    let mut hand = Hand::new(1);
    let read = hand.read(new).unwrap();
    assert!(hand.machine.is_idle());
    hand.answer(read, Vec::new(), true);
    assert!(!hand.machine.is_idle(), "there are more");
    hand.give_new(Vec::new());
    assert!(hand.machine.is_idle());
}

#[test]
fn a_relay_is_not_idle_before_the_walk_of_its_lane_was_answered() {
    let (mut hand, walk) = walked_last(Start::Clean);
    assert!(!hand.machine.is_idle(), "a walk is under way");
    fail(&mut hand, walk);
    assert!(!hand.machine.is_idle(), "it is to be made again");
    hand.give_to(a_walk, Vec::new());
    assert!(hand.machine.is_idle());
}

#[test]
fn a_relay_is_not_idle_before_a_look_for_due_rows_found_nothing() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![Row { retrying: Retrying::Yes, ..row(1, None) }]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[1]);
    assert_eq!(hand.machine.window(), (0, 0));
    assert!(!hand.machine.is_idle(), "others may be due behind it");
    hand.give_due(Vec::new());
    assert!(hand.machine.is_idle());
}
