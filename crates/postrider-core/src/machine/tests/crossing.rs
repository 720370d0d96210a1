//! Answers that cross: each rule here is about what happened between a question and its answer.

use std::time::Duration;

use super::by_hand::{Hand, aside, retrying, row, rows_of};
use super::world::name;
use crate::machine::{DestinationIndex, Event, Note, Wanted};
use crate::*;

fn look_at_a_key(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Key(..))
}

#[test]
fn a_broker_answering_what_was_sent_under_an_earlier_term_decides_nothing() {
    for failure in [None, Some(ErrorKind::Rejected), Some(ErrorKind::Fenced)] {
        let mut hand = Hand::new(1);
        hand.give_new(vec![row(1, Some("k"))]);
        let early = hand.flight(1);
        hand.lose();
        hand.gain();
        hand.give_new(vec![row(1, Some("k"))]);
        let late = hand.flight(1);
        hand.publish(early, failure);
        assert!(hand.settles.is_empty(), "settled while it is on its way: {failure:?}");
        assert_eq!(hand.machine.held().len(), 1, "{failure:?}");
        hand.publish(late, None);
        let settled = hand.settle();
        assert!(matches!(settled[0].outcome, Outcome::Delivered), "{failure:?}");
    }
}

#[test]
fn a_settle_answered_after_its_lane_was_lost_and_regained_decides_nothing() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let first = hand.flight(1);
    hand.publish(first, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[0].outcome, Outcome::Retry { attempts: 1, .. }));
    hand.lose();
    hand.gain();
    hand.give_new(Vec::new());
    hand.give_due(vec![retrying(1, "k")]);
    let again = hand.flight(1);
    // It took effect just before the lane was lost.
    hand.settled(&[1]);
    assert_eq!(hand.machine.window().0, 1, "a row on its way was forgotten");
    hand.publish(again, None);
    assert!(matches!(hand.settle()[0].outcome, Outcome::Delivered));
}

#[test]
fn a_row_settled_while_a_read_was_under_way_is_not_sent_again() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k")), row(2, None)]);
    let read = hand.read(|wanted| matches!(wanted, Wanted::New)).unwrap();
    hand.accept_all();
    while !hand.settles.is_empty() {
        let rows = rows_of(&hand.settle());
        hand.settled(&rows);
    }
    assert_eq!(hand.machine.window().0, 0);
    // A reader that had to connect anew brings everything that it saw.
    hand.answer(read, vec![row(1, Some("k")), row(2, None), row(3, None)], false);
    let sent: Vec<_> = hand.flights.iter().flat_map(|(_, _, rows)| rows.clone()).collect();
    assert_eq!(sent, [3]);
}

#[test]
fn nothing_new_is_sent_while_a_settle_that_failed_is_tried_again() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None)]);
    let first = hand.flight(1);
    hand.publish(first, None);
    hand.settle();
    hand.machine.on(hand.now, Event::Settled(Err(Error::new(ErrorKind::Unavailable, "scripted"))));
    hand.give_new(vec![row(2, None)]);
    while hand.settles.is_empty() {
        hand.wait();
    }
    hand.wait();
    assert!(hand.flights.is_empty(), "it is not known yet whether the store is back");
    hand.settle();
    hand.settled(&[1]);
    hand.flight(2);
}

/// It may have set a row aside again that was to be tried again by a newer settle, and no due query brings that one.
#[test]
fn a_settle_that_was_given_up_is_looked_after_when_it_can_have_taken_effect() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k")), row(2, Some("k"))]);
    let (flight, _) = hand.flight(1);
    let refused = Published::Failed(Error::new(ErrorKind::Rejected, "scripted"));
    hand.machine.on(hand.now, Event::Published(flight, vec![refused, Published::NotSent]));
    let mut lost = false;
    let mut walked = None;
    while walked.is_none() && hand.now < Tick::ZERO + Duration::from_secs(60) {
        hand.wait();
        while let Some(batch) = hand.settles.pop() {
            let aside = batch.iter().any(|settlement| matches!(settlement.outcome, Outcome::SetAside { .. }));
            if aside && !lost {
                lost = true;
                let error = Error::new(ErrorKind::Unknown, "no answer");
                hand.machine.on(hand.now, Event::Settled(Err(error)));
            } else {
                hand.settled(&rows_of(&batch));
            }
        }
        hand.accept_all();
        if let Some(read) = hand.read.take() {
            walked = matches!(read.wanted, Wanted::Walk(..)).then_some(hand.now);
            hand.answer(read, Vec::new(), false);
        }
    }
    assert!(lost, "nothing was set aside");
    let walked = walked.expect("no walk");
    assert!(walked >= Tick::ZERO + Duration::from_secs(30), "{walked:?}: too early to see it");
}

