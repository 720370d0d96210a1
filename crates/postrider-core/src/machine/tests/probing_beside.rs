//! Heads as probes of a destination that pauses, and what else is in hands or pauses at that time.

use std::time::Duration;

use super::by_hand::{Hand, head, only, row};
use super::careful::{record, some_rows, suspected, taken_over};
use crate::machine::{DestinationIndex, Event, Flight};
use crate::*;

/// The one that works, unless a test says otherwise, and the one that pauses.
const WORKS: usize = 0;
const PAUSES: usize = 1;

/// Gives the head of a row that one destination is owed, which is taken by itself and sent.
fn send(hand: &mut Hand, destination: usize, id: i64, suspicion: u16) -> (Flight, usize) {
    hand.give_new(vec![only(destination, head(id, None, suspicion))]);
    assert_eq!(record(hand), [(id, suspicion + 1)]);
    hand.give_to(some_rows, vec![only(destination, row(id, None))]);
    hand.flight(id)
}

/// The one destination pauses, and was tried with the only message in memory, of row 9.
fn pausing() -> Hand {
    let mut hand = Hand::new(2);
    hand.lose();
    hand.gain_as(Start::Careful);
    let flight = send(&mut hand, PAUSES, 9, 0);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!(record(&mut hand), [(9, 0)]);
    assert!(hand.machine.destinations()[PAUSES].paused.is_some());
    hand
}

fn step(hand: &mut Hand) {
    match hand.read.take() {
        Some(read) => hand.answer(read, Vec::new(), false),
        None => hand.wait(),
    }
}

/// Time passes until row 9 is the probe of its destination; nothing is taken before.
fn tried_again_with_the_same(hand: &mut Hand) {
    for _ in 0..1_000 {
        assert!(hand.settles.is_empty(), "{:?}", hand.settles);
        if hand.flights.iter().any(|(place, ..)| place.get() == PAUSES) {
            let flight = hand.flight(9);
            return hand.publish(flight, Some(ErrorKind::Unavailable));
        }
        step(hand);
    }
    panic!("nothing is tried");
}

/// Time passes until something is taken.
fn next_taken(hand: &mut Hand) -> Vec<(i64, u16)> {
    for _ in 0..1_000 {
        if !hand.settles.is_empty() {
            return suspected(&hand.settles[0]);
        }
        while let Some((_, flight, rows)) = hand.flights.pop() {
            hand.publish((flight, rows.len()), Some(ErrorKind::Unavailable));
        }
        step(hand);
    }
    panic!("nothing is taken");
}

fn delivered(hand: &mut Hand, id: i64, flight: (Flight, usize)) {
    hand.publish(flight, None);
    assert_eq!(hand.settle()[0].outcome, Outcome::Delivered);
    hand.settled(&[id]);
}

/// Should the relay die now, nobody could say of which of them.
#[test]
fn no_probe_is_taken_beside_a_suspect() {
    let mut hand = pausing();
    let suspect = send(&mut hand, WORKS, 1, 1);
    hand.give_new(vec![only(PAUSES, head(2, None, 0))]);
    tried_again_with_the_same(&mut hand);
    delivered(&mut hand, 1, suspect);
    assert_eq!(next_taken(&mut hand), [(2, 1)]);
}

/// With one probe after the other, its turn would never come.
#[test]
fn no_probe_is_taken_while_a_suspect_waits_for_its_turn() {
    let mut hand = pausing();
    let before = send(&mut hand, WORKS, 3, 0);
    hand.give_new(vec![only(WORKS, head(4, None, 1)), only(PAUSES, head(2, None, 0))]);
    tried_again_with_the_same(&mut hand);
    delivered(&mut hand, 3, before);
    assert_eq!(suspected(&hand.settle()), [(4, 2)]);
}

#[test]
fn a_suspect_is_no_probe_beside_others_and_what_nobody_suspects_is() {
    for suspicion in [0, 1] {
        let mut hand = pausing();
        let beside = send(&mut hand, WORKS, 3, 0);
        hand.give_new(vec![only(PAUSES, head(2, None, suspicion))]);
        if suspicion > 0 {
            tried_again_with_the_same(&mut hand);
            delivered(&mut hand, 3, beside);
        }
        assert_eq!(next_taken(&mut hand), [(2, suspicion + 1)], "the pause might last for ever");
    }
}

/// Relays died of it: its end is to be decided when the destination is back, and not by one death more.
#[test]
fn a_message_with_which_three_relays_died_is_no_probe() {
    let mut hand = pausing();
    hand.give_new(vec![only(PAUSES, head(2, None, 3))]);
    for _ in 0..3 {
        tried_again_with_the_same(&mut hand);
    }
}

#[test]
fn a_message_is_no_probe_of_a_destination_that_is_not_owed_it() {
    let mut hand = Hand::new(2);
    hand.lose();
    hand.gain_as(Start::Careful);
    // This one is to be left alone for long.
    let (flight, _) = send(&mut hand, WORKS, 7, 0);
    let error = Error::new(ErrorKind::Throttled, "scripted").retry_after(Duration::from_secs(25));
    hand.machine.on(hand.now, Event::Published(flight, vec![Published::Failed(error)]));
    hand.act();
    assert_eq!(record(&mut hand), [(7, 0)]);
    let flight = send(&mut hand, PAUSES, 9, 0);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!(record(&mut hand), [(9, 0)]);
    hand.give_new(vec![only(WORKS, head(2, None, 0))]);
    for _ in 0..3 {
        tried_again_with_the_same(&mut hand);
    }
    assert!(hand.machine.destinations().iter().all(|destination| destination.paused.is_some()));
}

#[test]
fn a_mere_look_and_no_head_tries_a_destination_for_which_no_message_is_in_memory() {
    let mut hand = taken_over();
    hand.give_new(vec![head(1, None, 0)]);
    assert_eq!(record(&mut hand), [(1, 1)]);
    hand.give_to(some_rows, vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    hand.lose();
    hand.settles.clear();
    hand.machine.on(hand.now, Event::Settled(Ok(Settled { rows: vec![RowId(1)], lanes: vec![Lane(0)] })));
    hand.gain_as(Start::Careful);
    hand.give_new(vec![head(2, None, 0)]);
    while hand.checks == 0 {
        assert!(hand.settles.is_empty(), "{:?}", hand.settles);
        step(&mut hand);
    }
    hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
    hand.act();
    assert_eq!(suspected(&hand.settle()), [(2, 1)]);
}
