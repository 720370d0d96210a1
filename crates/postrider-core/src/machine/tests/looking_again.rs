//! Whether a key is looked at again, and what is known to be scheduled of it, after a look.

use std::time::Duration;

use super::by_hand::{Hand, a_look, aside, freed, only, retrying, row};
use crate::machine::{Answer, DestinationIndex, Event, Ordering, Wanted};
use crate::*;

fn a_walk(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Walk(..))
}

fn new(wanted: &Wanted) -> bool {
    *wanted == Wanted::New
}

fn sent(hand: &Hand) -> Vec<(usize, Vec<i64>)> {
    hand.flights.iter().map(|(place, _, rows)| (place.get(), rows.clone())).collect()
}

fn later(row: Row) -> Row {
    Row { due: Due::In(Duration::from_secs(900)), ..row }
}

/// Row 1 was delivered to the first of two destinations, where others of its key may stand in the table.
fn looked_at_the_first_of_two() -> Hand {
    let mut hand = Hand::new(2);
    hand.give_due(vec![only(0, retrying(1, "k"))]);
    deliver(&mut hand, 1);
    hand
}

fn deliver(hand: &mut Hand, row: i64) {
    let flight = hand.flight(row);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[row]);
}

/// It is in the table still, and the look would bring it again and again.
#[test]
fn a_key_whose_delivered_row_is_not_recorded_yet_is_looked_at_once_and_again_when_it_is() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_secs(1));
    hand.lose();
    hand.gain();
    hand.give_to(a_walk, vec![aside(1, "k")]);
    hand.give_to(a_look, vec![aside(1, "k")]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    // The next round of the walks, and the look for which it asks.
    hand.give_to(a_walk, vec![aside(1, "k")]);
    hand.give_to(a_look, vec![aside(1, "k")]);
    for _ in 0..4 {
        let read = hand.read(|_| true).unwrap();
        assert!(!a_look(&read.wanted), "nothing has changed");
        hand.answer(read, Vec::new(), false);
    }
    hand.settle();
    hand.settled(&[1]);
    assert!(hand.read(a_look).is_some());
}

/// Nothing of it is in memory that could leave it.
#[test]
fn where_a_look_brought_only_what_waits_for_a_pause_the_next_one_is_made_when_the_pause_is_over() {
    let mut hand = Hand::with(2, |settings| settings.ordering = Ordering::Everything);
    hand.pause(1, 1);
    hand.lose();
    hand.gain();
    let walk = hand.read(a_walk).unwrap();
    hand.machine.on(hand.now, Event::Answered(walk, Answer::Keys(vec![Key::everything()])));
    hand.give_to(a_look, vec![only(1, aside(1, "k"))]);
    assert_eq!(sent(&hand), [], "its destination pauses");
    hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(1), Ok(())));
    let walk = hand.read(a_walk).unwrap();
    hand.machine.on(hand.now, Event::Answered(walk, Answer::Keys(vec![Key::everything()])));
    assert!(hand.read(a_look).is_some());
}

/// Two of three pause, and the key has a row in memory for the one that is still away when the other is back.
#[test]
fn what_waited_for_a_pause_that_is_over_is_looked_at_though_another_row_of_its_key_waits_for_a_longer_one() {
    let mut hand = Hand::with(3, |settings| settings.sweep_round = Duration::from_secs(1));
    hand.pause(1, 8);
    hand.pause(2, 9);
    hand.give_new(vec![only(2, row(5, Some("k")))]);
    hand.give_to(a_walk, vec![aside(1, "k")]);
    hand.give_to(a_look, vec![only(1, aside(1, "k"))]);
    assert_eq!(sent(&hand), [(1, vec![8]), (2, vec![5])], "nothing but the probes");
    let probe = hand.flight(8);
    hand.publish(probe, None);
    hand.give_to(a_walk, vec![aside(1, "k")]);
    hand.give_to(a_look, vec![only(1, aside(1, "k"))]);
    assert!(sent(&hand).contains(&(1, vec![1])), "{:?}", sent(&hand));
}

/// It stands in the way of nothing but what waits for that pause too.
#[test]
fn a_look_is_made_once_though_a_row_of_its_key_is_on_its_way_to_the_table_for_a_pause() {
    let mut hand = Hand::with(2, |settings| settings.sweep_round = Duration::from_secs(1));
    hand.pause(1, 9);
    hand.give_to(a_walk, vec![aside(1, "k")]);
    hand.give_to(a_look, vec![only(1, aside(1, "k"))]);
    hand.give_new(vec![row(3, Some("k"))]);
    let flight = hand.flight_to(0, 3);
    hand.publish(flight, None);
    assert!(
        matches!(hand.settle()[..], [Settlement { outcome: Outcome::SetAside { .. }, .. }]),
        "it waits for the pause"
    );
    hand.give_to(a_walk, vec![aside(1, "k")]);
    hand.give_to(a_look, vec![only(1, aside(1, "k"))]);
    for _ in 0..4 {
        let read = hand.read(|_| true).unwrap();
        assert!(!a_look(&read.wanted), "nothing has changed");
        hand.answer(read, Vec::new(), false);
    }
    hand.give_new(vec![row(4, Some("k"))]);
    assert!(sent(&hand).contains(&(0, vec![4])), "the other one takes it at once: {:?}", sent(&hand));
}

