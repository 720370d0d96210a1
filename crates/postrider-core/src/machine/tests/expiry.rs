//! Messages whose time has passed.

use std::time::Duration;

use super::broker::{Mode, Poison};
use super::by_hand::{Hand, aside, head, retrying, row};
use super::world::{Happening, World};
use crate::machine::*;
use crate::*;

const MILLI: i64 = 1_000;

fn until(at: i64) -> Message {
    Message::new("all", "x").key("k").expires_at(Timestamp(at * MILLI))
}

fn reasons(world: &World) -> Vec<DeadReason> {
    let reason = |note: &Note| match note {
        Note::Dead { reason, .. } => Some(*reason),
        _ => None,
    };
    world.notes.iter().filter_map(reason).collect()
}

fn expired(left: Duration, row: Row) -> Row {
    Row { lifetime: Lifetime { expires: Expires::In(left), ..Lifetime::default() }, ..row }
}

fn policy(world: &mut World, change: impl Fn(&mut RetryPolicy)) {
    world.settings.retry.iter_mut().for_each(|(_, policy)| change(policy));
    world.start();
}

#[test]
fn a_message_that_is_over_when_it_is_read_dies_unsent_and_its_key_goes_on() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.run(10);
    let over = world.write(until(5), 0, |_| ());
    let next = world.keyed("k");
    assert!(world.until(2, World::is_done));
    assert_eq!(
        (world.dead(), world.brokers[0].rows(), reasons(&world)),
        (vec![over], vec![next], vec![DeadReason::Expired])
    );
    assert!(world.brokers[0].calls.iter().flatten().all(|id| *id != world.id(over)), "it was never sent");
}

#[test]
fn a_message_dies_in_memory_while_its_destination_pauses_and_not_before_its_time() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let mortal = world.write(until(700), 0, |_| ());
    let other = world.keyed("k");
    world.run(690);
    assert!(world.dead().is_empty());
    world.run(30);
    assert_eq!((world.dead(), reasons(&world)), (vec![mortal], vec![DeadReason::Expired]));
    assert_eq!(world.table.rows[&mortal].attempts, 0, "an outage costs no attempt");
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows(), [other]);
}

#[test]
fn what_has_no_end_waits_through_any_outage() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let rows: Vec<_> = (0..3).map(|_| world.keyed("k")).collect();
    world.run(3_600_000);
    assert!(world.dead().is_empty());
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows(), rows);
}

#[test]
fn a_retrying_message_comes_back_when_it_is_over_and_not_at_its_next_attempt() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    policy(&mut world, |policy| policy.initial = Duration::from_secs(1_000));
    let mortal = world.write(until(600), 0, |_| ());
    let id = world.id(mortal);
    world.brokers[0].poison.insert(id, Poison::Fails(ErrorKind::Rejected));
    let next = world.keyed("k");
    world.run(500);
    assert!(world.brokers[0].rows().is_empty(), "the key waits");
    assert!(world.until(2, World::is_done));
    assert_eq!(
        (world.dead(), world.brokers[0].rows(), reasons(&world)),
        (vec![mortal], vec![next], vec![DeadReason::Expired])
    );
    assert_eq!(world.table.rows[&mortal].attempts, 1);
}

#[test]
fn a_message_set_aside_dies_at_its_keys_next_turn_and_is_never_sent() {
    let mut world = World::small(OrderInBatch::NotKept, Isolation::PerMessage);
    let head = world.keyed("k");
    let id = world.id(head);
    world.brokers[0].poison.insert(id, Poison::Fails(ErrorKind::Rejected));
    let mortal = world.write(until(250), 0, |_| ());
    let last = world.keyed("k");
    assert!(world.until(60, World::is_done));
    assert_eq!(world.dead(), [head, mortal]);
    assert_eq!(world.brokers[0].rows(), [last]);
    assert!(world.brokers[0].calls.iter().flatten().all(|id| *id != world.id(mortal)), "it was never sent");
}

