//! A message that is given up holds its key.

use super::broker::Poison;
use super::by_hand::{Hand, aside, freed, row};
use super::world::{Happening, World, name};
use crate::machine::{Event, Wanted};
use crate::*;

fn holding(mut world: World) -> World {
    world.settings.on_dead = vec![(TopicPattern::every(), OnDead::Hold)];
    world.start();
    world
}

/// A key whose first message is refused until it is given up, and some behind it.
fn with_a_bad_head(mut world: World) -> (World, i64, Vec<i64>) {
    let head = world.keyed("k");
    let poison = world.id(head);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    let rest = (0..40).map(|_| world.keyed("k")).collect();
    let held = |world: &World| world.table.rows.get(&head).is_some_and(|row| row.state == RowState::Holding);
    assert!(world.until(60, held), "the head is given up");
    world.run(2_000);
    (world, head, rest)
}

fn held_key() -> (World, i64, Vec<i64>) {
    with_a_bad_head(holding(World::small(OrderInBatch::Kept, Isolation::PerMessage)))
}

#[test]
fn a_held_key_waits_in_the_table_and_the_others_go_on() {
    let (mut world, head, rest) = held_key();
    assert!(rest.iter().all(|row| world.table.rows[row].state == RowState::SetAside));
    let other = world.keyed("other");
    let late = world.keyed("k");
    world.run(2_000);
    assert_eq!(world.brokers[0].rows(), [other]);
    assert_eq!(world.table.rows[&late].state, RowState::SetAside);
    assert_eq!(world.table.rows[&head].state, RowState::Holding);
    assert_eq!(world.machine.window(), (0, 0));
    assert!(world.machine.is_idle(), "nothing is left to do but for an operator");
}

#[test]
fn a_replay_sends_the_head_first_and_then_its_successors() {
    let (mut world, head, rest) = held_key();
    world.brokers[0].poison.clear();
    world.table.replay(head, world.now);
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), [vec![head], rest].concat());
}

#[test]
fn a_discard_opens_the_key() {
    let (mut world, head, rest) = held_key();
    world.table.discard(head, world.now);
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), rest);
}

#[test]
fn a_key_stays_held_after_a_crash_and_a_takeover() {
    let (mut world, head, rest) = held_key();
    for happening in [Happening::Crash, Happening::Lose(vec![Lane(0), Lane(1)])] {
        world.happens(0, happening);
        world.happens(100_000, Happening::Gain(vec![Lane(0), Lane(1)]));
        let late = world.keyed("k");
        world.run(3_000);
        assert_eq!(world.brokers[0].rows(), [] as [i64; 0]);
        assert_eq!(world.table.rows[&late].state, RowState::SetAside);
        world.table.rows.remove(&late);
    }
    world.brokers[0].poison.clear();
    world.table.replay(head, world.now);
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), [vec![head], rest].concat());
}

#[test]
fn looking_at_a_held_key_reads_few_rows_however_many_wait() {
    let (mut world, ..) = held_key();
    for _ in 0..1_000 {
        world.keyed("k");
    }
    world.run(2_000);
    world.reads.clear();
    world.rooms.clear();
    world.happens(0, Happening::Crash);
    world.run(5_000);
    let looks = world.reads.iter().zip(&world.rooms).filter(|(wanted, _)| matches!(wanted, Wanted::Key(..)));
    let rows: usize = looks.map(|(_, rows)| rows).sum();
    assert!(rows > 0 && rows <= 64, "{rows} rows were asked for to see that a key is held");
}

#[test]
fn a_key_is_held_at_the_destination_that_refused_and_nowhere_else() {
    let world = holding(World::two(OrderInBatch::Kept, Isolation::PerMessage));
    let (mut world, head, rest) = with_a_bad_head(world);
    assert_eq!(world.table.rows[&head].waiting_for, Some(vec![name(0)]));
    assert_eq!(world.brokers[1].rows(), [vec![head], rest.clone()].concat());
    let refused = world.id(head);
    world.brokers[0].poison.remove(&refused);
    world.table.replay(head, world.now);
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), [vec![head], rest.clone()].concat());
    assert_eq!(world.brokers[1].rows(), [vec![head], rest].concat(), "nothing is sent twice");
}

#[test]
fn a_row_that_is_no_message_holds_its_key_everywhere() {
    let mut world = holding(World::two(OrderInBatch::Kept, Isolation::PerMessage));
    let head = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.malformed = true);
    let rest: Vec<i64> = (0..5).map(|_| world.keyed("k")).collect();
    world.run(2_000);
    world.happens(0, Happening::Crash);
    world.run(2_000);
    assert_eq!(world.table.rows[&head].state, RowState::Holding);
    assert!(world.brokers.iter().all(|broker| broker.rows().is_empty()));
    world.table.discard(head, world.now);
    assert!(world.until(20, World::is_done));
    assert!(world.brokers.iter().all(|broker| broker.rows() == rest));
}

