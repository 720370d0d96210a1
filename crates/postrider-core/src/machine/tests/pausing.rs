//! What a failure says about its destination: whether it pauses, for whom, and how the pause ends.

use std::collections::BTreeMap;
use std::time::Duration;

use super::by_hand::{Hand, retrying, row};
use super::world::name;
use crate::machine::{Event, Note, Ordering, Settings};
use crate::*;

fn shared(settings: &mut Settings) {
    settings.destinations[0].profile.isolation = Isolation::SharedConnection;
}

/// Answers the call with row 1 in it: that row fails, its neighbours are accepted.
fn first_fails(hand: &mut Hand, kind: ErrorKind) {
    let (_, _, rows) = hand.flights.iter().find(|(_, _, rows)| rows.contains(&1)).expect("it was not sent").clone();
    let results = rows.iter().map(|row| match row {
        1 => Published::Failed(Error::new(kind, "scripted")),
        _ => Published::Accepted(Accepted::FRESH),
    });
    let results = results.collect();
    let (flight, _) = hand.flight(1);
    hand.machine.on(hand.now, Event::Published(flight, results));
}

fn pauses_for_one_of_three(change: impl Fn(&mut Settings), kind: ErrorKind) -> bool {
    let mut hand = Hand::with(1, change);
    hand.give_new(vec![row(1, None), row(2, None), row(3, None)]);
    assert_eq!(hand.flights[0].2.len(), 3, "they travel together");
    first_fails(&mut hand, kind);
    hand.machine.destinations()[0].paused.is_some()
}

#[test]
fn a_destination_that_accepts_the_neighbours_of_a_failure_does_not_pause() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Config] {
        assert!(!pauses_for_one_of_three(|_| {}, kind), "{kind:?}");
    }
}

#[test]
fn a_destination_that_throttles_pauses_whatever_else_it_accepted() {
    assert!(pauses_for_one_of_three(|_| {}, ErrorKind::Throttled));
}

#[test]
fn a_shared_connection_pauses_for_what_may_have_broken_it_and_for_nothing_less() {
    for (kind, pauses) in [(ErrorKind::Unavailable, true), (ErrorKind::Unknown, true), (ErrorKind::Config, false)] {
        assert_eq!(pauses_for_one_of_three(shared, kind), pauses, "{kind:?}");
    }
}

#[test]
fn what_was_accepted_and_what_failed_is_told_as_it_was() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None), row(2, None), row(3, None)]);
    hand.machine.take_notes();
    first_fails(&mut hand, ErrorKind::Rejected);
    let notes = hand.machine.take_notes();
    let accepted = notes.iter().filter_map(|note| match note {
        Note::Accepted(_, count) => Some(*count),
        _ => None,
    });
    assert_eq!(accepted.collect::<Vec<_>>(), [2]);
    let failed = |note: &&Note| matches!(note, Note::Failed { kind: ErrorKind::Rejected, .. });
    assert_eq!(notes.iter().filter(failed).count(), 1);
}

#[test]
fn where_nothing_was_accepted_nothing_is_told_of_acceptances() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None)]);
    hand.machine.take_notes();
    first_fails(&mut hand, ErrorKind::Rejected);
    assert!(!hand.machine.take_notes().iter().any(|note| matches!(note, Note::Accepted(..))));
}

/// The next probe of a paused destination.
fn probe(hand: &mut Hand) -> (crate::machine::Flight, usize) {
    for _ in 0..2_000 {
        if !hand.flights.is_empty() {
            let row = hand.flights[0].2[0];
            return hand.flight(row);
        }
        if let Some(read) = hand.read.take() {
            hand.answer(read, Vec::new(), false);
        } else {
            hand.wait();
        }
    }
    panic!("it is never tried again");
}

#[test]
fn a_probe_whose_message_was_at_fault_is_followed_by_another() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None), row(2, None)]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    let flight = probe(&mut hand);
    hand.publish(flight, Some(ErrorKind::Rejected));
    let flight = probe(&mut hand);
    hand.publish(flight, None);
    assert_eq!(hand.machine.destinations()[0].paused, None);
}

/// After how many failed probes a message makes room, of so many at most.
fn makes_room_after(rows: usize, change: impl Fn(&mut Settings), is_sent: bool) -> Option<usize> {
    let mut hand = Hand::with(1, |settings| {
        settings.window_rows = rows;
        change(settings);
    });
    hand.give_new(vec![row(1, Some("a"))]);
    for probes in 0..20 {
        let flight = probe(&mut hand);
        match is_sent {
            true => hand.publish(flight, Some(ErrorKind::Unavailable)),
            false => hand.publish_unsent(flight),
        }
        if !hand.settles.is_empty() {
            return Some(probes);
        }
    }
    None
}

#[test]
fn a_message_that_fails_as_a_probe_makes_room_only_in_a_full_window_and_only_after_a_while() {
    let after = makes_room_after(1, |_| {}, true).expect("nothing else is ever tried");
    assert!(after > 1, "an outage is no reason to put every message back at once");
    assert_eq!(makes_room_after(100, |_| {}, true), None, "there is room");
}

#[test]
fn no_message_makes_room_where_no_other_could_end_the_pause() {
    assert_eq!(makes_room_after(1, |settings| settings.ordering = Ordering::Everything, true), None);
    assert_eq!(makes_room_after(1, |_| {}, false), None, "nothing can be sent");
}

#[test]
fn attempts_at_one_destination_are_not_charged_to_another() {
    let mut hand = Hand::new(2);
    let progress = BTreeMap::from([(name(0), 1_000)]);
    let row = Row { attempts: 1_000, waiting_for: Some(vec![name(1)]), progress, ..retrying(1, "k") };
    hand.give_due(vec![row]);
    first_fails(&mut hand, ErrorKind::Rejected);
    hand.act();
    assert!(matches!(hand.settle()[..], [Settlement { outcome: Outcome::Retry { .. }, .. }]));
}

#[test]
fn the_only_destination_is_charged_with_every_attempt_of_the_row() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![Row { attempts: 1_000, ..retrying(1, "k") }]);
    first_fails(&mut hand, ErrorKind::Rejected);
    hand.act();
    assert!(matches!(hand.settle()[..], [Settlement { outcome: Outcome::Dead { .. }, .. }]));
}

#[test]
fn what_cannot_be_forwarded_anywhere_is_a_dead_letter() {
    let mut hand = Hand::with(1, |settings| settings.on_dead = vec![(TopicPattern::every(), OnDead::Forward)]);
    hand.give_due(vec![Row { attempts: 1_000, ..retrying(1, "k") }]);
    first_fails(&mut hand, ErrorKind::Rejected);
    hand.act();
    assert!(matches!(hand.settle()[..], [Settlement { outcome: Outcome::Dead { .. }, .. }]), "owed to nobody for ever");
}

#[test]
fn a_row_owed_to_some_destinations_only_ends_at_its_time_too() {
    let mut hand = Hand::new(1);
    let lifetime = Lifetime { expires: Expires::In(Duration::ZERO), ..Lifetime::default() };
    hand.give_due(vec![Row { lifetime, waiting_for: Some(vec![name(0)]), ..retrying(1, "k") }]);
    assert!(hand.flights.is_empty(), "it was sent after its time");
    assert!(matches!(
        hand.settle()[..],
        [Settlement { outcome: Outcome::Dead { reason: DeadReason::Expired, .. }, .. }]
    ));
}
