//! How a consumer stops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::{ErrorKind, RetryPolicy};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::scene::{Act, Scene, dead_letters, policy, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn on_stop_what_runs_comes_to_its_end_and_what_was_not_begun_is_given_back() {
    let queue = Queue::new();
    for (key, payload) in [("a", "runs"), ("a", "behind"), ("b", "retried"), ("b", "behind it"), ("c", "fails")] {
        queue.put(key, payload);
    }
    let scene = Scene::start_with(
        &queue,
        |payload, _| match payload {
            "runs" => Act::DoneAfter(8 * SECOND),
            "fails" => Act::FailAfter(8 * SECOND),
            _ => Act::Fail,
        },
        |builder| builder.retry(RetryPolicy { initial: 300 * SECOND, ..policy() }),
    );
    scene.until(|scene| scene.record.running() == 2 && scene.record.ended().len() == 1).await;
    let start = Instant::now();
    let record = Arc::clone(&scene.record);
    scene.stop.cancel();
    until(|| queue.seen().released.len() == 2).await;
    queue.put("", "late");
    let summary = scene.ended().await.unwrap();
    assert!(start.elapsed() <= 9 * SECOND, "it does not wait for the pause of a retry: {:?}", start.elapsed());
    let seen = queue.seen();
    assert_eq!(seen.acknowledged, ["runs"]);
    assert_eq!(seen.released[..2], ["retried", "behind it"], "a key goes back in its order");
    assert_eq!(seen.released[2..].iter().collect::<BTreeSet<_>>().len(), 2);
    assert!(seen.released.contains(&"behind".to_owned()) && seen.released.contains(&"fails".to_owned()));
    assert_eq!((seen.closed, seen.dropped.len(), queue.out(), queue.left()), (1, 0, 0, 5));
    assert!(!record.begun().contains(&"late".to_owned()));
    assert_eq!((summary.handled, summary.released, summary.failed), (1, 4, 2));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_still_running_after_the_grace_is_dropped_and_its_message_comes_again() {
    let queue = Queue::new();
    queue.put("a", "hangs");
    queue.put("a", "behind");
    let scene = Scene::start_with(&queue, |_, _| Act::Hang, |builder| builder.grace(3 * SECOND));
    scene.until(|scene| scene.record.running() == 1).await;
    let (start, record) = (Instant::now(), Arc::clone(&scene.record));
    let summary = scene.stopped().await;
    assert!(start.elapsed() >= 3 * SECOND && start.elapsed() < 4 * SECOND, "{:?}", start.elapsed());
    assert_eq!((record.running(), record.ended().len(), queue.out(), queue.left()), (0, 0, 0, 2));
    assert_eq!((queue.seen().acknowledged.len(), queue.seen().closed), (0, 1));
    assert_eq!((summary.handled, summary.failed), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_waits_is_given_back_and_not_lost() {
    let queue = Queue::new();
    queue.put("a", "bad");
    let broker = MemoryBroker::recording().with_script(|_, _| Answer::Fail(ErrorKind::Unavailable));
    let broker = Arc::new(broker);
    let graveyard = Arc::clone(&broker);
    let scene =
        Scene::start_with(&queue, |_, _| Act::GiveUp, |builder| builder.dead_letters(graveyard, dead_letters()));
    scene.until(|_| broker.sent() == 3).await;
    let summary = scene.stopped().await;
    assert_eq!((summary.buried, summary.released, queue.left()), (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_whose_future_is_dropped_leaves_every_message_to_come_again() {
    let queue = Queue::holding(Some(6 * SECOND));
    for (key, payload) in [("a", "runs"), ("a", "behind"), ("b", "retried")] {
        queue.put(key, payload);
    }
    let scene = Scene::start_with(
        &queue,
        |payload, _| if payload == "runs" { Act::Hang } else { Act::Fail },
        |builder| builder.retry(RetryPolicy { initial: 300 * SECOND, ..policy() }),
    );
    scene.until(|scene| scene.record.running() == 1 && scene.record.ended().len() == 1).await;
    scene.running.abort();
    scene.until(|scene| scene.record.running() == 0 && scene.queue.out() == 0).await;
    assert_eq!((queue.left(), queue.seen().acknowledged.len()), (3, 0));
    // The next one handles them.
    let next = Scene::start(&queue, |_, _| Act::Done);
    next.until_empty().await;
    assert_eq!(next.stopped().await.handled, 3);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stopped_before_it_began_takes_nothing() {
    let queue = Queue::new();
    queue.put("a", "book");
    let scene = Scene::start(&queue, |_, _| Act::Done);
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, queue.seen().takes, queue.left(), queue.seen().closed), (0, 0, 1, 1));
}
