//! A window that is full while destinations pause.

use std::time::Duration;

use super::by_hand::{Hand, row, rows_of};
use super::hurrying::{of, of_topic, sent_after};
use super::world::name;
use crate::machine::{DestinationIndex, Event, Wanted};
use crate::*;

/// The room of one key where the window holds rows of thirty-two of them.
const SHARE: i64 = 95 / 32;

#[test]
fn while_everything_pauses_a_full_window_keeps_no_more_of_a_key_than_its_share() {
    let mut hand = Hand::with_window(1, 95);
    hand.give_new((1..=95).map(|id| row(id, Some("bad"))).collect());
    let flight = hand.flight(1);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    let left = hand.settle();
    assert!(left.iter().all(|settlement| matches!(settlement.outcome, Outcome::SetAside { .. })), "{left:?}");
    let left = rows_of(&left);
    assert_eq!(left, (1 + SHARE..=95).collect::<Vec<_>>());
    hand.settled(&left);
    hand.give_new(vec![row(200, Some("good"))]);
    for _ in 0..100 {
        match hand.flights.pop() {
            Some((_, flight, rows)) if rows == [200] => {
                hand.publish((flight, 1), None);
                assert!(hand.machine.destinations()[0].paused.is_none());
                return;
            }
            Some((_, flight, rows)) => hand.publish((flight, rows.len()), Some(ErrorKind::Unavailable)),
            None => hand.wait(),
        }
        if let Some(read) = hand.read.take() {
            hand.answer(read, Vec::new(), false);
        }
    }
    panic!("the message that could end the pause was never tried");
}

/// However many messages of a topic stand before it that nothing is set up for.
#[test]
fn a_window_full_of_a_topic_that_is_missing_lets_another_one_come_and_end_the_pause() {
    for is_keyed in [false, true] {
        let mut hand = Hand::with_window(1, 16);
        let mut came = 0;
        let mut uncovered = || {
            came += 1;
            let key = format!("k{came}");
            of_topic("uncovered", row(came, is_keyed.then_some(key.as_str())))
        };
        let mut bad = 100;
        while hand.machine.destinations()[0].paused.is_none() || bad > 0 || !hand.flights.is_empty() {
            assert!(hand.now < Tick::ZERO + Duration::from_secs(600), "keyed {is_keyed}: nothing is read any more");
            if let Some((_, flight, rows)) = hand.flights.pop() {
                hand.publish((flight, rows.len()), Some(ErrorKind::Config));
            } else if let Some(batch) = hand.settles.pop() {
                hand.settled(&rows_of(&batch));
            } else if let Some(read) = hand.read.take() {
                let rows = if read.wanted == Wanted::New { read.room.rows.min(bad) } else { 0 };
                bad -= rows;
                hand.answer(read, (0..rows).map(|_| uncovered()).collect(), bad > 0);
            } else {
                hand.wait();
            }
            assert!(hand.machine.window().0 <= 16);
        }
        while let Some(batch) = hand.settles.pop() {
            hand.settled(&rows_of(&batch));
        }
        hand.give_new(vec![of("covered", 1_000)]);
        let after = sent_after(&mut hand, 1_000);
        assert!(after <= Duration::from_millis(300), "keyed {is_keyed}: {after:?}");
        assert!(hand.machine.destinations()[0].paused.is_none());
    }
}

/// What stands in no line, because each is to travel alone, stands in the way as well.
#[test]
fn suspects_of_a_paused_destination_make_room_for_what_goes_elsewhere() {
    let mut hand = Hand::with(2, |settings| {
        settings.destinations[0].profile.isolation = Isolation::SharedConnection;
        settings.window_rows = 16;
    });
    let only = |id, place| Row { waiting_for: Some(vec![name(place)]), ..row(id, None) };
    let lifetime = Lifetime { expires: Expires::In(Duration::from_secs(1)), ..Lifetime::default() };
    let suspects = (2..=14).map(|id| only(id, 0));
    hand.give_new(std::iter::once(Row { lifetime, ..only(1, 0) }).chain(suspects).collect());
    for _ in 0..2 {
        let flight = hand.flight(14);
        hand.publish(flight, Some(ErrorKind::Unavailable));
        hand.machine.on(hand.now, Event::Checked(DestinationIndex::new(0), Ok(())));
        hand.act();
    }
    let alone = hand.flight(1);
    assert!(hand.flights.is_empty(), "{:?}", hand.flights);
    hand.give_new(vec![only(15, 1), only(16, 1)]);
    hand.flight(15);
    hand.now = hand.now + Duration::from_secs(2);
    // Its time passes while it is on its way, so that it does not stand in line again.
    hand.act();
    hand.publish(alone, Some(ErrorKind::Unavailable));
    while let Some(batch) = hand.settles.pop() {
        hand.settled(&rows_of(&batch));
    }
    assert!(hand.machine.destinations()[0].paused.is_some());
    assert_eq!(hand.machine.window().0, 2, "they fill the window");
}