#[test]
fn the_maximum_age_of_a_topic_counts_from_when_the_message_was_written() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    policy(&mut world, |policy| policy.max_age = Some(Duration::from_secs(2)));
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let row = world.keyed("k");
    world.run(1_000);
    world.happens(0, Happening::Crash);
    world.run(950);
    assert!(world.dead().is_empty(), "a new relay does not begin to count anew, nor end it early");
    world.run(100);
    assert_eq!((world.dead(), reasons(&world)), (vec![row], vec![DeadReason::Expired]));
}

#[test]
fn a_message_may_change_the_maximum_age_of_its_topic() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let shorter = RetryOverride { max_age_ms: Some(300), ..RetryOverride::default() };
    let mortal = world.write(Message::new("all", "x").retry(shorter), 0, |_| ());
    world.run(400);
    assert_eq!(world.dead(), [mortal]);
    policy(&mut world, |policy| policy.max_age = Some(Duration::from_millis(500)));
    let never = RetryOverride { max_age_ms: Some(0), ..RetryOverride::default() };
    let immortal = world.write(Message::new("all", "x").retry(never), 0, |_| ());
    world.run(2_000);
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(60, World::is_done));
    assert_eq!((world.dead(), world.brokers[0].rows()), (vec![mortal], vec![immortal]));
}

#[test]
fn what_is_dropped_is_gone_and_counted_and_its_key_goes_on() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    policy(&mut world, |policy| policy.on_expire = OnExpire::Drop);
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let mortal = world.write(until(300), 0, |_| ());
    let next = world.keyed("k");
    world.run(400);
    assert!(!world.table.rows.contains_key(&mortal) && world.dead().is_empty());
    assert!(world.notes.contains(&Note::Dropped { id: Some(world.id(mortal)), topic: Topic::unchecked("all") }));
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows(), [next]);
}

#[test]
fn what_a_destination_accepted_before_is_not_taken_back_and_the_other_is_still_owed() {
    let mut world = World::two(OrderInBatch::Kept, Isolation::PerMessage);
    world.brokers[1].mode = Mode::Down(ErrorKind::Unavailable);
    let mortal = world.write(until(300), 0, |_| ());
    world.run(400);
    assert_eq!((world.brokers[0].rows(), world.dead()), (vec![mortal], vec![mortal]));
    assert_eq!(world.table.rows[&mortal].waiting_for, Some(vec![DestinationName::new("b")]));
}

#[test]
fn a_message_on_its_way_when_its_time_comes_counts_by_the_brokers_answer() {
    for accepted in [true, false] {
        let mut hand = Hand::new(1);
        hand.give_new(vec![expired(Duration::from_millis(50), row(1, Some("k"))), row(2, Some("k"))]);
        let (flight, rows) = hand.flight(1);
        hand.now = hand.now + Duration::from_millis(60);
        hand.act();
        assert!(hand.settles.is_empty(), "it may still be accepted");
        hand.publish((flight, rows), (!accepted).then_some(ErrorKind::Unavailable));
        let settled: Vec<_> =
            hand.settle().into_iter().map(|settlement| (settlement.row.0, settlement.outcome)).collect();
        let first = settled.iter().find(|(row, _)| *row == 1).map(|(_, outcome)| outcome);
        match first {
            Some(Outcome::Delivered) => assert!(accepted),
            Some(Outcome::Dead { reason: DeadReason::Expired, .. }) => assert!(!accepted),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_replayed_message_does_not_expire_again() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    policy(&mut world, |policy| policy.max_age = Some(Duration::from_millis(300)));
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let row = world.write(until(200), 0, |_| ());
    world.run(300);
    assert_eq!(world.dead(), [row]);
    world.brokers[0].mode = Mode::Up;
    world.happens(0, Happening::Replay);
    world.run(1);
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows(), [row]);
}

#[test]
fn rows_that_are_over_make_room_in_a_full_window_of_a_paused_destination() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    (world.settings.window_rows, world.settings.page_rows) = (8, 8);
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    world.start();
    let rows: Vec<_> = (0..50).map(|n| world.write(until(300).key(n), 0, |_| ())).collect();
    world.run(1_000);
    assert_eq!(world.dead(), rows, "all of them, also those that did not fit into memory");
}

