//! Who is to blame, and what a pause does.

use std::collections::BTreeSet;

use super::broker::{Mode, Poison};
use super::by_hand::{Hand, freed, retrying, row, rows_of};
use super::world::World;
use crate::machine::{Event, Note};
use crate::*;

const OUTAGES: [Mode; 5] = [
    Mode::Down(ErrorKind::Unavailable),
    Mode::Down(ErrorKind::Throttled),
    Mode::Down(ErrorKind::Config),
    Mode::Down(ErrorKind::Unknown),
    Mode::Mute,
];

#[test]
fn a_paused_destination_counts_no_attempt_and_goes_on_by_itself() {
    for isolation in [Isolation::SharedConnection, Isolation::PerMessage] {
        for mode in OUTAGES {
            let mut world = World::small(OrderInBatch::Kept, isolation);
            world.brokers[0].mode = mode;
            for n in 0..100 {
                world.keyed(&format!("k{}", n % 9));
            }
            world.run(60_000);
            assert!(world.notes.iter().any(|note| matches!(note, Note::Paused(..))), "{mode:?}");
            world.brokers[0].mode = Mode::Up;
            assert!(world.until(60, World::is_done));
            assert_eq!(world.seen.charged, 0, "{mode:?} {isolation:?}");
            assert!(world.dead().is_empty());
        }
    }
}

/// Each failed before, and others were accepted since: outside the pause it would be charged.
#[test]
fn a_probe_is_not_charged_for_what_was_accepted_before_the_pause() {
    let mut hand = Hand::new(1);
    let key = |id| format!("k{id}");
    for (id, kind) in [(1, Some(ErrorKind::Rejected)), (2, Some(ErrorKind::Rejected)), (3, None)] {
        hand.give_new(vec![row(id, Some(&key(id)))]);
        let flight = hand.flight(id);
        hand.publish(flight, kind);
        assert_eq!(rows_of(&hand.settle()), [id]);
        hand.settled(&[id]);
    }
    hand.pause(0, 9);
    hand.give_due([1, 2].map(|id| retrying(id, &key(id))).to_vec());
    let mut probes = BTreeSet::new();
    for _ in 0..12 {
        let flight = next_flight(&mut hand);
        probes.insert(flight.2[0]);
        hand.publish((flight.1, flight.2.len()), Some(ErrorKind::Unavailable));
        assert!(hand.flights.is_empty(), "the next one waits");
        assert!(hand.settles.is_empty(), "the outage is nobody's fault: {:?}", hand.settles);
    }
    assert_eq!(probes, BTreeSet::from([1, 2, 9]));
    while hand.machine.destinations()[0].paused.is_some() {
        let flight = next_flight(&mut hand);
        let failure = (flight.2 != [9]).then_some(ErrorKind::Unavailable);
        hand.publish((flight.1, flight.2.len()), failure);
    }
    hand.settle();
    hand.settled(&[9]);
    let flight = next_flight(&mut hand);
    hand.publish((flight.1, flight.2.len()), Some(ErrorKind::Unavailable));
    let settled = hand.settle();
    assert!(matches!(settled[0].outcome, Outcome::Retry { attempts: 2, .. }), "its own fault: {settled:?}");
}

/// What is sent next.
fn next_flight(hand: &mut Hand) -> (crate::machine::DestinationIndex, crate::machine::Flight, Vec<i64>) {
    for _ in 0..100_000 {
        hand.act();
        if !hand.flights.is_empty() {
            return hand.flights.remove(0);
        }
        if let Some(read) = hand.read.take() {
            hand.answer(read, Vec::new(), false);
        }
        hand.wait();
    }
    panic!("nothing is sent")
}

#[test]
fn a_probe_is_one_message_and_rotates_over_the_keys() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::SharedConnection);
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    for n in 0..12 {
        world.keyed(&format!("k{n}"));
    }
    world.until(600, |world| world.brokers[0].calls.len() > 13);
    let probes: BTreeSet<_> = world.brokers[0].calls[1..13].iter().map(|call| call[0]).collect();
    assert!(world.brokers[0].calls[1..].iter().all(|call| call.len() == 1));
    assert_eq!(probes.len(), 12, "a different key each time");
}

