//! The careful start after a relay that died.

use std::time::Duration;

use super::broker::{Mode, Poison};
use super::by_hand::{Hand, aside, head, row, rows_of};
use super::world::{Happening, World, name};
use crate::machine::{Answer, Event, Ordering, Wanted};
use crate::*;

pub(super) fn some_rows(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Rows(_))
}

pub(super) fn suspected(batch: &[Settlement]) -> Vec<(i64, u16)> {
    let of = |settlement: &Settlement| match settlement.outcome {
        Outcome::Suspected { suspicion } => (settlement.row.0, suspicion),
        _ => panic!("{settlement:?}"),
    };
    batch.iter().map(of).collect()
}

/// Takes the settle under way, and answers it; what it suspects.
pub(super) fn record(hand: &mut Hand) -> Vec<(i64, u16)> {
    let marked = suspected(&hand.settle());
    hand.settled(&marked.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    marked
}

pub(super) fn taken_over() -> Hand {
    let mut hand = Hand::new(1);
    hand.lose();
    hand.gain_as(Start::Careful);
    hand
}

/// Gives heads, and lets the relay take what it takes of them; which those are, with the suspicion recorded.
pub(super) fn take(hand: &mut Hand, heads: Vec<Row>) -> Vec<(i64, u16)> {
    hand.give_new(heads);
    assert!(hand.flights.is_empty(), "sent before suspicion was recorded");
    record(hand)
}

/// How the next read of a kind treats the lane; it finds nothing.
fn start_of(hand: &mut Hand, kind: impl Fn(&Wanted) -> bool) -> Start {
    let read = hand.read(kind).expect("no such read");
    let start = read.lanes[0].start;
    hand.answer(read, Vec::new(), false);
    start
}

fn new_rows(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::New)
}

fn a_sweep(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Sweep(..))
}

/// One of two suspects is being taken, by itself, and everything was read once.
fn one_of_two_suspects() -> Hand {
    let mut hand = Hand::with(1, |settings| settings.sweep_round = Duration::from_millis(50));
    hand.lose();
    hand.gain_as(Start::Careful);
    hand.give_new(vec![head(1, None, 1), head(2, None, 2)]);
    assert_eq!(suspected(&hand.settles[0]), [(1, 2)]);
    for _ in 0..3 {
        start_of(&mut hand, |wanted| matches!(wanted, Wanted::Due(_)));
    }
    assert_eq!(start_of(&mut hand, new_rows), Start::Clean, "everything was read");
    hand
}

#[test]
fn a_sweep_brings_heads_while_a_row_of_the_lane_is_not_tried_yet() {
    let mut hand = one_of_two_suspects();
    assert_eq!(start_of(&mut hand, a_sweep), Start::Careful, "the message that kills would come whole");
    hand.settle();
    hand.settled(&[1]);
    answer(&mut hand, &[(1, None)]);
    assert_eq!(suspected(&hand.settle()), [(2, 3)]);
    hand.settled(&[2]);
    answer(&mut hand, &[(2, None)]);
    assert_eq!(start_of(&mut hand, a_sweep), Start::Clean);
}

#[test]
fn a_look_brings_heads_while_a_row_of_its_key_is_not_tried_yet_though_nothing_is_ordered() {
    let mut hand = Hand::with(1, |settings| {
        settings.ordering = Ordering::None;
        settings.sweep_round = Duration::from_millis(50);
    });
    hand.lose();
    hand.gain_as(Start::Careful);
    hand.give_new(Vec::new());
    let due = |id, suspicion| Row { retrying: Retrying::Yes, ..head(id, Some("k"), suspicion) };
    hand.give_due(vec![due(1, 1), due(2, 1)]);
    assert_eq!(suspected(&hand.settles[0]), [(1, 2)], "the other one waits");
    let a_walk = |wanted: &Wanted| matches!(wanted, Wanted::Walk(..));
    let a_look = |wanted: &Wanted| matches!(wanted, Wanted::Key(..));
    hand.give_to(a_walk, Vec::new());
    for _ in 0..2 {
        hand.give_due(Vec::new());
    }
    hand.give_to(a_walk, vec![aside(3, "k")]);
    let look = hand.read(a_look).unwrap();
    assert_eq!(look.lanes[0].start, Start::Careful, "the message that kills would come whole");
    hand.answer(look, Vec::new(), false);
    hand.give_to(a_walk, vec![aside(3, "other")]);
    let look = hand.read(a_look).unwrap();
    assert_eq!(look.lanes[0].start, Start::Clean, "of another key");
}