#[test]
fn rows_set_aside_while_the_destination_pauses_are_found_when_it_goes_on() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![retrying(1, "k")]);
    let head = hand.flight(1);
    hand.give_new(vec![row(3, None)]);
    let other = hand.flight(3);
    hand.publish(other, Some(ErrorKind::Unavailable));
    assert!(hand.machine.destinations()[0].paused.is_some());
    hand.publish(head, None);
    hand.settle();
    hand.settled(&[1]);
    assert!(hand.read(look_at_a_key).is_none(), "what a look would bring could not be sent");
    let probe = hand.flight(3);
    hand.publish(probe, None);
    assert!(hand.machine.destinations()[0].paused.is_none());
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(2, "k")]);
    hand.give_to(look_at_a_key, vec![aside(2, "k")]);
    hand.flight(2);
}

#[test]
fn a_row_set_aside_while_a_look_is_under_way_is_looked_for_again() {
    let only = |row: Row, place: usize| Row { waiting_for: Some(vec![name(place)]), ..row };
    let mut hand = Hand::new(2);
    hand.give_due(vec![only(retrying(1, "k"), 0)]);
    hand.give_new(vec![only(row(2, Some("k")), 1)]);
    hand.give_new(vec![only(row(3, Some("k")), 1)]);
    let (first, second) = (hand.flight(1), hand.flight(2));
    hand.publish(first, None);
    hand.settle();
    hand.settled(&[1]);
    let look = hand.read(look_at_a_key).unwrap();
    hand.publish(second, Some(ErrorKind::Rejected));
    let settled = rows_of(&hand.settle());
    assert_eq!(settled, [3, 2], "the successor is set aside behind its head");
    // The application has deleted the head meanwhile, so that no due query will bring the key back.
    hand.settled(&[3]);
    hand.answer(look, Vec::new(), false);
    hand.give_to(look_at_a_key, vec![only(aside(3, "k"), 1)]);
    hand.flight(3);
}

#[test]
fn reads_take_turns_however_much_each_of_them_finds() {
    let mut hand = Hand::new(1);
    let mut kinds = Vec::new();
    let due = hand.read(|wanted| matches!(wanted, Wanted::Due(_))).unwrap();
    hand.answer(due, vec![row(1, None)], true);
    for id in 2..=40 {
        hand.act();
        while hand.read.is_none() {
            hand.wait();
        }
        let read = hand.read.take().unwrap();
        // Each takes as long as the longest pause between two of a kind.
        hand.now = hand.now + Duration::from_millis(250);
        kinds.push(std::mem::discriminant(&read.wanted));
        hand.answer(read, vec![row(id, None)], true);
    }
    let (new, due) = (Wanted::New, Wanted::Due(Vec::new()));
    for turns in kinds.windows(3) {
        assert!(turns.contains(&std::mem::discriminant(&new)), "new rows wait");
        assert!(turns.contains(&std::mem::discriminant(&due)), "due rows wait");
    }
}

#[test]
fn a_look_at_a_destination_ends_its_pause_when_no_message_could() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, None)]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    hand.lose();
    hand.gain();
    for answer in [Err(Error::new(ErrorKind::Unavailable, "scripted")), Ok(())] {
        assert!(hand.machine.destinations()[0].paused.is_some());
        for _ in 0..1_000 {
            if hand.checks > 0 {
                break;
            }
            match hand.read.take() {
                Some(read) => hand.answer(read, Vec::new(), false),
                None => hand.wait(),
            }
        }
        assert_eq!(hand.checks, 1, "it is looked at once at a time");
        hand.checks = 0;
        hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), answer));
    }
    assert!(hand.machine.destinations()[0].paused.is_none());
    assert!(hand.machine.take_notes().iter().any(|note| matches!(note, Note::Resumed(_))));
}