#[test]
fn rows_before_one_that_is_no_message_are_not_held_by_it() {
    let mut world = holding(World::small(OrderInBatch::NotKept, Isolation::PerMessage));
    let before: Vec<i64> = (0..5).map(|_| world.keyed("k")).collect();
    let head = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.malformed = true);
    let behind = world.keyed("k");
    world.run(3_000);
    assert_eq!(world.brokers[0].rows(), before);
    assert_eq!(world.table.rows[&behind].state, RowState::SetAside);
    world.table.discard(head, world.now);
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), [before, vec![behind]].concat());
}

#[test]
fn without_a_key_there_is_nothing_to_hold() {
    let mut world = holding(World::small(OrderInBatch::Kept, Isolation::PerMessage));
    let bad = world.unkeyed();
    let poison = world.id(bad);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    assert!(world.until(60, World::is_done));
    assert_eq!(world.dead(), [bad]);
}

#[test]
fn a_topic_without_an_entry_of_its_own_is_skipped() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.settings.on_dead = vec![(TopicPattern::parse("other.#").unwrap(), OnDead::Hold)];
    world.start();
    let head = world.keyed("k");
    let poison = world.id(head);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    let next = world.keyed("k");
    assert!(world.until(60, World::is_done));
    assert_eq!((world.dead(), world.brokers[0].rows()), (vec![head], vec![next]));
}

/// The discard finds no row to free: those in memory come back to the table after it.
#[test]
fn a_head_that_is_discarded_before_its_successors_are_set_aside_strands_none() {
    let mut hand = Hand::new(1);
    hand.machine.settings.on_dead = vec![(TopicPattern::every(), OnDead::Hold)];
    hand.machine.settings.retry =
        vec![(TopicPattern::every(), RetryPolicy { attempts: Attempts::AtMost(1), ..RetryPolicy::default() })];
    hand.give_new(vec![row(1, Some("k")), row(2, Some("k"))]);
    let flight = hand.flight(1);
    hand.machine.on(
        hand.now,
        Event::Published(
            flight.0,
            vec![Published::Failed(Error::new(ErrorKind::Rejected, "scripted")), Published::NotSent],
        ),
    );
    hand.act();
    let outcomes: Vec<_> = hand.settle().into_iter().map(|settlement| (settlement.row.0, settlement.outcome)).collect();
    assert!(
        matches!(
            outcomes.as_slice(),
            [(2, Outcome::SetAside { .. }), (1, Outcome::Holding { .. })]
                | [(1, Outcome::Holding { .. }), (2, Outcome::SetAside { .. })]
        ),
        "{outcomes:?}"
    );
    hand.settled(&[1, 2]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![aside(2, "k")]);
    assert_eq!(hand.flight(2).1, 1);
}

/// The rows of the next call.
fn sent(hand: &mut Hand) -> Vec<i64> {
    hand.act();
    hand.flights.remove(0).2
}

/// A discard made the third row due before this relay had read the first, which an earlier one left behind.
#[test]
fn a_row_that_a_discard_freed_waits_until_its_lane_is_read() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain();
    hand.act();
    let due = hand.read.take().unwrap();
    assert!(matches!(due.wanted, Wanted::Due(_)), "{:?}", due.wanted);
    hand.answer(due, vec![freed(3, "k")], false);
    assert!(hand.flights.is_empty(), "it was sent before its lane was read");
    hand.give_new(vec![row(1, Some("k"))]);
    let first = hand.flight(1);
    hand.give_due(vec![freed(3, "k")]);
    assert!(hand.flights.is_empty(), "it passed the first row of its key");
    hand.publish(first, None);
    hand.flight(3);
}

#[test]
fn a_row_that_a_discard_freed_does_not_pass_one_on_its_way_to_the_table() {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain();
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), vec![aside(3, "k")]);
    hand.give_new(vec![row(1, Some("k"))]);
    hand.settle();
    hand.give_due(vec![freed(3, "k")]);
    assert!(hand.flights.is_empty(), "it passed the first row of its key");
    hand.settled(&[1]);
    hand.give_to(|wanted| matches!(wanted, Wanted::Key(..)), vec![aside(1, "k"), freed(3, "k")]);
    assert_eq!(sent(&mut hand), [1, 3]);
}