#[test]
fn a_reader_that_may_read_everything_again_brings_heads_while_a_row_is_not_tried_yet() {
    let mut hand = one_of_two_suspects();
    let read = hand.read(new_rows).unwrap();
    let error = Error::new(ErrorKind::Unavailable, "the connection is lost");
    hand.machine.on(hand.now, Event::Answered(read, Answer::Failed(error)));
    assert_eq!(start_of(&mut hand, new_rows), Start::Careful);
    assert_eq!(start_of(&mut hand, new_rows), Start::Clean, "it was read to its end");
}

#[test]
fn a_due_row_that_waits_until_its_lane_is_read_comes_as_a_head_again() {
    let due = |wanted: &Wanted| matches!(wanted, Wanted::Due(_));
    let mut hand = taken_over();
    hand.act();
    let first = hand.read.take().expect("it reads");
    assert!(due(&first.wanted), "{first:?}");
    hand.answer(first, vec![Row { retrying: Retrying::Yes, ..head(5, Some("k"), 0) }], false);
    assert!(hand.settles.is_empty(), "it waits for what may stand before it");
    assert_eq!(start_of(&mut hand, due), Start::Careful, "the message that kills would come whole");
    assert_eq!(start_of(&mut hand, due), Start::Clean, "nothing is due any more");
}

/// One of three heads is sent, its destination pauses, and all of them go back to the table: with these suspicions.
fn back_to_the_table() -> (Hand, Vec<(i64, u16)>) {
    let only = |row: Row| Row { waiting_for: Some(vec![name(0)]), ..row };
    let mut hand = Hand::with(2, |settings| settings.window_rows = 3);
    hand.lose();
    hand.gain_as(Start::Careful);
    let heads = vec![only(head(1, None, 0)), only(head(2, None, 1)), only(head(3, Some("k"), 2))];
    assert_eq!(take(&mut hand, heads), [(1, 1)]);
    hand.give_to(some_rows, vec![only(row(1, None))]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    let mut left = Vec::new();
    for _ in 0..20 {
        while !hand.settles.is_empty() {
            let batch = hand.settle();
            let back = batch.iter().filter(|one| !matches!(one.outcome, Outcome::Suspected { .. }));
            left.extend(back.map(|one| (one.row.0, one.suspicion)));
            hand.settled(&batch.iter().map(|one| one.row.0).collect::<Vec<_>>());
        }
        hand.wait();
    }
    left.sort_unstable();
    (hand, left)
}

/// Cleared with what became of it, it would be the first to go when the destination is back, beside many others, and the
/// relay would die of it for ever.
#[test]
fn a_row_that_leaves_memory_unsent_keeps_its_suspicion() {
    assert_eq!(back_to_the_table().1, [(1, 0), (2, 1), (3, 2)], "only the first was answered");
}

#[test]
fn a_row_that_leaves_memory_unsent_comes_as_a_head_again() {
    let due = |wanted: &Wanted| matches!(wanted, Wanted::Due(_));
    let (mut hand, _) = back_to_the_table();
    assert_eq!(start_of(&mut hand, due), Start::Careful);
    hand.give_to(due, vec![Row { retrying: Retrying::Yes, ..head(2, None, 1) }]);
    assert_eq!(start_of(&mut hand, due), Start::Careful, "one is still to come");
    hand.give_to(due, vec![Row { retrying: Retrying::Yes, ..head(3, Some("k"), 2) }]);
    assert_eq!(start_of(&mut hand, due), Start::Clean, "whoever was sent comes whole");
}

#[test]
fn suspicion_is_recorded_before_the_message_is_fetched_and_the_settle_clears_it() {
    let mut hand = taken_over();
    hand.give_new(vec![head(1, Some("k"), 0), head(2, None, 0)]);
    assert_eq!(suspected(&hand.settles[0]), [(1, 1), (2, 1)]);
    // Nothing is fetched while that is under way, whatever else is read.
    for _ in 0..20 {
        hand.act();
        match hand.read.take() {
            Some(read) => {
                assert!(!some_rows(&read.wanted), "fetched before suspicion was recorded");
                hand.answer(read, Vec::new(), false);
            }
            None => hand.wait(),
        }
    }
    hand.settle();
    hand.settled(&[1, 2]);
    assert!(hand.flights.is_empty(), "sent without its message");
    hand.give_to(some_rows, vec![row(1, Some("k")), row(2, None)]);
    let sent: usize = hand.flights.iter().map(|(_, _, rows)| rows.len()).sum();
    assert_eq!(sent, 2);
    hand.accept_all();
    assert!(hand.settle().iter().all(|settlement| settlement.outcome == Outcome::Delivered));
}

/// Fetches these rows, and has them sent and settled, each in the call in which it goes.
fn answer(hand: &mut Hand, rows: &[(i64, Option<&str>)]) {
    hand.give_to(some_rows, rows.iter().map(|(id, key)| row(*id, *key)).collect());
    hand.accept_all();
    while hand.settles[0].iter().all(|settlement| settlement.outcome == Outcome::Delivered) {
        let settled = rows_of(&hand.settle());
        hand.settled(&settled);
        if hand.settles.is_empty() {
            return;
        }
    }
}

/// A row of a walk may be found behind any number of others.
#[test]
fn everything_set_aside_is_handled_carefully_however_much_it_is() {
    let mut hand = Hand::with(1, |settings| settings.window_rows = 2);
    hand.lose();
    hand.gain_as(Start::Careful);
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), (1..=4).map(|n| aside(n, &format!("k{n}"))).collect());
    hand.give_new(Vec::new());
    for id in 1..=3 {
        let read = hand.read(|wanted| matches!(wanted, Wanted::Key(..))).unwrap();
        assert_eq!(read.lanes[0].start, Start::Careful, "the message that kills would come whole");
        let key = format!("k{id}");
        hand.answer(read, vec![Row { state: RowState::SetAside, ..head(id, Some(&key), 0) }], false);
        assert_eq!(suspected(&hand.settle()), [(id, 1)]);
        hand.settled(&[id]);
        answer(&mut hand, &[(id, Some(&key))]);
    }
}

