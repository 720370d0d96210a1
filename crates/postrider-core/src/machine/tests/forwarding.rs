//! A message that is given up is published to the destination of dead letters.

use super::broker::{Broker, Mode, Poison};
use super::world::{Happening, World, name};
use crate::machine::{DestinationIndex, Note};
use crate::*;

/// One destination, and one for dead letters.
fn forwarding() -> World {
    let broker = || Broker::new(OrderInBatch::Kept, Isolation::PerMessage);
    let mut world = World::new(1, vec![broker(), broker()], 2);
    world.settings.routes.truncate(1);
    world.settings.forward = Some(DestinationIndex::new(1));
    world.settings.on_dead = vec![(TopicPattern::every(), OnDead::Forward)];
    world.start();
    world
}

/// A message that the destination refuses for ever.
fn bad(world: &mut World, key: &str) -> i64 {
    let row = world.keyed(key);
    let poison = world.id(row);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    row
}

#[test]
fn it_is_published_there_and_stays_a_dead_letter_while_its_key_goes_on() {
    let mut world = forwarding();
    let head = bad(&mut world, "k");
    let rest: Vec<i64> = (0..5).map(|_| world.keyed("k")).collect();
    assert!(world.until(60, World::is_done));
    assert_eq!(world.brokers[0].rows(), rest);
    assert_eq!((world.brokers[1].rows(), world.dead()), (vec![head], vec![head]));
    let stored = &world.table.rows[&head];
    assert_eq!((stored.attempts, &stored.waiting_for), (4, &None), "a replay goes where it was owed");
    assert_eq!(world.notes.iter().filter(|note| matches!(note, Note::Dead { .. })).count(), 1);
}

#[test]
fn while_the_destination_of_dead_letters_is_down_it_stays_owed_and_nothing_else_waits() {
    let mut world = forwarding();
    world.brokers[1].mode = Mode::Down(ErrorKind::Unavailable);
    let head = bad(&mut world, "k");
    let rest: Vec<i64> = (0..40).map(|_| world.keyed("k")).collect();
    let all_but_the_head = |world: &World| world.brokers[0].rows() == rest;
    assert!(world.until(60, all_but_the_head));
    world.run(60_000);
    assert_eq!(world.left(), [head]);
    assert_eq!(world.table.rows[&head].waiting_for, Some(vec![name(1)]));
    world.brokers[1].mode = Mode::Up;
    assert!(world.until(60, World::is_done));
    assert_eq!((world.brokers[1].rows(), world.dead()), (vec![head], vec![head]));
}

#[test]
fn a_crash_before_it_is_recorded_repeats_it_with_the_same_id() {
    for after in 0..40 {
        let mut world = forwarding();
        let head = bad(&mut world, "k");
        let next = world.keyed("k");
        let sent = |world: &World| !world.brokers[1].rows().is_empty();
        assert!(world.until(60, sent));
        world.happens(after * 100, Happening::Crash);
        world.run(20);
        assert!(world.until(60, World::is_done));
        assert!(world.brokers[1].rows().iter().all(|row| *row == head));
        assert!(world.brokers[0].rows().iter().all(|row| *row == next), "its key goes on");
        assert_eq!((world.brokers[0].rows().is_empty(), world.dead()), (false, vec![head]));
    }
}

#[test]
fn one_that_is_refused_there_too_is_a_dead_letter_all_the_same() {
    let mut world = forwarding();
    let head = bad(&mut world, "k");
    let poison = world.id(head);
    world.brokers[1].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    assert!(world.until(120, World::is_done));
    assert_eq!((world.brokers[1].rows(), world.dead()), (vec![], vec![head]));
    assert_eq!(world.table.rows[&head].attempts, 4, "what happened there is not charged to the message");
}

