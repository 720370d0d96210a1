//! A key that is shut by a message that was given up unsent, and blame on a connection that all share.

use std::time::Duration;

use super::by_hand::{Hand, freed, head, row, rows_of};
use crate::machine::{Event, Wanted};
use crate::*;

fn malformed(id: i64, key: &str) -> Row {
    let content = Content::Malformed { id: None, key: Some(Key::unchecked(key)), reason: "no topic".to_owned() };
    Row { content, ..freed(id, key) }
}

#[test]
fn what_waits_in_memory_behind_a_row_that_shuts_its_key_is_not_sent() {
    let mut hand = Hand::with(1, |settings| {
        settings.on_dead = vec![(TopicPattern::every(), OnDead::Hold)];
        settings.destinations[0].profile.max_batch = 1;
    });
    hand.give_new(vec![row(1, Some("k")), row(3, Some("k")), row(4, Some("k"))]);
    let first = hand.flight(1);
    hand.give_due(vec![malformed(2, "k")]);
    hand.publish(first, None);
    for _ in 0..20 {
        while !hand.settles.is_empty() {
            let ids = rows_of(&hand.settles.remove(0));
            hand.settled(&ids);
        }
        assert!(hand.flights.is_empty(), "it overtook the one that holds the key: {:?}", hand.flights);
        match hand.read.take() {
            Some(read) => hand.answer(read, Vec::new(), false),
            None => hand.wait(),
        }
    }
}

fn answer(hand: &mut Hand, failing: Option<ErrorKind>) {
    let (_, flight, rows) = hand.flights.remove(0);
    let results = rows.iter().map(|_| match failing {
        Some(kind) => Published::Failed(Error::new(kind, "scripted")),
        None => Published::Accepted(Accepted::FRESH),
    });
    let event = Event::Published(flight, results.collect());
    hand.machine.on(hand.now, event);
    hand.act();
}

fn next_flight(hand: &mut Hand) {
    for _ in 0..2_000 {
        if !hand.flights.is_empty() {
            return;
        }
        match hand.read.take() {
            Some(read) => hand.answer(read, Vec::new(), false),
            None => hand.wait(),
        }
    }
    panic!("nothing is sent");
}

#[test]
fn on_a_shared_connection_a_message_is_not_charged_for_what_it_did_not_travel_through_alone() {
    let mut hand = Hand::with(1, |settings| settings.destinations[0].profile.isolation = Isolation::SharedConnection);
    hand.give_new(vec![row(1, None), row(2, None), row(3, None)]);
    answer(&mut hand, Some(ErrorKind::Unavailable));
    next_flight(&mut hand);
    assert_eq!(hand.flights[0].2.len(), 1, "a probe");
    answer(&mut hand, None);
    next_flight(&mut hand);
    assert_eq!(hand.flights[0].2.len(), 2, "both failed once, and travel together");
    hand.settles.clear();
    answer(&mut hand, Some(ErrorKind::Unavailable));
    assert!(hand.settles.iter().flatten().all(|settlement| !matches!(settlement.outcome, Outcome::Retry { .. })));
    assert!(hand.machine.destinations()[0].paused.is_some());
}

#[test]
fn a_head_whose_topic_limits_the_age_ends_unread() {
    let mut hand = Hand::with(1, |settings| {
        let policy = RetryPolicy { max_age: Some(Duration::from_secs(1)), ..RetryPolicy::default() };
        settings.retry = vec![(TopicPattern::every(), policy)];
    });
    hand.lose();
    hand.gain_as(Start::Careful);
    let lifetime = Lifetime { age: Duration::from_secs(2), ..Lifetime::default() };
    hand.give_to(|wanted| matches!(wanted, Wanted::New), vec![Row { lifetime, ..head(1, None, 0) }]);
    assert!(matches!(
        hand.settle()[..],
        [Settlement { outcome: Outcome::Dead { reason: DeadReason::Expired, .. }, .. }]
    ));
}