#[test]
fn suspects_are_taken_one_by_one_the_least_suspected_first_and_after_everything_else() {
    let mut hand = taken_over();
    let heads = vec![head(1, Some("a"), 2), head(2, Some("b"), 1), head(3, Some("c"), 0), head(4, None, 0)];
    assert_eq!(take(&mut hand, heads), [(3, 1), (4, 1)], "nobody suspects these");
    answer(&mut hand, &[(3, Some("c")), (4, None)]);
    for (id, key, suspicion) in [(2, "b", 2), (1, "a", 3)] {
        assert_eq!(suspected(&hand.settle()), [(id, suspicion)], "alone");
        hand.settled(&[id]);
        answer(&mut hand, &[(id, Some(key))]);
    }
    assert_eq!(hand.machine.window(), (0, 0));
}

#[test]
fn what_stands_behind_a_suspect_waits_with_it_and_everything_else_goes_first() {
    let mut hand = taken_over();
    let heads = vec![
        head(1, Some("a"), 1),
        head(2, Some("a"), 0),
        head(3, Some("b"), 0),
        head(4, Some("a"), 2),
        head(5, Some("c"), 2),
        head(6, Some("c"), 1),
    ];
    assert_eq!(take(&mut hand, heads), [(3, 1)], "2 would overtake 1");
    answer(&mut hand, &[(3, Some("b"))]);
    for (id, key, suspicion) in [(1, "a", 2), (2, "a", 1), (4, "a", 3), (5, "c", 3), (6, "c", 2)] {
        assert_eq!(suspected(&hand.settle()), [(id, suspicion)]);
        hand.settled(&[id]);
        answer(&mut hand, &[(id, Some(key))]);
    }
    assert_eq!(hand.machine.window(), (0, 0));
}

/// Forty keys, each with one suspect and one message behind it: which rows are taken beside each other, time after time.
#[test]
fn suspects_follow_each_other_and_then_goes_together_what_stood_behind_them() {
    let mut hand = taken_over();
    let key = |id: i64| format!("k{}", (id - 1) % 40);
    let heads = (1..=80).map(|id| head(id, Some(&key(id)), u16::from(id <= 40))).collect();
    let mut taken = take(&mut hand, heads);
    let mut sizes = Vec::new();
    loop {
        sizes.push(taken.len());
        let keys: Vec<_> = taken.iter().map(|(id, _)| (*id, key(*id))).collect();
        answer(&mut hand, &keys.iter().map(|(id, key)| (*id, Some(key.as_str()))).collect::<Vec<_>>());
        if hand.settles.is_empty() {
            break;
        }
        taken = record(&mut hand);
    }
    let expected: Vec<usize> = [vec![1; 32], vec![32], vec![1; 8], vec![8]].concat();
    assert_eq!(sizes, expected);
}

