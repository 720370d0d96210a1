//! A lane goes back to the others: the rules one by one.

use super::by_hand::{Hand, aside, head, row, rows_of};
use super::world::name;
use crate::machine::{DestinationIndex, Event, Wanted};
use crate::*;

#[test]
fn a_lane_with_nothing_on_its_way_is_released_at_once() {
    let mut hand = Hand::new(1);
    hand.hand_back();
    assert_eq!(hand.released.iter().map(|held| (held.lane, held.term)).collect::<Vec<_>>(), [(Lane(0), Term(1))]);
    assert!(hand.machine.held().is_empty());
    hand.act();
    assert_eq!(hand.released.len(), 1, "once");
}

#[test]
fn a_lane_is_released_after_its_last_settle_was_answered_and_not_before() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    hand.give_new(vec![row(2, None)]);
    let flights = [hand.flight(1), hand.flight(2)];
    hand.hand_back();
    assert!(hand.released.is_empty(), "two messages are on their way");
    for flight in flights {
        hand.publish(flight, None);
        assert!(hand.released.is_empty(), "what was accepted is not recorded");
    }
    hand.settle();
    hand.machine.on(hand.now, Event::Settled(Err(Error::new(ErrorKind::Unavailable, "scripted"))));
    hand.act();
    assert!(hand.released.is_empty(), "the settle was not carried out");
    while hand.settles.is_empty() {
        hand.wait();
    }
    let settled = rows_of(&hand.settle());
    hand.settled(&settled);
    while !hand.settles.is_empty() {
        let settled = rows_of(&hand.settle());
        hand.settled(&settled);
    }
    assert_eq!(hand.released.len(), 1);
    assert_eq!(hand.machine.window(), (0, 0));
}

#[test]
fn what_waits_in_memory_is_forgotten_and_nothing_more_is_sent_or_read() {
    let mut hand = Hand::new(1);
    hand.give_new((1..=3).map(|id| row(id, Some("k"))).collect());
    hand.give_new((4..=6).map(|id| row(id, Some("k"))).collect());
    let first = hand.flight(1);
    assert_eq!(first.1, 3, "one call of the key at a time: the other three wait");
    let read = hand.read(|wanted| matches!(wanted, Wanted::New)).unwrap();
    hand.hand_back();
    assert_eq!(hand.machine.window().0, 3, "those that wait are forgotten");
    hand.answer(read, vec![row(7, Some("k")), row(8, None)], false);
    hand.publish(first, None);
    assert!(hand.flights.is_empty(), "nothing more is sent");
    let settled = rows_of(&hand.settle());
    assert_eq!(settled, [1, 2, 3]);
    hand.settled(&settled);
    assert_eq!((hand.released.len(), hand.machine.window().0), (1, 0));
    assert!(hand.read(|_| true).is_none(), "there is no lane to read");
}

#[test]
fn a_message_that_failed_while_its_lane_goes_back_is_left_to_the_next_owner() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.hand_back();
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!((hand.released.len(), hand.machine.window().0), (1, 0), "an outage is nothing to record");
    assert!(hand.settles.is_empty());

    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.hand_back();
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert!(hand.released.is_empty(), "a charged attempt is");
    assert!(matches!(hand.settle()[0].outcome, Outcome::Retry { attempts: 1, .. }));
    hand.settled(&[1]);
    assert_eq!(hand.released.len(), 1);
}

#[test]
fn a_paused_destination_does_not_hold_a_lane_back() {
    let mut hand = Hand::new(2);
    hand.give_new(vec![row(1, Some("k"))]);
    let (to_first, to_second) = (hand.flight(1), hand.flight(1));
    hand.publish(to_first, Some(ErrorKind::Unavailable));
    assert!(hand.machine.destinations()[0].paused.is_some());
    hand.publish(to_second, None);
    hand.give_new(vec![row(2, None)]);
    hand.hand_back();
    // The one is half delivered: what it is still owed waits in the table, so that nothing is sent twice.
    let settled = hand.settle();
    let aside = Outcome::SetAside { waiting_for: Some(vec![name(0)]) };
    assert_eq!(settled.iter().map(|s| (s.row.0, &s.outcome)).collect::<Vec<_>>(), [(1, &aside)]);
    hand.settled(&[1]);
    hand.accept_all();
    while !hand.settles.is_empty() {
        let rows = rows_of(&hand.settle());
        hand.settled(&rows);
    }
    assert_eq!((hand.released.len(), hand.machine.window().0), (1, 0), "although the pause goes on");
    assert!(hand.machine.destinations()[0].paused.is_some());
}

