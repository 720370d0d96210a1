//! What a lane on its way back leaves alone.

use super::by_hand::{Hand, row};
use crate::machine::{Event, Wanted};
use crate::*;

#[test]
fn a_lane_that_is_asked_for_again_on_its_way_back_is_kept_until_its_messages_are_answered() {
    let mut hand = Hand::new(1);
    hand.give_new(vec![row(1, Some("k"))]);
    let flight = hand.flight(1);
    for _ in 0..2 {
        hand.hand_back();
        assert!(hand.released.is_empty(), "another relay would send behind what is on its way");
    }
    hand.publish(flight, None);
    hand.hand_back();
    assert!(hand.released.is_empty(), "and send again what is not recorded yet");
    assert_eq!(hand.settle()[0].outcome, Outcome::Delivered);
    hand.settled(&[1]);
    assert_eq!((hand.released.len(), hand.machine.window().0), (1, 0));
}

#[test]
fn messages_of_the_lanes_that_stay_go_on_while_another_lane_goes_back() {
    let other = |row: Row| Row { lane: Lane(1), ..row };
    let mut hand = Hand::new(1);
    let lane = HeldLane { lane: Lane(1), term: Term(1), start: Start::Clean };
    hand.machine.on(hand.now, Event::Gained(vec![lane]));
    hand.give_to(|wanted| matches!(wanted, Wanted::Walk(..)), Vec::new());
    hand.give_new(vec![row(1, Some("k")), other(row(2, Some("j")))]);
    hand.give_new(vec![row(3, Some("k")), other(row(4, Some("j")))]);
    let flight = hand.flight(2);
    hand.hand_back();
    assert_eq!(hand.machine.window().0, 3, "only what waits in the lane that goes back is forgotten");
    hand.publish(flight, None);
    hand.flight(4);
}