#[test]
fn a_careful_start_begins_with_what_nobody_suspects_whatever_the_one_before_ended_with() {
    let mut hand = taken_over();
    assert_eq!(take(&mut hand, vec![head(1, None, 1)]), [(1, 2)]);
    answer(&mut hand, &[(1, None)]);
    hand.lose();
    hand.gain_as(Start::Careful);
    assert_eq!(take(&mut hand, vec![head(2, None, 1), head(3, None, 0)]), [(3, 1)]);
}

#[test]
fn a_relay_that_dies_over_others_raises_no_suspicion_of_a_message_that_was_hit_twice() {
    let hit_twice = || head(1, Some("a"), 2);
    for (others, marked) in [(vec![0, 0, 0], vec![(2, 1), (3, 1), (4, 1)]), (vec![1, 1, 2], vec![(2, 2)])] {
        let mut hand = taken_over();
        let others = others.into_iter().zip(2..).map(|(suspicion, id)| head(id, None, suspicion));
        assert_eq!(take(&mut hand, std::iter::once(hit_twice()).chain(others).collect()), marked);
        // Here the relay dies: of the first message nothing was recorded, and nothing of it was sent.
        assert!(hand.settles.is_empty() && hand.flights.is_empty());
    }
}

/// Crashes right after messages were accepted, before that can be recorded.
fn kill_right_after_deliveries(world: &mut World, kills: usize, deliveries: usize) {
    for _ in 0..kills {
        for _ in 0..deliveries {
            let before = world.brokers[0].log.len();
            assert!(world.until(10, |world| world.brokers[0].log.len() > before), "nothing is delivered");
        }
        world.happens(0, Happening::Crash);
        world.run(1);
        world.keyed("k0");
    }
}

#[test]
fn a_relay_killed_from_outside_again_and_again_makes_no_dead_letters_of_innocents() {
    for (kills, deliveries, keys) in [(30, 1, 40), (70, 1, 20), (100, 2, 20), (100, 2, 2), (100, 3, 1)] {
        let mut world = World::small(OrderInBatch::Kept, Isolation::SharedConnection);
        for n in 0..400 {
            world.keyed(&format!("k{}", n % keys));
        }
        kill_right_after_deliveries(&mut world, kills, deliveries);
        assert!(world.until(60, World::is_done));
        assert_eq!(world.dead(), [0; 0], "{kills} kills, each after {deliveries} deliveries, {keys} keys");
        assert!(world.seen.suspected > 0);
    }
}

#[test]
fn a_message_with_which_three_relays_died_is_dead_and_its_key_goes_on() {
    let mut hand = taken_over();
    hand.give_new(vec![head(1, Some("k"), 3), head(2, Some("k"), 0)]);
    let batch = hand.settle();
    assert!(
        matches!(
            &batch[0].outcome,
            Outcome::Dead { reason: DeadReason::RelayDied, attempts: 0, waiting_for: None, .. }
        ),
        "{batch:?}"
    );
    assert_eq!((batch[0].row, suspected(&batch[1..])), (RowId(1), vec![(2, 1)]));
    hand.settled(&[1, 2]);
    hand.give_to(some_rows, vec![row(2, Some("k"))]);
    hand.flight(2);
}

#[test]
fn a_message_is_not_given_up_while_others_are_suspected_nearly_as_much() {
    let suspects = |suspicions: &[u16]| suspicions.iter().zip(1..).map(|(one, id)| head(id, None, *one)).collect();
    let given_up = |one: &Settlement| matches!(one.outcome, Outcome::Dead { .. });
    for (suspicions, dead, marked) in [
        (vec![3, 1, 1], vec![], vec![(2, 2)]),
        (vec![3, 3], vec![], vec![(1, 4)]),
        (vec![4, 3], vec![], vec![(2, 4)]),
        (vec![4, 4], vec![1, 2], vec![]),
        (vec![5, 5, 5, 5, 5], vec![], vec![(1, 6)]),
        (vec![6, 6, 6, 6, 6], vec![1, 2, 3, 4, 5], vec![]),
    ] {
        let mut hand = taken_over();
        hand.give_new(suspects(&suspicions));
        let (buried, taken): (Vec<_>, Vec<_>) = hand.settle().into_iter().partition(given_up);
        let buried: Vec<i64> = buried.into_iter().map(|one| one.row.0).collect();
        assert_eq!((buried, suspected(&taken)), (dead, marked), "{suspicions:?}");
    }
}

