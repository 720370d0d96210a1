//! One destination pauses, and at the others everything goes on that need not wait there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::by_hand::{Hand, PAUSES, WORKS, a_look, aside, freed, only, retrying, row};
use super::world::name;
use crate::machine::Event;
use crate::*;

/// The only call that one of so many destinations takes at a time is under way, for this row.
fn beside_a_call(destinations: usize, id: i64) -> Hand {
    let mut hand = Hand::with(destinations, |settings| settings.destinations[PAUSES].profile.max_concurrent = 1);
    hand.give_new(vec![only(PAUSES, row(id, None))]);
    hand
}

/// The outcomes that are being recorded, with their rows.
fn recorded(hand: &mut Hand) -> Vec<(i64, bool)> {
    let is_retry = |outcome: &Outcome| matches!(outcome, Outcome::Retry { .. });
    hand.settle().iter().map(|settlement| (settlement.row.0, is_retry(&settlement.outcome))).collect()
}

/// What would wait in memory for the end of the pause keeps its key closed where it failed.
#[test]
fn a_message_that_failed_at_one_destination_is_tried_again_there_while_another_one_pauses() {
    let mut hand = Hand::beside_a_pause();
    hand.give_new(vec![row(1, Some("k")), row(2, Some("k"))]);
    let (flight, _) = hand.flight_to(WORKS, 1);
    let refused = Published::Failed(Error::new(ErrorKind::Rejected, "scripted"));
    hand.machine.on(hand.now, Event::Published(flight, vec![refused, Published::NotSent]));
    hand.act();
    let batch = recorded(&mut hand);
    assert!(batch.contains(&(1, true)), "{batch:?}");
    assert!(batch.contains(&(2, false)), "nothing of the key may go before it where it waits in the table: {batch:?}");
}

#[test]
fn it_is_tried_again_there_also_where_the_pause_begins_after_it_failed() {
    let mut hand = beside_a_call(2, 1);
    hand.give_new(vec![row(2, Some("k"))]);
    let flight = hand.flight_to(WORKS, 2);
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert!(hand.settles.is_empty(), "the other destination may take it at any moment");
    let flight = hand.flight_to(PAUSES, 1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!(recorded(&mut hand), [(2, true)]);
}

/// It waits behind another message at the one, and for the end of the pause of the other.
#[test]
fn a_message_that_waits_in_the_table_for_one_destination_does_not_wait_in_memory_for_the_end_of_a_pause() {
    let mut hand = Hand::beside_a_pause();
    hand.give_new(vec![Row { closed: Closed::For(vec![name(WORKS)]), ..row(2, Some("k")) }]);
    assert_eq!(recorded(&mut hand), [(2, false)]);
    hand.settled(&[2]);
    hand.give_to(a_look, vec![only(WORKS, aside(1, "k")), aside(2, "k")]);
    let flight = hand.flight_to(WORKS, 1);
    assert_eq!(flight.1, 2, "both go where nothing pauses");
}

/// A look has seen that of the key only these wait, for the one that pauses.
fn looked_at(hand: &mut Hand) {
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(2, Some("k")) }]);
    hand.settle();
    hand.settled(&[2]);
    hand.give_to(a_look, vec![only(PAUSES, aside(1, "k")), aside(2, "k")]);
    let flight = hand.flight_to(WORKS, 2);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[2]);
}

/// Nobody looks at what waits for a destination that pauses: one that stood behind it there would be due for ever.
#[test]
fn what_is_due_goes_where_it_can_and_stands_behind_what_waits_for_one_that_pauses() {
    let mut hand = Hand::beside_a_pause();
    looked_at(&mut hand);
    hand.give_due(vec![freed(3, "k")]);
    let flight = hand.flight_to(WORKS, 3);
    hand.publish(flight, None);
    assert_eq!(recorded(&mut hand), [(3, false)]);
}

