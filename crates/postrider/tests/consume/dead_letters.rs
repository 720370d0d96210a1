//! Where messages go that are given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::{
    Accepted, Broker, BrokerProfile, Confirmation, DeadReason, Destination, ErrorKind, Finding, Message, Outgoing,
    Published, Result,
};

use crate::queue::Queue;
use crate::scene::{Act, Scene, dead_letters};

fn bad_fails(payload: &str, _: u32) -> Act {
    if payload == "bad" { Act::Fail } else { Act::Done }
}

#[tokio::test(start_paused = true)]
async fn after_its_attempts_a_message_lies_with_the_dead_letters_and_its_key_goes_on() {
    let queue = Queue::new();
    let bad = queue.put("a", "bad");
    queue.put("a", "good");
    let scene = Scene::start(&queue, bad_fails);
    scene.until_empty().await;
    assert_eq!(scene.record.begun(), ["bad", "bad", "bad", "good"]);
    let dead = scene.dead.messages();
    assert_eq!((dead.len(), &*dead[0].message, &dead[0].destination), (1, &bad, &dead_letters()));
    let given_up = dead[0].given_up.as_ref().unwrap();
    assert_eq!((given_up.reason, given_up.attempts), (DeadReason::Attempts, 3));
    assert_eq!(given_up.error, "no such item");
    let headers = dead[0].wire_headers();
    assert!(headers.contains(&("postrider-dead-reason", "attempts".to_owned())), "{headers:?}");
    assert_eq!(queue.seen().acknowledged, ["bad", "good"]);
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.failed, summary.buried), (1, 3, 1));
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_handled_is_given_up_at_its_first_attempt() {
    let queue = Queue::new();
    queue.put("a", "bad");
    let scene = Scene::start(&queue, |_, _| Act::GiveUp);
    scene.until_empty().await;
    let dead = scene.dead.messages();
    let given_up = dead[0].given_up.as_ref().unwrap();
    assert_eq!((given_up.reason, given_up.attempts, scene.record.begun().len()), (DeadReason::Malformed, 1, 1));
    assert_eq!(given_up.error, "an order without items");
    assert_eq!(scene.stopped().await.buried, 1);
}

/// A header that the place does not take, or one byte too many: it would be refused at every try, and its key would wait.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_its_place_refuses_is_put_there_without_its_headers() {
    let queue = Queue::new();
    let bad = queue.put("a", "bad");
    queue.put("a", "good");
    let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
        0 => Answer::Fail(ErrorKind::Rejected),
        _ => Answer::Accept,
    });
    let broker = Arc::new(broker);
    let graveyard = Arc::clone(&broker);
    let scene = Scene::start_with(&queue, bad_fails, |builder| builder.dead_letters(graveyard, dead_letters()));
    scene.until_empty().await;
    let dead = broker.messages();
    assert_eq!(dead.len(), 1);
    let kept = &dead[0].message;
    assert_eq!((kept.id, &kept.key, &kept.topic, &kept.payload), (bad.id, &bad.key, &bad.topic, &bad.payload));
    assert_eq!(kept.headers.get("dead-letter-without"), Some("headers"));
    assert_eq!(queue.seen().acknowledged, ["bad", "good"]);
    assert_eq!(scene.stopped().await.buried, 1);
}

#[tokio::test(start_paused = true)]
async fn while_their_place_is_away_dead_letters_wait_and_others_flow() {
    let queue = Queue::new();
    queue.put("a", "bad");
    queue.put("a", "good");
    // The answer to the last failing one is lost: it is sent once more.
    let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
        0..5 => Answer::Fail(ErrorKind::Unavailable),
        5 => Answer::LoseReply,
        _ => Answer::Accept,
    });
    let broker = Arc::new(broker);
    let graveyard = Arc::clone(&broker);
    let scene = Scene::start_with(&queue, bad_fails, |builder| builder.dead_letters(graveyard, dead_letters()));
    scene.until(|_| broker.sent() == 5).await;
    queue.put("", "other");
    scene.until(|scene| scene.queue.seen().acknowledged == ["other"]).await;
    assert_eq!(scene.record.begun(), ["bad", "bad", "bad", "other"]);
    scene.until_empty().await;
    assert_eq!(broker.accepted(), 2, "it may lie there twice, and never not at all");
    assert_eq!(queue.seen().acknowledged, ["other", "bad", "good"]);
    assert_eq!(scene.stopped().await.buried, 1);
}

