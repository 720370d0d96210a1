//! Which messages wait for each other: those of a key, none, or all.

use super::broker::{Mode, Poison};
use super::by_hand::{Hand, freed};
use super::world::{Happening, World};
use crate::machine::{DestinationIndex, Event, Ordering, Wanted};
use crate::*;

fn world(ordering: Ordering, order: OrderInBatch) -> World {
    let mut world = World::new(1, vec![super::broker::Broker::new(order, Isolation::PerMessage)], 1);
    world.settings.ordering = ordering;
    world.table.whole = ordering == Ordering::Everything;
    world.start();
    world
}

fn first_deliveries(world: &World) -> Vec<i64> {
    let mut seen = std::collections::BTreeSet::new();
    world.brokers[0].rows().into_iter().filter(|row| seen.insert(*row)).collect()
}

/// Messages of five keys and of none.
fn mixed(world: &mut World, count: usize) -> Vec<i64> {
    let write = |n| if n % 6 == 5 { world.unkeyed() } else { world.keyed(&format!("k{}", n % 6)) };
    (0..count).map(write).collect()
}

#[test]
fn without_ordering_messages_of_a_key_go_beside_each_other() {
    let mut world = world(Ordering::None, OrderInBatch::NotKept);
    for _ in 0..16 {
        world.keyed("k");
    }
    assert!(world.until(10, World::is_done));
    assert!(world.brokers[0].calls.iter().any(|call| call.len() == 16), "in one call where the order is not kept");
}

#[test]
fn without_ordering_a_retrying_message_holds_back_nothing_and_nothing_is_set_aside() {
    let mut world = world(Ordering::None, OrderInBatch::Kept);
    let head = world.keyed("k");
    let poison = world.id(head);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    let rest: Vec<_> = (0..20).map(|_| world.keyed("k")).collect();
    world.run(100);
    let mut delivered = first_deliveries(&world);
    delivered.sort_unstable();
    assert_eq!(delivered, rest);
    world.brokers[0].poison.clear();
    assert!(world.until(20, World::is_done));
    assert_eq!((first_deliveries(&world).len(), world.seen.set_aside), (21, 0));
}

#[test]
fn rows_that_were_set_aside_before_ordering_was_given_up_are_found() {
    let mut world = world(Ordering::None, OrderInBatch::Kept);
    for n in 0..600 {
        let key = format!("k{}", n % 2);
        world.write(Message::new("all", "x").key(key), 0, |stored| stored.state = RowState::SetAside);
    }
    world.start();
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows().len(), 600);
}

#[test]
fn one_lane_keeps_one_order_of_all_messages() {
    for order in [OrderInBatch::Kept, OrderInBatch::NotKept] {
        let mut world = world(Ordering::Everything, order);
        let rows = mixed(&mut world, 200);
        assert!(world.until(60, World::is_done));
        assert_eq!(world.brokers[0].rows(), rows);
        assert_eq!(world.seen.set_aside, 0);
    }
}

#[test]
fn in_one_order_the_retry_of_the_head_holds_everything_and_its_death_lets_it_go_on() {
    let mut world = world(Ordering::Everything, OrderInBatch::Kept);
    (world.settings.window_rows, world.settings.page_rows) = (16, 8);
    world.start();
    let rows = mixed(&mut world, 200);
    let poison = world.id(rows[50]);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    assert!(world.until(10, |world| world.brokers[0].rows().len() == 50));
    world.run(15);
    assert_eq!(world.brokers[0].rows(), rows[..50]);
    let aside = world.table.rows.values().filter(|row| row.state == RowState::SetAside).count();
    assert!(aside <= 16, "{aside} rows were set aside: what is not read yet is left where it is");
    assert!(world.until(60, World::is_done));
    assert_eq!(world.dead(), [rows[50]]);
    assert_eq!(world.brokers[0].rows(), [&rows[..50], &rows[51..]].concat());
}

#[test]
fn one_order_is_kept_over_crashes_outages_and_lost_lanes() {
    for seed in 0..40 {
        let mut world = world(Ordering::Everything, OrderInBatch::Kept);
        world.rng.0 = seed;
        world.brokers[0].breaks = 100;
        (world.settings.window_rows, world.settings.page_rows) = (32, 8);
        world.start();
        let rows = mixed(&mut world, 150);
        for n in [30, 90] {
            let poison = world.id(rows[n]);
            world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
        }
        for round in 0..3 {
            world.happens(40_000 + round * 700_000, Happening::Crash);
            world.happens(200_000 + round * 700_000, Happening::Lose(vec![Lane(0)]));
            world.happens(230_000 + round * 700_000, Happening::Gain(vec![Lane(0)]));
            world.happens(400_000 + round * 700_000, Happening::Broker(0, Mode::Down(ErrorKind::Unavailable)));
            world.happens(500_000 + round * 700_000, Happening::Broker(0, Mode::Up));
        }
        world.run(2_500);
        world.brokers[0].breaks = 0;
        assert!(world.until(120, World::is_done), "seed {seed}: left {:?}", world.left());
        let dead = world.dead();
        assert!(dead.iter().all(|row| [rows[30], rows[90]].contains(row)), "seed {seed}: {dead:?}");
        let expected: Vec<_> = rows.iter().copied().filter(|row| !dead.contains(row)).collect();
        assert_eq!(first_deliveries(&world), expected, "seed {seed}");
    }
}

#[test]
fn a_set_aside_row_without_a_key_is_found_after_a_takeover_in_one_order() {
    let mut world = world(Ordering::Everything, OrderInBatch::Kept);
    let set_aside = |stored: &mut super::table::Stored| stored.state = RowState::SetAside;
    let first = world.write(Message::new("all", "x"), 0, set_aside);
    let second = world.write(Message::new("all", "x").key("k"), 0, set_aside);
    let third = world.keyed("other");
    world.start();
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), [first, second, third]);
    assert!(world.reads.contains(&Wanted::Key(Lane(0), Key::everything())));
}

/// The walk that follows a pause finds nothing then, and nothing else would look.
#[test]
fn one_order_goes_on_after_its_last_head_was_given_up_during_a_pause() {
    let mut hand = Hand::with(1, |settings| settings.ordering = Ordering::Everything);
    hand.give_due(vec![Row { attempts: 99, ..freed(1, "k") }]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    while hand.flights.is_empty() {
        hand.wait();
    }
    let probe = hand.flight(1);
    hand.publish(probe, Some(ErrorKind::Rejected));
    assert!(matches!(hand.settle()[0].outcome, Outcome::Dead { .. }));
    hand.settled(&[1]);
    assert!(hand.machine.destinations()[0].paused.is_some());
    while hand.checks == 0 {
        hand.wait();
    }
    hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
    assert!(hand.machine.destinations()[0].paused.is_none());
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), Vec::new());
    assert!(hand.read(|wanted| *wanted == Wanted::New).is_some(), "what is new is read again");
}
