//! A row behind so many of its key that the read did not look at all of them.

use super::by_hand::{Hand, PAUSES, WORKS, a_look, aside, only, row};
use super::world::name;
use crate::machine::Wanted;
use crate::*;

/// Those that were looked at wait for the paused destination.
fn behind_many(id: i64) -> Row {
    Row { closed: Closed::ForMany(vec![name(PAUSES)]), ..row(id, Some("k")) }
}

/// What is on its way to the one that works; probes of the other one come and go.
fn sent(hand: &Hand) -> Vec<Vec<i64>> {
    hand.flights.iter().filter(|(place, ..)| place.get() == WORKS).map(|(_, _, rows)| rows.clone()).collect()
}

/// What waits for what, as the only settle of a row under way records it.
fn recorded(hand: &mut Hand, id: i64) -> Option<Vec<DestinationName>> {
    let batch = hand.settle();
    let [Settlement { row: RowId(found), outcome: Outcome::SetAside { waiting_for }, .. }] = &batch[..] else {
        panic!("{batch:?}")
    };
    assert_eq!(*found, id);
    let waiting_for = waiting_for.clone();
    hand.settled(&[id]);
    waiting_for
}

/// A row goes where it can, and waits for the paused destination in the table.
fn goes_on(hand: &mut Hand, id: i64) {
    assert_eq!(sent(hand), [vec![id]]);
    let flight = hand.flight(id);
    hand.publish(flight, None);
    assert_eq!(recorded(hand, id), Some(vec![name(PAUSES)]));
}

/// The first row of the key is read, and looked at with everything before it.
fn looked_at(hand: &mut Hand, id: i64) {
    hand.give_new(vec![behind_many(id)]);
    assert!(sent(hand).is_empty(), "one of those that were not looked at may have to go first");
    assert_eq!(recorded(hand, id), None);
    hand.give_to(a_look, vec![only(PAUSES, aside(20, "k")), only(PAUSES, aside(21, "k")), aside(id, "k")]);
    goes_on(hand, id);
}

/// However many wait for the paused one, they cost the other one a look, once, and also when the next row comes before
/// that one is recorded.
#[test]
fn a_key_that_was_looked_at_goes_on_where_nothing_of_it_waits_however_many_wait_elsewhere() {
    let mut hand = Hand::beside_a_pause();
    looked_at(&mut hand, 50);
    for id in 51..60 {
        hand.give_new(vec![behind_many(id)]);
        goes_on(&mut hand, id);
    }
    hand.give_new(vec![behind_many(60)]);
    hand.give_new(vec![behind_many(61)]);
    assert_eq!(sent(&hand), [vec![60]]);
    let flight = hand.flight(60);
    hand.publish(flight, None);
    assert_eq!(sent(&hand), [vec![61]]);
}

#[test]
fn one_that_fails_where_it_could_go_holds_back_those_behind_it_there_too() {
    let mut hand = Hand::beside_a_pause();
    looked_at(&mut hand, 50);
    hand.give_new(vec![behind_many(51)]);
    let flight = hand.flight(51);
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[0].outcome, Outcome::Retry { .. }));
    hand.settled(&[51]);
    hand.give_new(vec![behind_many(52)]);
    assert!(sent(&hand).is_empty());
    assert_eq!(recorded(&mut hand, 52), None);
}

#[test]
fn what_was_known_of_a_key_is_forgotten_with_its_lane() {
    let mut hand = Hand::beside_a_pause();
    looked_at(&mut hand, 50);
    hand.lose();
    hand.gain();
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), Vec::new());
    hand.give_new(vec![behind_many(51)]);
    assert!(sent(&hand).is_empty());
}

/// The paused one takes a probe and goes on. The key is looked at, which brings these rows and not all, and then met by the
/// walk for what waited.
fn resumed(waiting: &[i64]) -> Hand {
    let mut hand = Hand::beside_a_pause();
    looked_at(&mut hand, 50);
    while hand.flights.is_empty() {
        hand.wait();
    }
    let flight = hand.flight(9);
    hand.publish(flight, None);
    assert!(hand.machine.destinations()[PAUSES].paused.is_none());
    let probe = hand.settle();
    hand.settled(&[probe[0].row.0]);
    let look = hand.read(a_look).expect("what waited for the one that goes on is looked at");
    hand.answer(look, waiting.iter().map(|id| only(PAUSES, aside(*id, "k"))).collect(), true);
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(20, "k")]);
    let next = hand.read(|_| true).expect("it goes on reading");
    assert!(!a_look(&next.wanted), "it is known that nothing of it waits where it could go now");
    hand.answer(next, Vec::new(), false);
    hand
}

/// It takes as long as it takes, because as much waits as came in the pause.
#[test]
fn while_the_one_that_paused_gets_what_waited_the_other_goes_on() {
    let mut hand = resumed(&[20, 21]);
    hand.give_new(vec![behind_many(51)]);
    assert_eq!(sent(&hand), [vec![51]], "of the key it is known that nothing waits there");
    let flight = hand.flight(51);
    hand.publish(flight, None);
    assert_eq!(recorded(&mut hand, 51), Some(vec![name(PAUSES)]));
}

#[test]
fn a_key_that_is_looked_at_until_nothing_of_it_waits_is_not_looked_at_anew_for_a_walk() {
    let mut hand = resumed(&[20]);
    let flight = hand.flight(20);
    hand.publish(flight, None);
    hand.settle();
    hand.settled(&[20]);
    hand.give_to(a_look, Vec::new());
    assert!(hand.read(a_look).is_none(), "one look that found nothing is enough");
}