/// What is owed to the other one may stand behind them.
#[test]
fn a_look_goes_on_beyond_what_waits_for_its_time_though_all_of_that_is_owed_to_one_destination() {
    let mut hand = looked_at_the_first_of_two();
    let look = hand.read(a_look).unwrap();
    hand.answer(look, vec![only(0, later(retrying(2, "k")))], true);
    assert!(hand.read(a_look).is_some());
}

#[test]
fn behind_a_page_of_which_something_went_the_key_is_looked_at_again_though_the_rest_waits_for_its_time() {
    let mut hand = looked_at_the_first_of_two();
    let look = hand.read(a_look).unwrap();
    hand.answer(look, vec![only(0, aside(2, "k")), only(0, later(retrying(3, "k")))], true);
    assert_eq!(sent(&hand), [(0, vec![2])]);
    deliver(&mut hand, 2);
    assert!(hand.read(a_look).is_some());
}

/// It was seen, and that nothing stands before it.
#[test]
fn a_row_that_a_whole_look_saw_waiting_goes_at_once_when_it_is_due_whatever_else_the_look_brought() {
    let mut hand = Hand::new(2);
    hand.lose();
    hand.gain();
    hand.give_to(a_walk, vec![aside(3, "k")]);
    hand.give_new(Vec::new());
    hand.give_to(a_look, vec![only(0, later(freed(2, "k"))), only(1, aside(3, "k"))]);
    assert_eq!(sent(&hand), [(1, vec![3])]);
    hand.give_due(vec![only(0, freed(2, "k"))]);
    assert_eq!(sent(&hand), [(1, vec![3]), (0, vec![2])]);
}

/// The key is asked for again when the reading has come so far, whatever else of it is in memory until then.
#[test]
fn a_look_that_waits_for_the_reading_goes_on_though_a_delivered_row_of_its_key_is_not_recorded_yet() {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_millis(50));
    hand.lose();
    hand.gain();
    let read = hand.read(new).unwrap();
    hand.answer(read, vec![row(3, Some("k"))], true);
    let flight = hand.flight(3);
    hand.publish(flight, None);
    assert_eq!(hand.settles.len(), 1, "what became of it is being recorded");
    next_in_backlog(&mut hand, a_walk, aside(7, "k"));
    next_in_backlog(&mut hand, a_look, aside(7, "k"));
    assert_eq!(sent(&hand), [], "its lane is not read so far");
    hand.give_new(Vec::new());
    hand.give_to(a_look, vec![aside(7, "k")]);
    assert_eq!(sent(&hand), [(0, vec![7])]);
}

/// The next read of this kind brings this row; what is read of new rows before it is not all there is.
fn next_in_backlog(hand: &mut Hand, kind: impl Fn(&Wanted) -> bool, row: Row) {
    for _ in 0..100 {
        hand.act();
        match hand.read.take() {
            Some(read) if kind(&read.wanted) => return hand.answer(read, vec![row], false),
            Some(read) => {
                let more = new(&read.wanted);
                hand.now = hand.now + Duration::from_millis(5);
                hand.answer(read, Vec::new(), more);
            }
            None => hand.wait(),
        }
    }
    panic!("no such read");
}

/// It stands in nobody's way there, and what the look saw is what there is.
#[test]
fn a_look_that_crossed_a_row_which_goes_elsewhere_is_not_made_again() {
    let mut hand = Hand::with(2, |settings| (settings.window_rows, settings.page_rows) = (64, 1));
    hand.give_due(vec![only(0, retrying(1, "k"))]);
    let read = hand.read(new).unwrap();
    hand.answer(read, vec![only(1, row(2, None))], true);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    hand.settle();
    // The look is asked for behind a page of the backlog.
    hand.settled(&[1]);
    let read = loop {
        match hand.read.take() {
            Some(read) if hand.ahead.as_ref().is_some_and(|ahead| a_look(&ahead.wanted)) => break read,
            Some(read) if new(&read.wanted) => {
                let id = 100 + i64::try_from(hand.flights.len()).unwrap();
                hand.answer(read, vec![only(1, row(id, None))], true);
            }
            Some(read) => hand.answer(read, Vec::new(), false),
            None => hand.wait(),
        }
    };
    hand.answer(read, vec![only(1, row(5, Some("k")))], true);
    let look = hand.read.take().unwrap();
    assert!(a_look(&look.wanted), "{look:?}");
    hand.answer(look, Vec::new(), false);
    let flight = hand.flight(5);
    hand.publish(flight, None);
    assert!(hand.read(a_look).is_none());
}