#[test]
fn a_message_is_given_up_only_when_all_that_may_be_as_suspect_is_read() {
    let mut hand = taken_over();
    let read = hand.read(new_rows).expect("a page");
    hand.answer(read, vec![head(1, Some("a"), 3)], true);
    assert!(hand.settles.is_empty(), "the next page may bring another suspect");
    let read = hand.read(new_rows).expect("a page");
    hand.answer(read, vec![head(2, Some("b"), 2)], false);
    assert_eq!(suspected(&hand.settle()), [(2, 3)]);
}

#[test]
fn a_message_is_given_up_though_more_is_to_be_read_where_there_is_too_little_room_for_it() {
    let mut hand = Hand::with_window(1, 16);
    hand.lose();
    hand.gain_as(Start::Careful);
    let read = hand.read(new_rows).expect("a page");
    let heads = (1..=15).map(|id| head(id, Some("a"), if id == 1 { 3 } else { 0 }));
    hand.answer(read, heads.collect(), true);
    assert!(hand.read(new_rows).is_none());
    assert!(matches!(hand.settle()[0].outcome, Outcome::Dead { .. }));
}

#[test]
fn a_failure_that_leaves_the_message_waiting_clears_the_suspicion() {
    let mut hand = taken_over();
    assert_eq!(take(&mut hand, vec![head(1, Some("k"), 2)]), [(1, 3)]);
    hand.give_to(some_rows, vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!(suspected(&hand.settle()), [(1, 0)], "the relay lives");
    hand.settled(&[1]);
    hand.wait();
    while hand.flights.is_empty() {
        match hand.read.take() {
            Some(read) => hand.answer(read, Vec::new(), false),
            None => hand.wait(),
        }
    }
    assert!(hand.settles.is_empty(), "a probe needs no suspicion");
}

#[test]
fn a_stop_leaves_the_suspicion_of_what_was_not_sent_as_it_was() {
    let mut hand = taken_over();
    take(&mut hand, vec![head(1, Some("k"), 1)]);
    hand.machine.on(hand.now, Event::Stop);
    hand.act();
    assert_eq!(suspected(&hand.settle()), [(1, 1)]);
    assert!(!hand.machine.is_drained());
    hand.settled(&[1]);
    assert!(hand.machine.is_drained() && hand.machine.window() == (0, 0) && hand.flights.is_empty());
}

#[test]
fn a_message_that_was_not_sent_before_a_pause_is_suspected_again_before_it_is_sent() {
    let mut hand = taken_over();
    let heads = (1..=3).map(|id| head(id, Some("k"), 0)).chain([head(100, Some("j"), 0)]).collect();
    assert_eq!(take(&mut hand, heads).len(), 4);
    let read = hand.read(some_rows).unwrap();
    hand.answer(read, (1..=3).map(|id| row(id, Some("k"))).collect(), true);
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    assert_eq!(suspected(&hand.settle()), [(1, 0), (2, 0), (3, 0)], "they were answered");
    hand.settled(&[1, 2, 3]);
    hand.give_to(some_rows, vec![row(100, Some("j"))]);
    assert_eq!(suspected(&hand.settle()), [(100, 0)], "this one was not sent");
    hand.settled(&[100]);
    for _ in 0..40 {
        hand.wait();
        if let Some(read) = hand.read.take() {
            hand.answer(read, Vec::new(), false);
        }
        while let Some((_, flight, rows)) = hand.flights.pop() {
            assert!(!rows.contains(&100), "sent without suspicion, as a probe");
            hand.publish((flight, rows.len()), Some(ErrorKind::Unavailable));
        }
    }
}

#[test]
fn a_message_behind_one_that_came_later_goes_back_and_dies_with_it_no_more() {
    let mut hand = taken_over();
    hand.give_new(vec![head(5, Some("k"), 2)]);
    hand.give_new(vec![head(2, Some("k"), 1)]);
    assert_eq!(suspected(&hand.settle()), [(5, 3)]);
    hand.settled(&[5]);
    hand.give_to(some_rows, vec![row(5, Some("k"))]);
    assert_eq!(suspected(&hand.settle()), [(5, 2)], "as it was");
    hand.settled(&[5]);
    assert_eq!(suspected(&hand.settle()), [(2, 2)], "alone");
    hand.settled(&[2]);
    answer(&mut hand, &[(2, Some("k"))]);
    assert_eq!(suspected(&hand.settle()), [(5, 3)]);
}

#[test]
fn a_message_that_is_gone_when_it_is_fetched_strands_nothing() {
    for gone_before in [true, false] {
        let mut hand = taken_over();
        hand.give_new(vec![head(1, Some("k"), 0), head(2, Some("k"), 0)]);
        hand.settle();
        hand.settled(if gone_before { &[2] } else { &[1, 2] });
        hand.give_to(some_rows, vec![row(2, Some("k"))]);
        hand.flight(2);
        assert_eq!(hand.machine.window().0, 1);
    }
}

#[test]
fn a_lane_that_is_read_up_to_date_is_handled_like_any_other() {
    let mut hand = taken_over();
    let read = hand.read(|wanted| matches!(wanted, Wanted::New)).unwrap();
    assert_eq!(read.lanes[0].start, Start::Careful);
    hand.answer(read, Vec::new(), false);
    for kind in [|wanted: &Wanted| matches!(wanted, Wanted::New), |wanted: &Wanted| matches!(wanted, Wanted::Due(_))] {
        let read = hand.read(kind).unwrap();
        hand.answer(read, Vec::new(), false);
    }
    let read = hand.read(|wanted| matches!(wanted, Wanted::New)).unwrap();
    assert_eq!(read.lanes[0].start, Start::Clean);
    hand.answer(read, vec![row(1, Some("k"))], false);
    hand.flight(1);
    assert!(hand.settles.is_empty());
    assert_eq!(hand.machine.held()[0].start, Start::Clean);
}

#[test]
fn a_clean_lane_pays_nothing() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::SharedConnection);
    for n in 0..300 {
        world.keyed(&format!("k{}", n % 20));
    }
    assert!(world.until(20, World::is_done));
    assert_eq!(world.seen.suspected, 0);
    assert!(!world.reads.iter().any(some_rows));
}

