//! What is in the window, how much of it there may be, and when it is over.

use std::sync::Arc;
use std::time::Duration;

use super::by_hand::{Hand, aside, head, row};
use crate::machine::Wanted;
use crate::machine::window::Window;
use crate::*;

const LIFE: Duration = Duration::from_millis(50);

fn pass(hand: &mut Hand, time: Duration) {
    hand.now = hand.now + time;
    hand.act();
}

#[test]
fn a_row_that_is_in_memory_and_comes_again_is_not_sent_again() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None)]);
    let flight = hand.flight(1);
    assert_eq!(hand.machine.window(), (1, 10));
    hand.give_new(vec![row(1, None)]);
    assert!(hand.flights.is_empty(), "it is on its way");
    assert_eq!(hand.machine.window(), (1, 10));
    hand.publish(flight, None);
}

#[test]
fn a_relay_with_a_row_that_waits_for_a_pause_is_not_idle() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.publish_unsent(flight);
    hand.give_new(Vec::new());
    assert!(hand.machine.is_drained(), "nothing is on its way");
    assert!(!hand.machine.is_idle());
}

/// Else a page full of what is here would hide what is not.
#[test]
fn a_look_for_due_rows_leaves_out_those_that_are_in_memory() {
    let mut hand = Hand::new(1);
    let due = |id| Row { retrying: Retrying::Yes, ..row(id, None) };
    hand.give_due(vec![due(2), due(1)]);
    let read = hand.read(|wanted| matches!(wanted, Wanted::Due(_))).unwrap();
    assert_eq!(read.wanted, Wanted::Due(vec![RowId(1), RowId(2)]));
}

#[test]
fn a_window_that_its_rows_fill_by_their_weight_takes_no_other_one() {
    let mut hand = Hand::with(1, |settings| {
        (settings.window_bytes, settings.sweep_round) = (20, Duration::from_millis(50));
    });
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(1, "k")]);
    let rows = (1..=3).map(|id| aside(id, "k")).collect();
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), rows);
    assert_eq!(hand.machine.window(), (2, 20));
}

#[test]
fn a_page_of_no_rows_does_not_pay() {
    let window = Window::new(8, 100);
    assert_eq!(window.room(0), None, "it would be read for ever");
    assert_eq!(window.room(2), Some(Room { rows: 2, bytes: 100 }));
}

#[test]
fn a_delivered_message_whose_time_passes_while_that_is_recorded_does_not_hold_its_key() {
    let mut hand = Hand::new(1);
    let lifetime = Lifetime { expires: Expires::In(LIFE), ..Lifetime::default() };
    hand.give_new(vec![Row { lifetime, ..row(1, Some("k")) }]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    assert_eq!(hand.settle()[0].outcome, Outcome::Delivered);
    pass(&mut hand, LIFE * 2);
    hand.give_new(vec![row(2, Some("k"))]);
    hand.flight(2);
    hand.settled(&[1]);
}

#[test]
fn a_message_that_limits_its_own_age_is_over_then_though_its_head_did_not_say_so() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain_as(Start::Careful);
    let mut unsaid = head(1, None, 0);
    let Content::Head(of_message) = &mut unsaid.content else { unreachable!() };
    of_message.has_retry = true;
    hand.give_new(vec![unsaid]);
    hand.settle();
    hand.settled(&[1]);
    let mut brief = row(1, None);
    let Content::Message(message) = &brief.content else { unreachable!() };
    let limit = RetryOverride { max_age_ms: Some(50), ..RetryOverride::default() };
    brief.content = Content::Message(Arc::new(Message::clone(message).retry(limit)));
    hand.give_to(|wanted| matches!(wanted, Wanted::Rows(_)), vec![brief]);
    let flight = hand.flight(1);
    pass(&mut hand, LIFE * 2);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    let [Settlement { outcome: Outcome::Dead { reason: DeadReason::Expired, .. }, .. }] = &hand.settle()[..] else {
        panic!("it goes again after its time")
    };
}