#[test]
fn a_row_that_is_over_dies_where_another_would_wait_behind_its_keys_head() {
    let mut hand = Hand::new(1);
    let held = Row { state: RowState::Holding, ..row(1, Some("k")) };
    hand.give_to(|wanted| matches!(wanted, Wanted::New), vec![Row { closed: Closed::ForAll, ..row(9, Some("k")) }]);
    let aside_now = hand.settle();
    assert!(matches!(aside_now[0].outcome, Outcome::SetAside { .. }));
    hand.settled(&[9]);
    hand.give_to(
        |wanted| matches!(wanted, Wanted::Key(..)),
        vec![held, expired(Duration::ZERO, aside(2, "k")), aside(9, "k")],
    );
    let settled: Vec<_> = hand.settle().into_iter().map(|settlement| (settlement.row.0, settlement.outcome)).collect();
    assert!(matches!(&settled[..], [(2, Outcome::Dead { reason: DeadReason::Expired, .. })]), "{settled:?}");
    assert!(hand.flights.is_empty());
}

#[test]
fn the_last_attempt_is_not_made_when_the_row_is_over_at_its_turn() {
    let mut hand = Hand::new(1);
    hand.give_due(vec![expired(Duration::ZERO, retrying(1, "k"))]);
    let settled = hand.settle();
    assert!(matches!(settled[0].outcome, Outcome::Dead { reason: DeadReason::Expired, attempts: 1, .. }));
    assert!(hand.flights.is_empty());
}

#[test]
fn a_successor_waits_until_the_end_of_its_head_is_recorded() {
    for on_expire in [OnExpire::Drop, OnExpire::Dead] {
        let policy = |settings: &mut Settings| settings.retry.iter_mut().for_each(|(_, one)| one.on_expire = on_expire);
        let mut hand = Hand::with(1, policy);
        hand.give_new(vec![expired(Duration::ZERO, row(1, Some("k"))), row(2, Some("k"))]);
        assert_eq!(hand.settle().iter().map(|one| one.row.0).collect::<Vec<_>>(), [1]);
        assert!(hand.flights.is_empty(), "after a crash, a relay without that end would send the head behind it");
        hand.settled(&[1]);
        hand.flight(2);
    }
}

#[test]
fn a_successor_waits_everywhere_while_its_head_is_over_and_still_on_its_way_to_one_destination() {
    let mut hand = Hand::new(2);
    hand.give_new(vec![row(9, None)]);
    let (first, second) = (hand.flight(9), hand.flight(9));
    hand.publish_unsent(first);
    hand.publish(second, None);
    hand.give_new(vec![expired(Duration::from_secs(1), row(1, Some("k")))]);
    let elsewhere = hand.flight(1);
    while hand.flights.is_empty() {
        hand.wait();
    }
    let probe = hand.flight(9);
    hand.now = hand.now + Duration::from_secs(2);
    hand.act();
    hand.publish(probe, None);
    assert!(matches!(hand.settle()[..], [Settlement { row: RowId(9), outcome: Outcome::Delivered, .. }]));
    hand.settled(&[9]);
    hand.give_new(vec![row(2, Some("k"))]);
    assert!(hand.flights.is_empty(), "the end of its head is not recorded");
    hand.publish(elsewhere, None);
    let settled = hand.settle();
    let Outcome::Dead { reason: DeadReason::Expired, waiting_for, .. } = &settled[0].outcome else {
        panic!("{settled:?}")
    };
    assert_eq!(waiting_for.as_deref(), Some(&[DestinationName::new("a")][..]), "the other one has it");
    assert!(hand.flights.is_empty());
    hand.settled(&[1]);
    hand.flight(2);
    hand.flight(2);
}