#[test]
fn a_message_that_kills_its_relay_is_found_and_the_others_flow() {
    for isolation in [Isolation::SharedConnection, Isolation::PerMessage] {
        for (window, set_aside, retried) in
            [(8_192, false, false), (8, false, false), (64, true, false), (64, false, true)]
        {
            let mut world = World::small(OrderInBatch::Kept, isolation);
            (world.settings.window_rows, world.settings.page_rows) = (window, window / 2);
            let change = |stored: &mut super::table::Stored| {
                stored.state = if set_aside { RowState::SetAside } else { RowState::Pending };
                stored.next_attempt_at = retried.then_some(0);
            };
            let mut rows = Vec::new();
            for n in 0..200 {
                let message = Message::new("all", "x");
                let message = if n % 7 == 0 && !set_aside { message } else { message.key(format!("k{}", n % 5)) };
                rows.push(world.write(message, 0, change));
            }
            let killer = rows[120];
            let id = world.id(killer);
            world.brokers[0].poison.insert(id, Poison::Kills);
            world.start();
            let done = world.until(60, World::is_done);
            assert!(done, "left {:?}", world.left());
            assert_eq!(world.dead(), [killer]);
            assert_eq!(world.table.reasons[&killer], DeadReason::RelayDied);
            assert_eq!(world.crashes, if window == 8 { world.crashes.clamp(4, 30) } else { 4 });
            let mut last = std::collections::BTreeMap::new();
            let mut seen = std::collections::BTreeSet::new();
            for row in world.brokers[0].rows().into_iter().filter(|row| seen.insert(*row)).collect::<Vec<_>>() {
                let Some(key) = world.key(row) else { continue };
                assert!(last.insert(key, row) < Some(row), "{row} too late");
            }
            assert_eq!(seen.len(), 199);
        }
    }
}

#[test]
fn an_outage_during_careful_starts_kills_nobody() {
    let mut world = World::small(OrderInBatch::Kept, Isolation::SharedConnection);
    for n in 0..50 {
        world.keyed(&format!("k{}", n % 5));
    }
    world.happens(0, Happening::Broker(0, Mode::Down(ErrorKind::Unavailable)));
    for _ in 0..8 {
        world.happens(0, Happening::Crash);
        world.run(2_000);
    }
    world.happens(0, Happening::Broker(0, Mode::Up));
    assert!(world.until(60, World::is_done));
    assert!(world.dead().is_empty());
    assert!(world.seen.suspected > 0);
}
