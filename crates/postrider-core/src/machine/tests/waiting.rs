//! Rows that wait in the table.

use std::collections::BTreeSet;

use super::broker::Poison;
use super::world::{Happening, World};
use crate::*;

fn with_a_bad_head(kind: ErrorKind) -> (World, i64, Vec<i64>) {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    let head = world.keyed("k");
    let poison = world.id(head);
    world.brokers[0].poison.insert(poison, Poison::Fails(kind));
    let rest = (0..5).map(|_| world.keyed("k")).collect();
    (world, head, rest)
}

#[test]
fn successors_of_a_retrying_head_leave_memory_and_are_found_again() {
    let (mut world, head, rest) = with_a_bad_head(ErrorKind::Rejected);
    world.run(30);
    assert_eq!(world.machine.window(), (0, 0));
    assert!(rest.iter().all(|row| world.table.rows[row].state == RowState::SetAside));
    world.brokers[0].poison.clear();
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), [vec![head], rest].concat());
}

#[test]
fn a_key_opens_again_when_its_set_aside_rows_are_through() {
    let (mut world, ..) = with_a_bad_head(ErrorKind::Rejected);
    world.run(30);
    world.brokers[0].poison.clear();
    assert!(world.until(20, World::is_done));
    let settled = world.settles.len();
    world.keyed("k");
    assert!(world.until(5, World::is_done));
    assert_eq!(world.settles.len(), settled + 1, "it went straight through");
}

#[test]
fn what_is_given_up_lets_its_key_go_on() {
    let (mut world, head, rest) = with_a_bad_head(ErrorKind::Rejected);
    assert!(world.until(60, World::is_done));
    assert_eq!((world.dead(), world.brokers[0].rows()), (vec![head], rest));
}

#[test]
fn rows_set_aside_before_a_crash_are_found_by_the_walk() {
    let (mut world, head, rest) = with_a_bad_head(ErrorKind::Rejected);
    world.run(30);
    world.table.rows.remove(&head);
    world.happens(0, Happening::Crash);
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), rest);
}

#[test]
fn after_a_takeover_no_set_aside_row_overtakes_an_ordinary_one() {
    for seed in 0..50 {
        let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
        world.rng.0 = seed;
        (world.settings.window_rows, world.settings.page_rows) = (8, 2);
        for n in 0..6 {
            world.keyed(&format!("other{n}"));
        }
        let ordinary = world.keyed("k");
        let aside = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.state = RowState::SetAside);
        world.start();
        assert!(world.until(20, World::is_done));
        let rows: Vec<_> = world.brokers[0].rows().into_iter().filter(|row| *row >= ordinary).collect();
        assert_eq!(rows, [ordinary, aside]);
    }
}

#[test]
fn a_row_that_an_operator_replays_is_found_by_the_due_query() {
    let (mut world, head, _) = with_a_bad_head(ErrorKind::Rejected);
    assert!(world.until(60, World::is_done));
    world.brokers[0].poison.clear();
    world.happens(0, Happening::Replay);
    world.run(1);
    assert!(world.until(5, World::is_done));
    assert_eq!(world.brokers[0].rows().last(), Some(&head));
}

#[test]
fn a_head_that_the_application_deletes_does_not_strand_its_successors() {
    let (mut world, head, rest) = with_a_bad_head(ErrorKind::Rejected);
    world.until(1, |world| world.settles.len() > 2);
    world.happens(0, Happening::Delete(head));
    world.run(2);
    world.happens(0, Happening::Crash);
    assert!(world.until(20, World::is_done));
    // What was on its way when the relay died goes again.
    let mut seen = BTreeSet::new();
    let first: Vec<_> = world.brokers[0].rows().into_iter().filter(|row| seen.insert(*row)).collect();
    assert_eq!(first, rest);
}

#[test]
fn a_retrying_row_behind_another_exceptional_row_of_its_key_waits_for_it() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::PerMessage);
    let first = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.next_attempt_at = Some(2_000_000));
    let second = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.next_attempt_at = Some(1_000_000));
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows(), [first, second]);
}
