//! Order per key, the window, settling, and stopping.

use super::broker::Poison;
use super::world::{Happening, World};
use crate::machine::Note;
use crate::*;

const ISOLATIONS: [Isolation; 2] = [Isolation::SharedConnection, Isolation::PerMessage];

#[test]
fn a_key_is_first_in_first_out_and_other_keys_go_beside_it() {
    for order in [OrderInBatch::Kept, OrderInBatch::NotKept] {
        let mut world = World::small(order, Isolation::SharedConnection);
        let hot: Vec<_> = (0..40).map(|_| world.keyed("hot")).collect();
        let cold = world.keyed("cold");
        assert!(world.until(10, World::is_done));
        let rows = world.brokers[0].rows();
        assert_eq!(rows.iter().filter(|row| **row != cold).copied().collect::<Vec<_>>(), hot);
        assert_eq!(rows.len(), 41, "no repeat");
    }
}

#[test]
fn a_broker_that_does_not_keep_order_gets_one_message_of_a_key_at_a_time() {
    let mut world = World::small(OrderInBatch::NotKept, Isolation::SharedConnection);
    for _ in 0..10 {
        world.keyed("k");
    }
    assert!(world.until(10, World::is_done));
    assert!(world.brokers[0].calls.iter().all(|call| call.len() == 1));
}

#[test]
fn after_the_first_failure_of_a_batch_nothing_later_of_its_key_overtakes() {
    for isolation in ISOLATIONS {
        let mut world = World::small(OrderInBatch::Kept, isolation);
        let head = world.keyed("k");
        let poison = world.id(head);
        world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
        let rest: Vec<_> = (0..20).map(|_| world.keyed("k")).collect();
        world.run(50);
        assert!(world.brokers[0].rows().is_empty(), "they wait for their head");
        world.brokers[0].poison.clear();
        assert!(world.until(20, World::is_done));
        let all: Vec<_> = std::iter::once(head).chain(rest).collect();
        assert_eq!(world.brokers[0].rows(), all);
    }
}

#[test]
fn the_window_is_never_exceeded_and_everything_gets_through_it() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    (world.settings.window_rows, world.settings.page_rows, world.settings.window_bytes) = (8, 3, 100);
    world.start();
    for n in 0..200 {
        world.keyed(&format!("k{}", n % 5));
    }
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows().len(), 200);
}

#[test]
fn a_row_heavier_than_the_window_travels() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    let weight = world.settings.window_bytes * 2;
    for _ in 0..3 {
        world.write(Message::new("all", "x"), 0, |stored| stored.weight = weight);
        world.unkeyed();
    }
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows().len(), 6);
}

#[test]
fn delayed_messages_hold_back_nothing_and_go_when_they_are_due() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    let late = world.write(Message::new("all", "x").key("k").deliver_at(Timestamp(2_000_000)), 0, |_| ());
    let soon = world.keyed("k");
    world.run(1_900);
    assert_eq!(world.brokers[0].rows(), [soon]);
    world.run(600);
    assert_eq!(world.brokers[0].rows(), [soon, late]);
}

#[test]
fn a_malformed_row_becomes_a_dead_letter_and_holds_back_nothing() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    let bad = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.malformed = true);
    let good = world.keyed("k");
    assert!(world.until(5, World::is_done));
    assert_eq!((world.dead(), world.brokers[0].rows()), (vec![bad], vec![good]));
}

#[test]
fn the_successors_of_a_dead_message_wait_for_its_burial() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    let bad = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.malformed = true);
    world.keyed("k");
    world.until(1, |world| !world.machine.window().eq(&(0, 0)));
    world.happens(0, Happening::Store(Some(ErrorKind::Unavailable)));
    world.run(3_000);
    assert!(world.brokers[0].rows().is_empty(), "a crash would bring the dead one back");
    world.happens(0, Happening::Store(None));
    assert!(world.until(5, World::is_done));
    assert_eq!(world.dead(), [bad]);
}

#[test]
fn publishing_does_not_wait_for_the_settle_before_and_nothing_new_is_published_while_settles_fail() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.store_latency = (300, 300);
    world.unkeyed();
    world.until(1, |world| world.brokers[0].rows().len() == 1);
    world.happens(0, Happening::Store(Some(ErrorKind::Unavailable)));
    world.run(1_000);
    world.unkeyed();
    world.run(3_000);
    assert_eq!(world.brokers[0].rows().len(), 1);
    world.happens(0, Happening::Store(None));
    assert!(world.until(5, World::is_done));
    assert_eq!(world.brokers[0].rows().len(), 2, "kept, not sent again");
    assert!(world.notes.iter().any(|note| matches!(note, Note::StoreBack)));
}

#[test]
fn a_graceful_stop_settles_what_was_sent_and_causes_no_repeat() {
    for at in 1..40 {
        let mut world = World::two(OrderInBatch::Kept, Isolation::PerMessage);
        world.brokers[1].latency = 30_000;
        for n in 0..60 {
            world.keyed(&format!("k{}", n % 7));
            world.unkeyed();
        }
        world.happens(at * 1_000, Happening::Stop);
        assert!(world.until(60, World::is_done));
        for broker in &world.brokers {
            assert_eq!(broker.rows().len(), 120, "stopped after {at} ms");
        }
    }
}

#[test]
fn past_the_trusted_time_nothing_is_published_or_settled() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    world.happens(0, Happening::Trust(1));
    world.run(1);
    world.unkeyed();
    world.run(5_000);
    assert!(world.brokers[0].rows().is_empty() && world.settles.is_empty());
    world.happens(0, Happening::Trust(u64::MAX));
    assert!(world.until(5, World::is_done));
}