#[test]
fn what_the_databases_clock_says_at_the_last_read_counts() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![expired(Duration::from_secs(1), row(1, Some("k")))]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    let settled = hand.settle();
    assert!(matches!(settled[0].outcome, Outcome::Retry { after, .. } if after <= Duration::from_secs(1)));
    hand.settled(&[1]);
    hand.now = hand.now + Duration::from_secs(2);
    // It came back for its end, and meanwhile the clock was set back: it is not over.
    hand.give_due(vec![expired(Duration::from_secs(3_600), retrying(1, "k"))]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[0].outcome, Outcome::Retry { .. }));
    hand.settled(&[1]);
    // The clock was set forward.
    hand.give_due(vec![expired(Duration::ZERO, retrying(1, "k"))]);
    assert!(matches!(hand.settle()[0].outcome, Outcome::Dead { reason: DeadReason::Expired, .. }));
}

#[test]
fn an_end_that_nothing_reaches_costs_no_read_and_no_write() {
    let played = |change: &dyn Fn(&mut RetryPolicy)| {
        let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
        policy(&mut world, change);
        for n in 0..500 {
            world.write(Message::new("all", "x").key(n % 7), n * 900, |_| ());
        }
        world.run(3_000);
        assert!(world.is_done());
        (world.reads.len(), world.settles.len(), world.brokers[0].calls.len())
    };
    let without = played(&|_| ());
    assert_eq!(without, played(&|policy| policy.max_age = Some(Duration::from_secs(3_600))));
}

/// Its message may ask for another one, which its head does not tell.
#[test]
fn the_maximum_age_of_a_topic_ends_a_head_unless_its_message_may_have_changed_it() {
    for has_retry in [true, false] {
        let max_age = Some(Duration::from_secs(1));
        let limited = |settings: &mut Settings| settings.retry.iter_mut().for_each(|(_, one)| one.max_age = max_age);
        let mut hand = Hand::with(1, limited);
        hand.lose();
        hand.gain_as(Start::Careful);
        let mut row = head(1, Some("k"), 0);
        row.lifetime = Lifetime { age: Duration::from_secs(2), expires: Expires::ByPolicy };
        let Content::Head(head) = &mut row.content else { unreachable!() };
        head.has_retry = has_retry;
        hand.give_new(vec![row]);
        let outcome = hand.settle().remove(0).outcome;
        match has_retry {
            true => assert!(matches!(outcome, Outcome::Suspected { .. }), "its message is looked at: {outcome:?}"),
            false => assert!(matches!(outcome, Outcome::Dead { reason: DeadReason::Expired, .. }), "{outcome:?}"),
        }
    }
}

#[test]
fn a_message_that_is_over_dies_though_no_route_leads_it_anywhere() {
    let mut hand = Hand::with(1, |settings| settings.routes.clear());
    hand.give_new(vec![expired(Duration::ZERO, row(1, Some("k")))]);
    let settled = hand.settle();
    assert!(matches!(settled[0].outcome, Outcome::Dead { reason: DeadReason::Expired, .. }), "{settled:?}");
}

#[test]
fn a_message_that_is_over_dies_where_it_is_owed_to_a_destination_that_is_not_configured_and_to_no_other_any_more() {
    let mut hand = Hand::new(1);
    let gone = DestinationName::new("gone");
    let owed = Some(vec![DestinationName::new("a"), gone.clone()]);
    hand.give_new(vec![expired(Duration::from_millis(50), Row { waiting_for: owed, ..row(1, Some("k")) })]);
    let flight = hand.flight(1);
    hand.now = hand.now + Duration::from_millis(60);
    hand.act();
    hand.publish(flight, None);
    let Outcome::Dead { reason: DeadReason::Expired, waiting_for, .. } = hand.settle().remove(0).outcome else {
        panic!("it is over")
    };
    assert_eq!(waiting_for, Some(vec![gone]));
}
