//! Messages whose time passes during a careful start, or while their lane goes back.

use std::time::Duration;

use super::broker::Mode;
use super::by_hand::{Hand, head, row};
use super::world::{Happening, World};
use crate::machine::{Event, Note, Settings, Wanted};
use crate::*;

const LIFE: Duration = Duration::from_millis(50);

fn some_rows(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Rows(_))
}

fn left(left: Duration, row: Row) -> Row {
    Row { lifetime: Lifetime { expires: Expires::In(left), ..Lifetime::default() }, ..row }
}

fn taken_over(change: impl Fn(&mut Settings)) -> Hand {
    let mut hand = Hand::with(1, change);
    hand.lose();
    hand.gain_as(Start::Careful);
    hand
}

fn pass(hand: &mut Hand, time: Duration) {
    hand.now = hand.now + time;
    hand.act();
}

fn is_expired(settlement: &Settlement) -> bool {
    matches!(settlement.outcome, Outcome::Dead { reason: DeadReason::Expired, attempts: 0, .. })
}

#[test]
fn a_head_that_is_over_ends_without_its_message_and_without_suspicion() {
    for on_expire in [OnExpire::Dead, OnExpire::Drop] {
        let mut hand = taken_over(|settings| settings.retry.iter_mut().for_each(|(_, one)| one.on_expire = on_expire));
        hand.give_new(vec![left(Duration::ZERO, head(1, Some("k"), 2)), head(2, Some("k"), 0)]);
        let batch = hand.settle();
        assert_eq!(batch.iter().map(|one| one.row.0).collect::<Vec<_>>(), [1, 2]);
        assert!(if on_expire == OnExpire::Dead { is_expired(&batch[0]) } else { batch[0].outcome == Outcome::Dropped });
        assert_eq!(batch[1].outcome, Outcome::Suspected { suspicion: 1 });
        let id = hand.machine.take_notes().into_iter().find_map(|note| match note {
            Note::Dead { id, .. } | Note::Dropped { id, .. } => id,
            _ => None,
        });
        assert_eq!(id.map(|id| id.0.as_u128()), Some(1), "people are told which");
        hand.settled(&[1, 2]);
        let read = hand.read(some_rows).unwrap();
        assert_eq!(read.wanted, Wanted::Rows(vec![RowId(2)]));
        hand.answer(read, vec![row(2, Some("k"))], false);
        hand.flight(2);
    }
}

#[test]
fn a_head_that_waits_for_a_pause_ends_at_its_time_by_its_topics_policy() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.settings.retry.iter_mut().for_each(|(_, policy)| policy.max_age = Some(Duration::from_secs(2)));
    world.start();
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let mortal = world.keyed("k");
    let never = RetryOverride { max_age_ms: Some(0), ..RetryOverride::default() };
    let immortal = world.write(Message::new("all", "x").retry(never), 0, |_| ());
    world.run(500);
    world.happens(0, Happening::Crash);
    world.run(1_400);
    assert!(world.dead().is_empty());
    world.run(200);
    assert_eq!(world.dead(), [mortal]);
    world.run(3_000);
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(60, World::is_done));
    assert_eq!((world.dead(), world.brokers[0].rows()), (vec![mortal], vec![immortal]));
}

#[test]
fn a_message_whose_time_comes_while_its_suspicion_is_recorded_ends_right_after_that() {
    let mut hand = taken_over(|_| ());
    hand.give_new(vec![left(LIFE, head(1, Some("k"), 0))]);
    assert_eq!(hand.settle()[0].outcome, Outcome::Suspected { suspicion: 1 });
    pass(&mut hand, LIFE);
    assert!(hand.settles.is_empty(), "one after the other");
    hand.settled(&[1]);
    let batch = hand.settle();
    assert!(is_expired(&batch[0]), "{batch:?}");
    hand.settled(&[1]);
    assert_eq!(hand.machine.window(), (0, 0));
}