/// A stream that has the message itself, and forgets its id after some calls.
#[derive(Debug)]
struct SameStream {
    remembers: u32,
    calls: AtomicU32,
}

#[async_trait]
impl Broker for SameStream {
    fn profile(&self) -> BrokerProfile {
        MemoryBroker::recording().profile()
    }

    async fn publish(&self, _batch: &[Outgoing]) -> Vec<Published> {
        let is_known = self.calls.fetch_add(1, Ordering::SeqCst) < self.remembers;
        let confirmation = if is_known { Confirmation::Duplicate } else { Confirmation::Fresh };
        vec![Published::Accepted(Accepted { confirmation })]
    }

    async fn check(&self, _destinations: &[Destination]) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_a_stream_dropped_as_a_repeat_is_not_taken_for_one_that_is_there() {
    let queue = Queue::new();
    queue.put("a", "bad");
    let stream = Arc::new(SameStream { remembers: 6, calls: AtomicU32::new(0) });
    let graveyard = Arc::clone(&stream);
    let scene = Scene::start_with(&queue, bad_fails, |builder| builder.dead_letters(graveyard, dead_letters()));
    scene.until(|_| stream.calls.load(Ordering::SeqCst) == 6).await;
    assert!(queue.seen().acknowledged.is_empty());
    scene.until_empty().await;
    assert_eq!((stream.calls.load(Ordering::SeqCst), scene.record.begun().len()), (7, 3));
    assert_eq!(scene.stopped().await.buried, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_lies_there_with_its_bytes_and_where_it_lay_and_blocks_nobody() {
    let queue = Queue::new();
    let place = queue.put_unreadable("\u{1}no");
    queue.put("", "good");
    let scene = Scene::start(&queue, bad_fails);
    scene.until_empty().await;
    let dead = scene.dead.messages();
    let message = &dead[0].message;
    assert_eq!((&message.payload[..], message.topic.as_str()), (&b"\x01no"[..], "unreadable"));
    assert_eq!(message.headers.get("dead-letter-place"), Some(place.as_str()));
    let given_up = dead[0].given_up.as_ref().unwrap();
    assert_eq!((given_up.reason, given_up.attempts), (DeadReason::Malformed, 0));
    assert!(given_up.error.contains("it has no id"), "{}", given_up.error);
    assert_eq!((scene.record.begun(), scene.stopped().await.buried), (vec!["good".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_no_delivery_of_which_ended_is_given_up_unbegun_and_innocents_are_not() {
    let queue = Queue::new();
    // Three attempts: handled alone from the fourth delivery on, and given up at the fourteenth.
    queue.put_message(Message::new("t", "killer"), 13);
    queue.put_message(Message::new("t", "innocent"), 12);
    queue.put_message(Message::new("t", "other"), 0);
    let scene = Scene::start(&queue, |_, _| Act::DoneAfter(Duration::from_secs(1)));
    scene.until_empty().await;
    let mut begun = scene.record.begun();
    begun.sort_unstable();
    assert_eq!((begun, scene.record.most()), (vec!["innocent".to_owned(), "other".to_owned()], 1));
    let dead = scene.dead.messages();
    assert_eq!((&dead[0].message.payload[..], dead.len()), (&b"killer"[..], 1));
    let given_up = dead[0].given_up.as_ref().unwrap();
    assert_eq!((given_up.reason, given_up.attempts), (DeadReason::Attempts, 13));
    assert!(given_up.error.contains("no delivery came to an end"), "{}", given_up.error);
    assert_eq!(scene.stopped().await.handled, 2);
}
