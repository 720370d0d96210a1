//! What became of rows is recorded: what follows when that works, when it fails, and when a row is gone meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::by_hand::{Hand, aside, head, retrying, row, rows_of};
use crate::machine::*;
use crate::*;

fn look_at_a_key(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Key(..))
}

fn fail_settle(hand: &mut Hand) {
    hand.settle();
    hand.machine.on(hand.now, Event::Settled(Err(Error::new(ErrorKind::Unavailable, "scripted"))));
}

/// A row that was accepted, which is being recorded.
fn accepted(hand: &mut Hand, id: i64) {
    hand.give_new(vec![row(id, None)]);
    let flight = hand.flight(id);
    hand.publish(flight, None);
}

/// A head that was refused, and a row behind it that was set aside; what became of the head is being recorded.
fn refused(hand: &mut Hand, head: Row) {
    hand.give_due(vec![head]);
    hand.give_new(vec![row(2, Some("k"))]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[..], [Settlement { row: RowId(2), outcome: Outcome::SetAside { .. }, .. }]));
    hand.settled(&[2]);
}

/// What people are told of rows and of the store.
fn told(hand: &mut Hand) -> Vec<Note> {
    let mut notes = hand.machine.take_notes();
    notes.retain(|note| matches!(note, Note::Delivered(_) | Note::SetAside(_) | Note::StoreBack));
    notes
}

#[test]
fn a_machine_that_was_never_told_of_a_lease_trusts_none() {
    let hand = Hand::new(1);
    let machine = Machine::new(hand.machine.settings.clone());
    assert!(!machine.is_trusted(Tick::ZERO));
}

/// A relay that stops waits for nothing else: it must neither sleep through that moment nor ask without a pause.
#[test]
fn a_settle_that_failed_is_tried_again_at_the_moment_that_was_told_and_not_before() {
    let mut hand = Hand::new(1);
    accepted(&mut hand, 1);
    fail_settle(&mut hand);
    hand.machine.on(hand.now, Event::Stop);
    hand.act();
    let at = hand.machine.wake_at(hand.now);
    assert!(at > hand.now && hand.settles.is_empty());
    hand.now = Tick::after_start(at.since_start() - Duration::from_nanos(1));
    hand.act();
    assert!(hand.settles.is_empty(), "before the pause is over");
    hand.now = at;
    hand.act();
    assert_eq!(hand.settle()[0].row, RowId(1));
    hand.settled(&[1]);
    assert!(hand.machine.is_drained());
}

#[test]
fn what_was_recorded_is_told_with_its_number_and_nothing_of_what_was_not() {
    let mut hand = Hand::new(1);
    refused(&mut hand, retrying(1, "k"));
    assert_eq!(told(&mut hand), [Note::SetAside(1)]);
    hand.settle();
    hand.settled(&[1]);
    assert_eq!(told(&mut hand), [], "what is to be tried again is told when it fails");
    hand.give_new((3..=5).map(|id| row(id, None)).collect());
    hand.accept_all();
    let (mut delivered, mut rows) = (0, 0);
    while !hand.settles.is_empty() {
        let batch = rows_of(&hand.settles.remove(0));
        rows += batch.len();
        hand.settled(&batch);
        for note in told(&mut hand) {
            let Note::Delivered(count) = note else { panic!("{note:?}") };
            delivered += count;
        }
    }
    assert_eq!((delivered, rows), (3, 3));
}

#[test]
fn the_store_is_back_only_after_it_was_away_and_when_what_failed_is_recorded() {
    let mut hand = Hand::new(1);
    accepted(&mut hand, 1);
    hand.settle();
    hand.settled(&[1]);
    assert_eq!(told(&mut hand), [Note::Delivered(1)], "it was never away");
    accepted(&mut hand, 2);
    fail_settle(&mut hand);
    hand.give_new(Vec::new());
    assert_eq!(told(&mut hand), [], "a read that works says nothing of a settle that did not");
    while hand.settles.is_empty() {
        hand.wait();
    }
    hand.settle();
    hand.settled(&[2]);
    assert_eq!(told(&mut hand), [Note::StoreBack, Note::Delivered(1)]);
}