#[test]
fn a_message_whose_time_comes_while_it_is_fetched_is_not_sent() {
    let mut hand = taken_over(|_| ());
    hand.give_new(vec![left(LIFE, head(1, Some("k"), 0))]);
    hand.settle();
    hand.settled(&[1]);
    let read = hand.read(some_rows).unwrap();
    pass(&mut hand, LIFE);
    hand.answer(read, vec![left(Duration::ZERO, row(1, Some("k")))], false);
    let batch = hand.settle();
    assert!(batch.len() == 1 && is_expired(&batch[0]), "{batch:?}");
    assert!(hand.flights.is_empty());
    hand.settled(&[1]);
    assert_eq!(hand.machine.window(), (0, 0));
}

#[test]
fn what_the_fetched_message_says_of_its_end_counts() {
    let mut hand = taken_over(|_| ());
    hand.give_new(vec![left(LIFE, head(1, None, 0)), head(2, None, 0)]);
    hand.settle();
    hand.settled(&[1, 2]);
    // The first one was given more time meanwhile, the second one an end.
    hand.give_to(some_rows, vec![left(LIFE * 100, row(1, None)), left(Duration::ZERO, row(2, None))]);
    let batch = hand.settle();
    assert!(batch.len() == 1 && batch[0].row == RowId(2) && is_expired(&batch[0]), "{batch:?}");
    hand.settled(&[2]);
    pass(&mut hand, LIFE * 2);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    assert_eq!(hand.settle()[0].outcome, Outcome::Delivered);
}

#[test]
fn a_lane_is_released_after_the_end_of_its_message_is_recorded() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![left(Duration::ZERO, row(1, Some("k")))]);
    assert!(is_expired(&hand.settle()[0]));
    hand.hand_back();
    assert!(hand.released.is_empty(), "the settle is under way");
    hand.settled(&[1]);
    assert_eq!((hand.released.len(), hand.machine.window()), (1, (0, 0)));
}

#[test]
fn a_message_whose_time_comes_while_its_lane_goes_back_is_recorded_as_the_broker_says_or_left_to_the_next_owner() {
    for failure in [None, Some(ErrorKind::Unavailable), Some(ErrorKind::Rejected)] {
        let mut hand = Hand::new(1);
        hand.give_new(vec![left(LIFE, row(1, Some("k")))]);
        let flight = hand.flight(1);
        hand.hand_back();
        pass(&mut hand, LIFE);
        assert!(hand.released.is_empty() && hand.settles.is_empty(), "it is on its way");
        hand.publish(flight, failure);
        if failure == Some(ErrorKind::Unavailable) {
            assert!(hand.settles.is_empty(), "who reads it next ends it");
        } else {
            let outcome = hand.settle().remove(0).outcome;
            let is_dead = matches!(outcome, Outcome::Dead { reason: DeadReason::Expired, attempts: 1, .. });
            assert!(if failure.is_none() { outcome == Outcome::Delivered } else { is_dead }, "{outcome:?}");
            hand.settled(&[1]);
        }
        assert_eq!((hand.released.len(), hand.machine.window()), (1, (0, 0)));
    }
}

#[test]
fn a_message_whose_time_comes_while_its_suspicion_is_recorded_and_its_lane_goes_back_strands_nothing() {
    for stops in [false, true] {
        let mut hand = taken_over(|_| ());
        hand.give_new(vec![left(LIFE, head(1, Some("k"), 1))]);
        hand.settle();
        if stops {
            hand.machine.on(hand.now, Event::Stop)
        } else {
            hand.machine.on(hand.now, Event::HandBack(hand.machine.held()))
        }
        pass(&mut hand, LIFE);
        hand.settled(&[1]);
        while !hand.settles.is_empty() {
            let batch = hand.settle();
            let is_as_it_was = batch[0].outcome == Outcome::Suspected { suspicion: 1 };
            assert!(is_as_it_was || is_expired(&batch[0]), "{batch:?}");
            hand.settled(&[1]);
        }
        assert!(hand.machine.is_drained() && hand.machine.window() == (0, 0) && hand.flights.is_empty());
        assert_eq!(hand.released.len(), usize::from(!stops));
    }
}