#[test]
fn a_message_on_its_way_to_one_destination_is_not_sent_to_another_one_any_more() {
    for key in [Some("k"), None] {
        let mut hand = Hand::new(2);
        hand.give_new(vec![row(9, None)]);
        let (to_first, to_second) = (hand.flight(9), hand.flight(9));
        hand.publish(to_first, Some(ErrorKind::Unavailable));
        hand.give_new(vec![row(1, key)]);
        let flight = hand.flight(1);
        hand.hand_back();
        hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
        hand.act();
        assert!(hand.machine.destinations()[0].paused.is_none());
        assert!(hand.flights.is_empty(), "it would overtake what was forgotten: {:?}", hand.flights);
        hand.publish(to_second, None);
        hand.settle();
        hand.settled(&[9]);
        hand.publish(flight, None);
        let settled = hand.settle();
        let owed = match &settled[0].outcome {
            Outcome::SetAside { waiting_for } | Outcome::Retry { waiting_for, .. } => waiting_for.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(owed, Some(vec![name(0)]), "who reads it next sends the rest");
        hand.settled(&[1]);
        assert_eq!(hand.released.len(), 1);
    }
}

#[test]
fn a_lane_that_is_lost_on_its_way_back_is_given_up_at_once() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.hand_back();
    hand.lose();
    assert!(hand.machine.held().is_empty());
    hand.gain();
    hand.publish(flight, None);
    assert!(hand.settles.is_empty(), "it was sent under an earlier term");
    assert_eq!(hand.machine.held().len(), 1, "and the new lease is another one");
    assert!(hand.released.is_empty());
}

#[test]
fn a_hand_back_of_an_earlier_term_is_answered_and_touches_nothing() {
    let mut hand = Hand::new(1);
    let early = hand.machine.held();
    hand.lose();
    hand.gain();
    hand.give_new(vec![row(1, Some("k"))]);
    hand.machine.on(hand.now, Event::HandBack(early.clone()));
    hand.act();
    assert_eq!(hand.released, early, "whoever asked must not wait for ever");
    assert_eq!((hand.machine.held().len(), hand.machine.window().0), (1, 1));
}

#[test]
fn a_settle_that_is_fenced_while_its_lane_goes_back_says_so() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.hand_back();
    hand.publish(flight, None);
    hand.settle();
    hand.machine.on(hand.now, Event::Settled(Ok(Settled::default())));
    hand.act();
    let fenced =
        |note: &crate::machine::Note| matches!(note, crate::machine::Note::Fenced(held) if held.term == Term(1));
    assert!(hand.machine.take_notes().iter().any(fenced));
    assert!(hand.machine.held().is_empty() && hand.released.is_empty());
}

fn careful() -> Hand {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain_as(Start::Careful);
    hand
}

/// Answers every settle until the lane is released.
fn let_go(hand: &mut Hand) -> Start {
    while !hand.settles.is_empty() {
        let rows = rows_of(&hand.settle());
        hand.settled(&rows);
    }
    assert_eq!((hand.released.len(), hand.machine.window().0), (1, 0));
    hand.released[0].start
}

#[test]
fn a_lane_that_goes_back_during_its_careful_start_starts_carefully_again() {
    let mut unread = careful();
    unread.hand_back();
    assert_eq!(let_go(&mut unread), Start::Careful);

    for tried in [false, true] {
        let mut hand = careful();
        hand.give_new(vec![head(1, Some("k"), 0), head(2, Some("k"), 1)]);
        for kind in
            [|wanted: &Wanted| matches!(wanted, Wanted::New), |wanted: &Wanted| matches!(wanted, Wanted::Due(_))]
        {
            let read = hand.read(kind).unwrap();
            hand.answer(read, Vec::new(), false);
        }
        for row_id in [1, 2].into_iter().filter(|_| tried) {
            hand.settle();
            hand.settled(&[row_id]);
            hand.give_to(|wanted| matches!(wanted, Wanted::Rows(_)), vec![row(row_id, Some("k"))]);
            let flight = hand.flight(row_id);
            hand.publish(flight, None);
            hand.settle();
            hand.settled(&[row_id]);
        }
        hand.hand_back();
        let expected = if tried { Start::Clean } else { Start::Careful };
        assert_eq!(let_go(&mut hand), expected, "every message of it was answered: {tried}");
    }
}

#[test]
fn a_stop_during_a_careful_start_leaves_the_lanes_careful() {
    let mut hand = careful();
    hand.give_new(vec![head(1, Some("k"), 2)]);
    hand.machine.on(hand.now, Event::Stop);
    hand.act();
    while !hand.settles.is_empty() {
        hand.settle();
        hand.settled(&[1]);
    }
    assert!(hand.machine.is_drained());
    assert_eq!(hand.machine.held()[0].start, Start::Careful);
}

#[test]
fn a_lane_that_came_back_is_read_from_its_beginning() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.hand_back();
    hand.publish(flight, Some(ErrorKind::Rejected));
    hand.settle();
    hand.settled(&[1]);
    assert_eq!(hand.released.len(), 1);
    hand.gain();
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(2, "j")]);
    hand.give_new(vec![row(1, Some("k"))]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![aside(2, "j")]);
    assert_eq!(hand.machine.window().0, 2);
}