/// A walk reads every exceptional key of a lane: it is made only where something may be missed without it.
#[test]
fn a_settle_that_failed_and_sets_nothing_aside_leaves_nothing_to_look_after() {
    let mut hand = Hand::new(1);
    accepted(&mut hand, 1);
    fail_settle(&mut hand);
    while hand.now < Tick::after_start(Duration::from_secs(100)) {
        hand.wait();
        if let Some(batch) = hand.settles.pop() {
            hand.settled(&rows_of(&batch));
        }
        if let Some(read) = hand.read.take() {
            assert!(!matches!(read.wanted, Wanted::Walk(..)), "at {:?}", hand.now);
            hand.answer(read, Vec::new(), false);
        }
    }
    assert_eq!(hand.machine.window(), (0, 0));
}

/// The application deletes the head, or another hand records it: no due query will bring the key back.
#[test]
fn what_was_set_aside_behind_a_head_that_is_gone_is_looked_for_at_once() {
    let mut hand = Hand::new(1);
    refused(&mut hand, retrying(1, "k"));
    assert!(matches!(hand.settle()[0].outcome, Outcome::Retry { .. }));
    hand.settled(&[]);
    hand.give_to(look_at_a_key, vec![aside(2, "k")]);
    hand.flight(2);
}

#[test]
fn what_was_set_aside_behind_a_head_that_was_to_hold_its_key_and_is_gone_is_looked_for_at_once() {
    let mut hand = Hand::with(1, |settings| settings.on_dead = vec![(TopicPattern::every(), OnDead::Hold)]);
    refused(&mut hand, Row { attempts: 1_000, ..retrying(1, "k") });
    assert!(matches!(hand.settle()[0].outcome, Outcome::Holding { .. }));
    hand.settled(&[]);
    hand.give_to(look_at_a_key, vec![aside(2, "k")]);
    hand.flight(2);
}

/// Otherwise every later owner of the lane would begin carefully, for a row that never comes.
#[test]
fn a_row_that_left_the_table_untried_leaves_nothing_to_be_careful_of() {
    let over = Lifetime { expires: Expires::In(Duration::ZERO), ..Lifetime::default() };
    let ended = Row { lifetime: over, ..head(1, Some("k"), 0) };
    let deleted = Row { closed: Closed::ForAll, ..head(1, Some("k"), 0) };
    for (row, recorded) in [(ended, &[1][..]), (deleted, &[])] {
        let mut hand = Hand::new(1);
        hand.lose();
        hand.gain_as(Start::Careful);
        hand.give_new(vec![row]);
        let outcome = hand.settle().remove(0).outcome;
        let ends = matches!(outcome, Outcome::Dead { .. });
        assert!(ends != recorded.is_empty() && (ends || matches!(outcome, Outcome::SetAside { .. })), "{outcome:?}");
        hand.settled(recorded);
        for _ in 0..20 {
            let read = hand.read(|_| true).unwrap();
            hand.answer(read, Vec::new(), false);
        }
        hand.machine.on(hand.now, Event::Stop);
        assert_eq!(hand.machine.held()[0].start, Start::Clean);
    }
}

/// The messages that are told as delivered.
fn named(hand: &mut Hand) -> Vec<Arc<Message>> {
    let notes = hand.machine.take_notes().into_iter();
    let message = |note| if let Note::DeliveredMessage(message) = note { Some(message) } else { None };
    notes.filter_map(message).collect()
}

#[test]
fn a_delivered_message_is_named_once_when_that_is_recorded_and_only_where_somebody_wants_it() {
    let mut hand = Hand::new(1);
    accepted(&mut hand, 1);
    hand.settle();
    hand.settled(&[1]);
    assert_eq!(named(&mut hand), []);
    hand.machine.note_deliveries(Deliveries::Named);
    accepted(&mut hand, 2);
    fail_settle(&mut hand);
    assert_eq!(named(&mut hand), [], "it is not recorded");
    while hand.settles.is_empty() {
        hand.wait();
    }
    hand.settle();
    hand.settled(&[2]);
    assert_eq!(named(&mut hand).len(), 1);
    hand.machine.note_deliveries(Deliveries::Counted);
    accepted(&mut hand, 3);
    hand.settle();
    hand.settled(&[3]);
    assert_eq!(named(&mut hand), []);
}