#[test]
fn sixteen_distinct_rejections_pause_and_one_message_alone_is_charged() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.brokers[0].mode = Mode::Down(ErrorKind::Rejected);
    for _ in 0..100 {
        world.unkeyed();
    }
    world.run(30_000);
    assert!(world.notes.iter().any(|note| matches!(note, Note::Paused(_, ErrorKind::Rejected, _))));
    assert!(world.dead().is_empty());
    let charged: BTreeSet<_> = world.table.rows.iter().filter(|(_, row)| row.attempts > 0).map(|(id, _)| *id).collect();
    assert!(charged.len() < 16, "{charged:?}");
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(60, World::is_done));

    let bad = world.unkeyed();
    let poison = world.id(bad);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    assert!(world.until(60, |world| world.dead() == [bad]));
}

#[test]
fn a_message_that_breaks_the_connection_alone_becomes_dead_and_no_innocent_is_charged() {
    for order in [OrderInBatch::Kept, OrderInBatch::NotKept] {
        let mut world = World::small(order, Isolation::SharedConnection);
        let bad = world.keyed("bad");
        let poison = world.id(bad);
        world.brokers[0].poison.insert(poison, Poison::Breaks);
        for n in 0..4_000 {
            let key = format!("k{}", n % 50);
            world.write(Message::new("all", "x").key(&key), n * 5_000, |_| ());
        }
        assert!(world.until(120, World::is_done));
        assert_eq!(world.dead(), [bad]);
        let charged: BTreeSet<_> = world.settles.iter().filter(|s| charged(s)).map(|s| s.row.0).collect();
        assert_eq!(charged, BTreeSet::from([bad]));
    }
}

#[test]
fn an_attempt_that_was_never_sent_is_charged_to_nobody_however_often_others_are_accepted() {
    for isolation in [Isolation::SharedConnection, Isolation::PerMessage] {
        let mut world = World::small(OrderInBatch::Kept, isolation);
        let unlucky = world.keyed("unlucky");
        let id = world.id(unlucky);
        world.brokers[0].poison.insert(id, Poison::NeverSent);
        for n in 0..400 {
            world.write(Message::new("all", "x").key(format!("k{}", n % 50)), n * 50_000, |_| ());
        }
        assert!(world.until(120, |world| world.brokers[0].rows().len() == 400), "{:?}", world.left());
        assert_eq!((world.seen.charged, world.dead()), (0, vec![]), "{isolation:?}");
        world.brokers[0].poison.clear();
        assert!(world.until(60, World::is_done));
        assert_eq!(world.seen.charged, 0, "{isolation:?}");
    }
}

/// Its first real failure is free, as everybody's is.
#[test]
fn an_attempt_that_was_never_sent_is_no_first_failure() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("a"))]);
    let flight = hand.flight(1);
    hand.publish_unsent(flight);
    assert!(hand.machine.destinations()[0].paused.is_some());
    hand.give_new(vec![row(2, Some("b"))]);
    for _ in 0..20 {
        if let Some(place) = hand.flights.iter().position(|(_, _, rows)| rows.contains(&2)) {
            let (_, flight, rows) = hand.flights.remove(place);
            hand.publish((flight, rows.len()), None);
            break;
        }
        if hand.flights.iter().any(|(_, _, rows)| rows.contains(&1)) {
            let flight = hand.flight(1);
            hand.publish_unsent(flight);
        }
        hand.wait();
    }
    let delivered = hand.settle();
    assert_eq!((delivered.len(), delivered[0].row), (1, RowId(2)), "what was sent meanwhile is accepted");
    hand.settled(&[2]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert!(hand.settles.is_empty(), "charged: {:?}", hand.settles);
    assert!(hand.attempts.iter().all(|attempt| *attempt == 1), "{:?}", hand.attempts);
}

/// Only on a shared connection a neighbour may have broken it.
#[test]
fn on_a_connection_of_its_own_a_second_failure_is_charged_though_the_message_travels_with_others() {
    let mut hand = Hand::new(1);
    let fails_beside = |hand: &mut Hand, other: i64| {
        let (_, flight, rows) = hand.flights.remove(0);
        assert_eq!(rows, [1, other]);
        let failed = Published::Failed(Error::new(ErrorKind::Unknown, "scripted"));
        hand.machine.on(hand.now, Event::Published(flight, vec![failed, Published::Accepted(Accepted::FRESH)]));
        hand.act();
        let mut attempts = Vec::new();
        while !hand.settles.is_empty() {
            let batch = hand.settle();
            attempts.extend(batch.iter().filter(|one| one.row == RowId(1)).map(charged));
            hand.settled(&batch.iter().map(|one| one.row.0).collect::<Vec<_>>());
        }
        attempts
    };
    hand.give_new(vec![row(1, Some("a")), row(2, Some("b"))]);
    assert_eq!(fails_beside(&mut hand, 2), [false]);
    hand.give_new(vec![row(3, None)]);
    let accepted_since = hand.flight(3);
    hand.publish(accepted_since, None);
    hand.settle();
    hand.settled(&[3]);
    hand.give_due(vec![freed(1, "a"), freed(4, "b")]);
    assert_eq!(fails_beside(&mut hand, 4), [true]);
}