#[test]
fn a_look_that_was_sent_before_an_earlier_row_was_in_the_table_lets_nothing_overtake_that_one() {
    let mut hand = Hand::with_window(2, 3);
    hand.give_new(vec![row(9, None)]);
    let (first, second) = (hand.flight(9), hand.flight(9));
    hand.publish(first, Some(ErrorKind::Unavailable));
    hand.publish(second, None);
    hand.give_new(vec![row(1, Some("k"))]);
    let elsewhere = hand.flight(1);
    hand.publish(elsewhere, None);
    // The window is full with it: what waits for the paused destination leaves memory.
    hand.give_new(vec![Row { closed: Closed::ForAll, ..row(2, Some("k")) }]);
    assert_eq!(hand.settle().iter().map(|one| one.row.0).collect::<Vec<_>>(), [2]);
    hand.settled(&[2]);
    let aside_now: Vec<_> = hand.settle().iter().map(|one| one.row.0).collect();
    assert!(aside_now.contains(&1), "{aside_now:?}");
    let look = hand.read(look_at_a_key).unwrap();
    // The look saw the table before that settle, and its answer comes after that one's.
    hand.settled(&aside_now);
    hand.answer(look, vec![aside(2, "k")], false);
    hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
    hand.act();
    let sent: Vec<_> = hand.flights.iter().filter(|(.., rows)| rows.contains(&2)).map(|(place, ..)| *place).collect();
    assert_eq!(sent, [DestinationIndex::new(1)], "it overtook the first of its key");
}

#[test]
fn a_lane_that_comes_back_is_not_swept_before_it_is_read_anew() {
    for turns in 0..5 {
        let mut hand = Hand::new(1);
        for _ in 0..turns {
            let read = hand.read(|_| true).unwrap();
            hand.answer(read, Vec::new(), false);
        }
        hand.now = Tick::after_start(Duration::from_secs(400_000));
        hand.lose();
        hand.gain();
        let mut is_read = false;
        loop {
            let read = hand.read(|_| true).expect("a sweep is due");
            match read.wanted {
                Wanted::Sweep(_) if !read.lanes.is_empty() => break,
                Wanted::New => is_read |= read.lanes[0].term == Term(2),
                _ => {}
            }
            hand.answer(read, Vec::new(), false);
        }
        assert!(is_read, "what was read under an earlier term says nothing of what is in the window: {turns} turns");
    }
}

#[test]
fn a_lane_that_comes_beside_another_one_is_not_swept_with_it_before_it_is_read() {
    let mut swept_without = 0;
    for turns in 0..5 {
        let mut hand = Hand::new(1);
        for _ in 0..turns {
            let read = hand.read(|_| true).unwrap();
            hand.answer(read, Vec::new(), false);
        }
        hand.now = Tick::after_start(Duration::from_secs(400_000));
        let other = HeldLane { lane: Lane(1), term: Term(1), start: Start::Clean };
        hand.machine.on(hand.now, Event::Gained(vec![other]));
        let mut is_read = false;
        loop {
            let read = hand.read(|_| true).expect("a sweep is due");
            match read.wanted {
                Wanted::Sweep(_) if read.lanes.contains(&other) => break,
                Wanted::Sweep(_) => swept_without += 1,
                Wanted::New => is_read |= read.lanes.contains(&other),
                _ => {}
            }
            hand.answer(read, Vec::new(), false);
        }
        assert!(is_read, "nothing of it is known: {turns} turns");
    }
    assert!(swept_without > 0, "the lane that is read is not swept because of it");
}

#[test]
fn a_row_that_was_set_aside_when_it_was_due_goes_although_the_clock_was_set_back_since() {
    let mut hand = Hand::new(1);
    let not_yet = |row| Row { due: Due::In(Duration::from_secs(1)), ..row };
    for _ in 0..2 {
        hand.give_due(vec![Row { closed: Closed::ForAll, ..row(2, Some("k")) }]);
    }
    assert!(matches!(hand.settle()[0].outcome, Outcome::SetAside { .. }));
    hand.settled(&[2]);
    hand.give_to(look_at_a_key, vec![not_yet(aside(2, "k"))]);
    let flight = hand.flight(2);
    hand.publish(flight, None);
    assert!(matches!(hand.settle()[0].outcome, Outcome::Delivered));
}

#[test]
fn what_is_to_be_tried_again_in_a_lane_gained_waits_until_that_lane_is_read() {
    let mut hand = Hand::new(1);
    let before = hand.read(|wanted| matches!(wanted, Wanted::New)).unwrap();
    hand.lose();
    hand.gain();
    hand.answer(before, Vec::new(), false);
    let due = hand.read.take().unwrap();
    assert!(matches!(due.wanted, Wanted::Due(_)), "{due:?}");
    hand.answer(due, vec![retrying(2, "k")], false);
    assert!(hand.flights.is_empty(), "an earlier row of its key may be unread: {:?}", hand.flights);
    hand.give_new(vec![row(1, Some("k"))]);
    let first = hand.flight(1);
    hand.give_due(vec![retrying(2, "k")]);
    assert!(hand.flights.is_empty(), "it overtakes: {:?}", hand.flights);
    hand.publish(first, None);
    hand.flight(2);
}
