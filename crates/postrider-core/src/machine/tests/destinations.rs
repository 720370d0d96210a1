//! Several destinations for one message.

use super::broker::{Mode, Poison};
use super::world::{Happening, World, name};
use crate::*;

#[test]
fn one_destination_that_is_down_holds_back_nothing_of_the_other() {
    let mut world = World::two(OrderInBatch::Kept, Isolation::PerMessage);
    (world.settings.window_rows, world.settings.page_rows) = (16, 16);
    world.start();
    world.brokers[0].mode = Mode::Down(ErrorKind::Unavailable);
    let rows: Vec<_> = (0..200).map(|n| world.keyed(&format!("k{}", n % 5))).collect();
    assert!(world.until(120, |world| world.brokers[1].rows().len() == 200), "{}", world.brokers[1].rows().len());
    assert!(world.brokers[0].rows().is_empty() && world.seen.charged == 0);
    world.brokers[0].mode = Mode::Up;
    assert!(world.until(300, World::is_done));
    for key in 0..5 {
        let of_key = |row: &i64| (row - 1) % 5 == key;
        let got: Vec<_> = world.brokers[0].rows().into_iter().filter(of_key).collect();
        assert_eq!(got, rows.iter().copied().filter(of_key).collect::<Vec<_>>());
    }
    assert_eq!(world.brokers[1].rows().len(), 200, "no repeat at the one that was up");
}

#[test]
fn progress_is_stored_only_after_a_partial_failure() {
    let mut world = World::two(OrderInBatch::Kept, Isolation::PerMessage);
    world.keyed("good");
    let bad = world.keyed("bad");
    let poison = world.id(bad);
    world.brokers[1].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    world.run(100);
    assert_eq!(world.settles.iter().filter(|s| s.row.0 != bad).count(), 1, "the good one is settled once");
    let stored = &world.table.rows[&bad];
    assert_eq!(stored.waiting_for, Some(vec![name(1)]));
    assert_eq!(stored.progress.get(&name(1)), Some(&1));
    world.brokers[1].poison.clear();
    assert!(world.until(20, World::is_done));
    assert_eq!(world.brokers[0].rows().len(), 2, "what accepted it does not get it again");
}

#[test]
fn a_row_given_up_at_one_destination_is_still_owed_to_the_other() {
    let mut world = World::two(OrderInBatch::Kept, Isolation::PerMessage);
    let bad = world.keyed("k");
    let poison = world.id(bad);
    world.brokers[0].poison.insert(poison, Poison::Fails(ErrorKind::Rejected));
    world.brokers[1].mode = Mode::Down(ErrorKind::Unavailable);
    world.run(20_000);
    world.brokers[1].mode = Mode::Up;
    assert!(world.until(60, |world| world.brokers[1].rows() == [bad]));
    assert!(world.until(60, |world| world.dead() == [bad]));
    assert_eq!(world.table.rows[&bad].waiting_for, Some(vec![name(0)]));
}

#[test]
fn a_message_routed_nowhere_waits_uncharged() {
    let mut world = World::two(OrderInBatch::Kept, Isolation::PerMessage);
    world.settings.routes.remove(0);
    world.start();
    let row = world.write(Message::new("only-a", "x"), 0, |_| ());
    world.run(1_000);
    let stored = &world.table.rows[&row];
    assert!(stored.next_attempt_at.is_some() && stored.attempts == 0);
    world.happens(0, Happening::Stop);
    world.run(10);
}