#[test]
fn a_replay_sends_it_where_it_was_owed() {
    let mut world = forwarding();
    let head = bad(&mut world, "k");
    assert!(world.until(60, World::is_done));
    world.brokers[0].poison.clear();
    world.table.replay(head, world.now);
    assert!(world.until(60, World::is_done));
    assert_eq!((world.brokers[0].rows(), world.brokers[1].rows()), (vec![head], vec![head]));
}

#[test]
fn only_the_destinations_that_refused_are_owed_it_again() {
    let broker = || Broker::new(OrderInBatch::Kept, Isolation::PerMessage);
    let mut world = World::new(1, vec![broker(), broker(), broker()], 1);
    world.settings.routes.truncate(2);
    world.settings.forward = Some(DestinationIndex::new(2));
    world.settings.on_dead = vec![(TopicPattern::every(), OnDead::Forward)];
    world.start();
    let head = bad(&mut world, "k");
    assert!(world.until(60, World::is_done));
    assert_eq!(world.table.rows[&head].waiting_for, Some(vec![name(0)]));
    assert_eq!((world.brokers[1].rows(), world.brokers[2].rows()), (vec![head], vec![head]));
}

/// A settle that was given up for lost can take effect after what was recorded in its stead: it sets the row aside for the
/// destination to which it was owed before.
#[test]
fn what_is_given_up_goes_where_dead_letters_go_whatever_a_late_statement_left_it_owed_to() {
    let mut world = forwarding();
    world.brokers[1].mode = Mode::Down(ErrorKind::Unavailable);
    let head = bad(&mut world, "k");
    assert!(world.until(60, |world| world.table.rows[&head].given_up.is_some()));
    world.happens(0, Happening::Crash);
    if let Some(row) = world.table.rows.get_mut(&head) {
        row.waiting_for = Some(vec![name(0)]);
    }
    world.run(20);
    let refused = world.brokers[0].rows().len();
    world.brokers[1].mode = Mode::Up;
    assert!(world.until(120, World::is_done));
    assert_eq!((world.brokers[0].rows().len(), world.brokers[1].rows()), (refused, vec![head]));
}

#[test]
fn where_the_destination_of_dead_letters_has_another_name_now_it_ends_there() {
    for refused in [false, true] {
        let mut world = forwarding();
        world.brokers[1].mode = Mode::Down(ErrorKind::Unavailable);
        let head = bad(&mut world, "k");
        assert!(world.until(60, |world| world.table.rows[&head].given_up.is_some()));
        world.settings.destinations[1].name = DestinationName::new("renamed");
        world.happens(0, Happening::Crash);
        world.run(20);
        world.brokers[1].mode = Mode::Up;
        if refused {
            let poison = world.id(head);
            world.brokers[1].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
        }
        assert!(world.until(120, World::is_done), "refused: {refused}");
        let published = if refused { vec![] } else { vec![head] };
        assert_eq!((world.brokers[1].rows(), world.dead()), (published, vec![head]));
    }
}

#[test]
fn a_row_that_is_no_message_is_skipped() {
    let mut world = forwarding();
    let head = world.write(Message::new("all", "x").key("k"), 0, |stored| stored.malformed = true);
    let next = world.keyed("k");
    assert!(world.until(20, World::is_done));
    assert_eq!((world.dead(), world.brokers[0].rows(), world.brokers[1].rows()), (vec![head], vec![next], vec![]));
}

#[test]
fn one_that_is_owed_to_a_destination_no_longer_configured_is_a_dead_letter() {
    let mut world = forwarding();
    world.brokers[1].mode = Mode::Down(ErrorKind::Unavailable);
    let head = bad(&mut world, "k");
    let owed = |world: &World| world.table.rows[&head].given_up.is_some();
    assert!(world.until(60, owed));
    world.settings.destinations.truncate(1);
    world.settings.forward = None;
    world.brokers.truncate(1);
    world.happens(0, Happening::Crash);
    world.run(20);
    assert!(world.until(120, World::is_done));
    assert_eq!(world.dead(), [head]);
}
