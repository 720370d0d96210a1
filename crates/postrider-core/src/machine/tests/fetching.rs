//! The messages of rows of which only the heads were read: when they are fetched, and what crosses with that.

use std::time::Duration;

use super::by_hand::{Hand, head, row};
use super::careful::{some_rows, suspected, take, taken_over};
use crate::machine::{Note, Read};
use crate::*;

const LIFE: Duration = Duration::from_millis(50);

fn left(left: Duration, row: Row) -> Row {
    Row { lifetime: Lifetime { expires: Expires::In(left), ..Lifetime::default() }, ..row }
}

fn is_expired(settlement: &Settlement) -> bool {
    matches!(settlement.outcome, Outcome::Dead { reason: DeadReason::Expired, .. })
}

/// Its message is being fetched when its time comes: it ends, and that is being recorded.
fn ended_while_it_is_fetched(heads: Vec<Row>) -> (Hand, Read) {
    let mut hand = taken_over();
    hand.give_new(heads);
    let marked: Vec<i64> = suspected(&hand.settle()).iter().map(|(row, _)| *row).collect();
    hand.settled(&marked);
    let read = hand.read(some_rows).unwrap();
    hand.now = hand.now + LIFE;
    hand.act();
    assert!(hand.settles.len() == 1 && is_expired(&hand.settles[0][0]), "{:?}", hand.settles);
    (hand, read)
}

#[test]
fn a_message_that_was_fetched_is_not_fetched_again_while_it_is_on_its_way() {
    let mut hand = taken_over();
    assert_eq!(take(&mut hand, vec![head(1, None, 0)]), [(1, 1)]);
    hand.give_to(some_rows, vec![row(1, None)]);
    hand.flight(1);
    for _ in 0..10 {
        let read = hand.read(|_| true).expect("other reads go on");
        assert!(!some_rows(&read.wanted), "fetched again: nothing else would ever be read");
        hand.answer(read, Vec::new(), false);
    }
}

/// A crash would bring it back, to a relay with another policy perhaps.
#[test]
fn a_message_that_is_gone_after_its_end_was_decided_holds_its_key_until_that_is_recorded() {
    let heads = vec![left(LIFE, head(1, Some("k"), 0)), head(2, Some("k"), 0)];
    let (mut hand, read) = ended_while_it_is_fetched(heads);
    hand.answer(read, vec![row(2, Some("k"))], false);
    assert!(hand.flights.is_empty(), "sent before the end of the first one is recorded");
    hand.settle();
    hand.settled(&[1]);
    hand.flight(2);
}

#[test]
fn a_message_that_turns_out_to_be_none_after_its_end_was_decided_dies_once() {
    let (mut hand, read) = ended_while_it_is_fetched(vec![left(LIFE, head(1, Some("k"), 0))]);
    hand.machine.take_notes();
    let reason = "its headers are no map".to_owned();
    let content = Content::Malformed { id: None, key: None, reason };
    hand.answer(read, vec![Row { content, ..row(1, Some("k")) }], false);
    assert!(!hand.machine.take_notes().iter().any(|note| matches!(note, Note::Dead { .. })), "told twice");
    hand.settle();
    hand.settled(&[1]);
    assert!(hand.settles.is_empty(), "recorded twice: {:?}", hand.settles);
    assert_eq!(hand.machine.window(), (0, 0));
}
