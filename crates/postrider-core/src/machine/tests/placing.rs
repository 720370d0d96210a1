//! Messages that have no place at a destination, because its template names what they lack or may not decide.

use std::sync::Arc;

use super::by_hand::{Hand, only, row, rows_of};
use super::world::name;
use crate::*;

/// So many destinations, of which the first goes by region.
fn hand(destinations: usize) -> Hand {
    let allowed = AllowList::default().allow(Placeholder::Header("region".to_owned()), ["eu"]).unwrap();
    let template = DestinationTemplate::allowing("orders.{header.region}", &allowed).unwrap();
    Hand::with(destinations, |settings| settings.destinations[0].template = template.clone())
}

fn from(region: &str, row: Row) -> Row {
    let Content::Message(message) = &row.content else { unreachable!() };
    let message = Message::clone(message).header("region", region);
    Row { content: Content::Message(Arc::new(message)), ..row }
}

fn sent(hand: &Hand) -> Vec<(usize, Vec<i64>)> {
    hand.flights.iter().map(|(place, _, rows)| (place.get(), rows.clone())).collect()
}

#[test]
fn a_message_without_a_place_is_charged_and_not_sent_and_holds_back_its_key_alone() {
    let mut hand = hand(1);
    let rows = vec![from("mars", row(1, Some("k"))), from("eu", row(2, Some("k"))), from("eu", row(3, Some("other")))];
    hand.give_new(rows);
    assert_eq!(sent(&hand), [(0, vec![3])]);
    let batch = hand.settle();
    let [second, first] = &batch[..] else { panic!("{batch:?}") };
    let Outcome::Retry { attempts, failures, waiting_for, .. } = &first.outcome else { panic!("{first:?}") };
    assert_eq!((first.row.0, *attempts, waiting_for), (1, 1, &None));
    assert_eq!((failures[0].kind, &failures[0].destination), (ErrorKind::Rejected, &name(0)));
    let route = format!("the route {:?}", name(0).as_str());
    let words = [route.as_str(), "\"mars\"", "allow.header.region", "restart the relay"];
    assert!(words.iter().all(|word| failures[0].text.contains(word)), "{}", failures[0].text);
    assert!(matches!((second.row.0, &second.outcome), (2, Outcome::SetAside { .. })), "{second:?}");
}

#[test]
fn a_message_that_lacks_what_the_template_names_is_told_so() {
    let mut hand = hand(1);
    hand.give_new(vec![row(1, None)]);
    let batch = hand.settle();
    let Outcome::Retry { failures, .. } = &batch[0].outcome else { panic!("{batch:?}") };
    assert!(failures[0].text.contains("it has no header \"region\""), "{}", failures[0].text);
}

/// Sixteen that a broker rejects would be its own fault.
#[test]
fn no_number_of_messages_without_a_place_pauses_the_destination() {
    let mut hand = hand(1);
    hand.give_new((1..=40).map(|id| from("mars", row(id, Some(&id.to_string())))).collect());
    assert_eq!(rows_of(&hand.settle()).len(), 40);
    assert!(hand.machine.destinations()[0].paused.is_none() && sent(&hand).is_empty());
    hand.settled(&(1..=40).collect::<Vec<_>>());
    hand.give_new(vec![from("eu", row(41, None))]);
    assert_eq!(sent(&hand), [(0, vec![41])]);
}

#[test]
fn it_waits_for_those_of_its_key_before_it_and_those_behind_it_wait_for_it() {
    let mut hand = hand(1);
    let of = |region: &str, id| from(region, row(id, Some("k")));
    hand.give_new(vec![of("eu", 1), of("eu", 2), of("mars", 3), of("eu", 4)]);
    assert_eq!(sent(&hand), [(0, vec![1, 2])]);
    assert!(hand.settles.is_empty(), "its turn has not come: {:?}", hand.settles);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    assert_eq!(sent(&hand), [], "what comes behind it passed it");
    assert_eq!(rows_of(&hand.settle()), [1, 2]);
    hand.settled(&[1, 2]);
    let batch = hand.settle();
    assert_eq!((rows_of(&batch), sent(&hand)), (vec![4, 3], vec![]));
    assert!(matches!(batch[1].outcome, Outcome::Retry { attempts: 1, .. }), "{batch:?}");
}

#[test]
fn its_last_attempt_makes_it_a_dead_letter_and_its_key_goes_on() {
    let mut hand = hand(1);
    let last = Row { attempts: 3, progress: [(name(0), 3)].into_iter().collect(), ..row(1, Some("k")) };
    hand.give_new(vec![from("mars", last), from("eu", row(2, Some("k")))]);
    let batch = hand.settle();
    assert!(matches!(batch[0].outcome, Outcome::Dead { reason: DeadReason::Attempts, .. }), "{batch:?}");
    assert_eq!((rows_of(&batch), sent(&hand)), (vec![1], vec![]));
    hand.settled(&[1]);
    assert_eq!(sent(&hand), [(0, vec![2])]);
}

#[test]
fn another_destination_gets_it_and_only_the_one_without_a_place_is_still_owed_it() {
    let mut hand = hand(2);
    hand.give_new(vec![from("mars", row(1, Some("k")))]);
    assert_eq!(sent(&hand), [(1, vec![1])]);
    let flight = hand.flight(1);
    hand.publish(flight, None);
    let batch = hand.settle();
    let Outcome::Retry { waiting_for, .. } = &batch[0].outcome else { panic!("{batch:?}") };
    assert_eq!(waiting_for.as_deref(), Some(&[name(0)][..]));
}

/// It would say nothing about the destination.
#[test]
fn a_message_without_a_place_is_no_probe() {
    let mut hand = hand(1);
    hand.give_new(vec![from("eu", row(9, None))]);
    let flight = hand.flight(9);
    hand.publish(flight, Some(ErrorKind::Unavailable));
    hand.give_new(vec![from("mars", row(1, Some("a"))), from("eu", row(2, Some("b")))]);
    let mut probed = Vec::new();
    while !probed.contains(&2) {
        match hand.flights.pop() {
            Some((_, flight, rows)) => {
                probed.extend(rows.iter().copied());
                hand.publish((flight, rows.len()), Some(ErrorKind::Unavailable));
            }
            None => match hand.read.take() {
                Some(read) => hand.answer(read, Vec::new(), false),
                None => hand.wait(),
            },
        }
        assert!(!probed.contains(&1), "it was sent");
    }
    assert!(hand.machine.destinations()[0].paused.is_some());
    let batch = hand.settle();
    assert!(matches!(batch[..], [Settlement { row: RowId(1), outcome: Outcome::Retry { attempts: 1, .. }, .. }]));
}

/// Whatever the first destination thinks of its place, one that goes by topic does not ask.
#[test]
fn a_destination_that_goes_by_topic_takes_every_message() {
    let mut hand = hand(2);
    hand.give_new((1..=3).map(|id| only(1, row(id, None))).collect());
    assert_eq!(sent(&hand), [(1, vec![1, 2, 3])]);
}