fn charged(settlement: &Settlement) -> bool {
    match settlement.outcome {
        Outcome::Retry { attempts, .. } | Outcome::Dead { attempts, .. } => attempts > 0,
        _ => false,
    }
}

#[test]
fn an_unknown_outcome_is_sent_again_with_the_same_id_and_a_higher_attempt() {
    let mut world = World::small(OrderInBatch::NotKept, Isolation::PerMessage);
    world.brokers[0].mode = Mode::Mute;
    let first = world.keyed("k");
    let second = world.keyed("k");
    world.run(3_000);
    assert!(world.brokers[0].rows().iter().all(|row| *row == first), "the key stays closed");
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(60, World::is_done));
    let log = &world.brokers[0].log;
    assert!(log.len() > 2 && log.last().is_some_and(|last| last.row == second));
    let repeats: Vec<_> = log.iter().filter(|accepted| accepted.row == first).collect();
    assert!(repeats.windows(2).all(|pair| pair[0].id == pair[1].id && pair[0].attempt < pair[1].attempt));
}

#[test]
fn a_short_answer_is_an_error_for_all_of_it() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::SharedConnection);
    for n in 0..10 {
        world.keyed(&format!("k{n}"));
    }
    world.brokers[0].short = 1_000;
    world.run(10);
    world.brokers[0].short = 0;
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows().iter().collect::<BTreeSet<_>>().len(), 10);
}

#[test]
fn a_window_full_of_one_bad_key_does_not_keep_the_others_out() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    (world.settings.window_rows, world.settings.page_rows) = (16, 16);
    world.start();
    let bad = world.keyed("bad");
    let poison = world.id(bad);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Unavailable));
    for _ in 0..100 {
        world.keyed("bad");
    }
    for _ in 0..100 {
        world.unkeyed();
    }
    assert!(world.until(600, |world| world.brokers[0].rows().len() >= 100), "{:?}", world.brokers[0].rows().len());
}

#[test]
fn a_destination_that_rejects_everything_costs_fifteen_messages_at_most_even_when_they_come_one_by_one() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.brokers[0].mode = Mode::Down(ErrorKind::Rejected);
    for n in 0..40 {
        world.write(Message::new("all", "x").key("k"), n * 20_000_000, |_| ());
    }
    world.run(1_200_000);
    assert_eq!(world.dead().len(), 15, "each is tried alone, and dies before the next one comes");
    assert!(world.machine.destinations()[0].paused.is_some());
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(300, World::is_done));
    assert_eq!((world.dead().len(), world.brokers[0].rows().len()), (15, 25));
}

/// The number stands in a header of the message and with each failure in the table, where a number that is there already
/// is taken for the same failure recorded twice.
#[test]
fn attempts_are_numbered_from_one_over_every_reading_of_a_row() {
    let mut hand = Hand::new(1);
    for charged in 0..2 {
        hand.give_due(vec![Row { attempts: charged, ..freed(1, "k") }]);
        let flight = hand.flight(1);
        hand.publish(flight, Some(ErrorKind::Rejected));
        let settled = hand.settle();
        assert_eq!(settled[0].attempt, Attempt(charged + 1));
        assert!(matches!(settled[0].outcome, Outcome::Retry { attempts, .. } if attempts == charged + 1));
        hand.settled(&[1]);
    }
    assert_eq!(hand.attempts, [1, 2]);
    // A relay that knows nothing of the row but what the table says.
    let mut hand = Hand::new(1);
    hand.give_due(vec![Row { attempts: 4, ..freed(1, "k") }]);
    let flight = hand.flight(1);
    assert_eq!(hand.attempts, [5]);
    // An outage is charged to nobody, and is an attempt.
    hand.publish(flight, Some(ErrorKind::Unavailable));
    while hand.flights.is_empty() {
        hand.wait();
    }
    assert_eq!(hand.attempts, [5, 6]);
}