/// What stands before it there was accepted since the table was told, and is in memory: where it fails, it fails again before
/// the table knows better, and would not be sent where it could go for as long as it has attempts.
#[test]
fn what_is_due_goes_where_only_the_table_says_that_others_stand_before_it() {
    const FAILS: usize = 2;
    let mut hand = Hand::new(3);
    hand.pause(PAUSES, 9);
    let both = || Some(vec![name(WORKS), name(PAUSES)]);
    hand.give_new(vec![Row { waiting_for: both(), ..row(1, Some("k")) }]);
    let flight = hand.flight_to(WORKS, 1);
    hand.publish(flight, None);
    let closed = Closed::For(vec![name(WORKS), name(PAUSES)]);
    let failed = || Row { progress: BTreeMap::from([(name(FAILS), 1)]), ..retrying(2, "k") };
    hand.give_due(vec![Row { closed, ..failed() }]);
    hand.give_to(a_look, vec![Row { waiting_for: both(), ..aside(1, "k") }, failed()]);
    assert_eq!((hand.flight_to(WORKS, 2).1, hand.flight_to(FAILS, 2).1), (1, 1));
}

/// What an operator made due is the first that was set aside for what he discarded, and waits for the one that pauses.
#[test]
fn what_stands_behind_a_freed_message_that_can_go_nowhere_is_looked_at() {
    let mut hand = Hand::beside_a_pause();
    hand.give_due(vec![only(PAUSES, freed(1, "k"))]);
    hand.give_to(a_look, vec![aside(2, "k")]);
    assert_eq!(hand.flight_to(WORKS, 2).1, 1);
}

/// It came before he freed it, and waits in memory for the end of the pause.
#[test]
fn what_stands_behind_a_freed_message_in_memory_is_looked_at() {
    let mut hand = Hand::beside_a_pause();
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(3, Some("k")) }]);
    hand.settle();
    hand.settled(&[3]);
    let holding = || Row { state: RowState::Holding, ..row(2, Some("k")) };
    hand.give_to(a_look, vec![aside(1, "k"), holding(), aside(3, "k")]);
    let flight = hand.flight_to(WORKS, 1);
    hand.publish(flight, None);
    assert!(hand.read(a_look).is_none(), "an operator decides");
    hand.give_due(vec![freed(1, "k")]);
    hand.give_to(a_look, vec![freed(1, "k"), aside(3, "k")]);
    assert_eq!(hand.flight_to(WORKS, 3).1, 1);
}

/// They stand in no line while one of their key is on its way.
#[test]
fn what_waits_behind_a_call_that_is_not_answered_leaves_a_full_window() {
    let mut hand = Hand::with(2, |settings| settings.window_rows = 4);
    let rows = |ids: std::ops::Range<i64>| ids.map(|id| row(id, Some("k"))).collect::<Vec<_>>();
    hand.give_new(rows(1..2));
    hand.give_new(rows(2..5));
    while hand.flights.iter().any(|(place, ..)| place.get() == WORKS) {
        let row = hand.flights.iter().find(|(place, ..)| place.get() == WORKS).unwrap().2[0];
        let flight = hand.flight_to(WORKS, row);
        hand.publish(flight, None);
    }
    for _ in 0..20 {
        hand.wait();
    }
    assert_eq!(recorded(&mut hand), [(2, false), (3, false), (4, false)]);
}

/// It is due, and goes into the table as everything does that comes while its key is held. Others of the key wait in memory for
/// the end of the pause all the while.
#[test]
fn a_delayed_message_that_stands_before_the_one_that_holds_its_key_goes_during_a_pause() {
    let mut hand = Hand::beside_a_pause();
    let holding = || Row { state: RowState::Holding, ..row(3, Some("k")) };
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(4, Some("k")) }]);
    hand.settle();
    hand.settled(&[4]);
    hand.give_to(a_look, vec![aside(1, "k"), holding(), aside(4, "k")]);
    let flight = hand.flight_to(WORKS, 1);
    hand.publish(flight, None);
    hand.give_due(vec![row(2, Some("k"))]);
    hand.give_new(Vec::new());
    hand.give_due(vec![row(2, Some("k"))]);
    assert_eq!(recorded(&mut hand), [(2, false)]);
    hand.settled(&[2]);
    hand.give_to(a_look, vec![aside(1, "k"), aside(2, "k"), holding(), aside(4, "k")]);
    assert_eq!(hand.flight_to(WORKS, 2).1, 1);
}

/// It says so much later than one that refuses its calls. The window has room, so that nobody else waits for that.
#[test]
fn a_message_that_failed_at_one_destination_is_tried_again_there_while_another_one_answers_nothing() {
    let mut hand = beside_a_call(2, 1);
    hand.give_new(vec![row(2, Some("k"))]);
    let flight = hand.flight_to(WORKS, 2);
    hand.publish(flight, Some(ErrorKind::Rejected));
    while hand.now < Tick::ZERO + Duration::from_secs(4) {
        hand.until_the_next_read();
    }
    assert_eq!(recorded(&mut hand), [(2, true)]);
}

/// What waits for the one that pauses fills a page by its weight, and would fill the next one.
#[test]
fn a_look_that_brings_nothing_but_heavy_rows_that_cannot_go_is_followed_by_one_for_more_bytes() {
    let mut hand = Hand::with(2, |settings| settings.window_bytes = 100);
    hand.pause(PAUSES, 9);
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(50, Some("k")) }]);
    hand.settle();
    hand.settled(&[50]);
    let before: Vec<Row> = (20..30).map(|id| only(PAUSES, aside(id, "k"))).collect();
    let look = hand.read(a_look).unwrap();
    let room = look.room;
    assert!(before.len() < room.rows);
    hand.answer(look, before.clone(), true);
    let look = hand.read(a_look).unwrap();
    assert_eq!(look.room.bytes, 2 * room.bytes);
    hand.answer(look, before.into_iter().chain([aside(50, "k")]).collect(), false);
    assert_eq!(hand.flight_to(WORKS, 50).1, 1);
}

/// A third destination, which works too.
const ALSO_WORKS: usize = 2;

/// Owed to the one that pauses and to the one that also works.
fn to_two(row: Row) -> Row {
    Row { waiting_for: Some([PAUSES, ALSO_WORKS].map(super::world::name).to_vec()), ..row }
}

/// A look brings the first of a key, which one takes, and behind it one that is tried again and owed to all.
fn before_one_that_is_tried_again(hand: &mut Hand) {
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(2, Some("k")) }]);
    hand.settle();
    hand.settled(&[2]);
    let again = Row { due: Due::In(Duration::from_secs(60)), ..retrying(2, "k") };
    hand.give_to(a_look, vec![to_two(aside(1, "k")), again]);
    let flight = hand.flight_to(ALSO_WORKS, 1);
    hand.publish(flight, None);
}

/// What is recorded says that the first waits for nothing but the end of the pause.
fn the_first_leaves(hand: &mut Hand) {
    let expected = Outcome::SetAside { waiting_for: Some(vec![super::world::name(PAUSES)]) };
    let batch = hand.settle();
    assert!(matches!(batch.as_slice(), [only] if only.row == RowId(1) && only.outcome == expected), "{batch:?}");
}

/// The table does not know that the first was accepted, and keeps the one that is tried again from going there.
#[test]
fn what_was_accepted_does_not_wait_in_memory_for_the_end_of_a_pause_before_one_that_is_tried_again() {
    let mut hand = Hand::new(3);
    hand.pause(PAUSES, 9);
    before_one_that_is_tried_again(&mut hand);
    the_first_leaves(&mut hand);
}

#[test]
fn what_was_accepted_leaves_memory_before_one_that_is_tried_again_where_the_pause_begins_later() {
    let mut hand = beside_a_call(3, 9);
    before_one_that_is_tried_again(&mut hand);
    assert!(hand.settles.is_empty(), "the other destination may take it at any moment: {:?}", hand.settles);
    let flight = hand.flight_to(PAUSES, 9);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    the_first_leaves(&mut hand);
}

#[test]
fn what_was_accepted_leaves_memory_before_one_that_is_tried_again_where_the_other_destination_answers_nothing() {
    let mut hand = beside_a_call(3, 9);
    before_one_that_is_tried_again(&mut hand);
    while hand.now < Tick::ZERO + Duration::from_secs(4) {
        hand.until_the_next_read();
    }
    the_first_leaves(&mut hand);
}

#[test]
fn what_was_accepted_leaves_memory_where_it_is_found_later_that_one_behind_it_is_tried_again() {
    let mut hand = Hand::new(3);
    hand.pause(PAUSES, 9);
    hand.give_new(vec![to_two(row(1, Some("k")))]);
    let flight = hand.flight_to(ALSO_WORKS, 1);
    hand.publish(flight, None);
    assert!(hand.settles.is_empty(), "nothing waits for it: {:?}", hand.settles);
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(3, Some("k")) }]);
    hand.settle();
    hand.settled(&[3]);
    let again = Row { due: Due::In(Duration::from_secs(60)), ..retrying(2, "k") };
    hand.give_to(a_look, vec![again, aside(3, "k")]);
    the_first_leaves(&mut hand);
}
