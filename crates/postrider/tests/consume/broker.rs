//! What the consumer says to the broker, and what it makes of the answers.

use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::{ErrorKind, RetryPolicy};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::scene::{Act, Scene, dead_letters, places, policy};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_message_is_acknowledged_when_it_is_handled_and_not_before() {
    let queue = Queue::new();
    queue.put("a", "slow");
    let scene = Scene::start(&queue, |_, _| Act::DoneAfter(5 * SECOND));
    scene.until(|scene| scene.record.running() == 1).await;
    assert_eq!(queue.seen().acknowledged.len(), 0);
    scene.until(|scene| scene.record.ended().len() == 1).await;
    scene.until_empty().await;
    assert_eq!(queue.seen().acknowledged, ["slow"]);
    scene.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_that_fails_is_no_error_and_the_message_that_comes_again_is_a_repeat() {
    let queue = Queue::new();
    queue.fail_acknowledgements([ErrorKind::Unknown, ErrorKind::Unavailable]);
    queue.put("a", "book");
    let scene = Scene::start(&queue, |_, nth| if nth == 1 { Act::Done } else { Act::Before });
    scene.until_empty().await;
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.repeats, summary.failed, summary.lost), (3, 2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_runs_and_what_waits_stays_with_the_consumer_however_long_it_takes() {
    // What is not heard of for six seconds is delivered again.
    let queue = Queue::holding(Some(6 * SECOND));
    for (key, payload) in [("a", "runs"), ("a", "behind"), ("b", "retried"), ("b", "behind it")] {
        queue.put(key, payload);
    }
    let scene = Scene::start(&queue, |payload, nth| match (payload, nth) {
        ("runs", _) => Act::DoneAfter(20 * SECOND),
        ("retried", 1..3) => Act::FailAfter(10 * SECOND),
        _ => Act::Done,
    });
    scene.until_empty().await;
    let begun = scene.record.begun();
    assert_eq!(begun.len(), 6, "none was delivered twice: {begun:?}");
    let extended = queue.seen().extended;
    let count = |payload: &str| extended.iter().filter(|one| *one == payload).count();
    // Every fifth of it, 1.2 s.
    assert!((15..=17).contains(&count("runs")), "{extended:?}");
    assert!((15..=17).contains(&count("behind")), "{extended:?}");
    assert!(count("retried") >= 14 && count("behind it") >= 14, "{extended:?}");
    scene.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_another_consumers_runs_to_its_end_and_only_then_its_key_goes_on() {
    let queue = Queue::holding(Some(6 * SECOND));
    queue.put("a", "lost");
    queue.put("a", "next");
    let scene = Scene::start(&queue, |payload, _| match payload {
        "lost" => Act::DoneAfter(20 * SECOND),
        _ => Act::Done,
    });
    scene.until(|scene| scene.record.running() == 1).await;
    let start = Instant::now();
    queue.fence("lost");
    scene.until(|scene| scene.record.begun().len() == 2).await;
    assert!(start.elapsed() > 19 * SECOND);
    scene.until_empty().await;
    assert!(places(&scene.record.ended(), &["lost"]) < places(&scene.record.ended(), &["next"]));
    assert_eq!((queue.seen().dropped, queue.seen().acknowledgements), (vec!["lost".to_owned()], 1));
    assert_eq!(queue.seen().acknowledged, ["next"]);
    assert_eq!(scene.stopped().await.handled, 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_another_consumers_while_it_waits_is_let_go() {
    let queue = Queue::holding(Some(6 * SECOND));
    queue.put("a", "lost");
    queue.put("a", "next");
    let scene = Scene::start_with(
        &queue,
        |payload, _| if payload == "lost" { Act::Fail } else { Act::Done },
        |builder| builder.retry(RetryPolicy { initial: 100 * SECOND, ..policy() }),
    );
    scene.until(|scene| scene.record.ended().len() == 1).await;
    queue.fence("lost");
    scene.until_empty().await;
    assert_eq!(scene.record.begun(), ["lost", "next"]);
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.failed, summary.lost, summary.buried), (1, 1, 1, 0));
}

/// A partition of Kafka that moved: nothing asks for it while its messages wait.
#[tokio::test(start_paused = true)]
async fn what_is_another_consumers_where_nobody_asks_meanwhile_is_not_begun_and_not_buried() {
    let queue = Queue::new();
    for payload in ["lost", "next", "last"] {
        queue.put("a", payload);
    }
    queue.put("b", "given up");
    let fails = |payload: &str, _: u32| if payload == "given up" { Act::GiveUp } else { Act::Fail };
    let away = MemoryBroker::recording().with_script(|_, _| Answer::Fail(ErrorKind::Unavailable));
    let away = Arc::new(away);
    let graveyard = Arc::clone(&away);
    let scene = Scene::start_with(&queue, fails, |builder| builder.dead_letters(graveyard, dead_letters()));
    scene.until(|scene| scene.record.ended().len() == 2 && away.sent() == 1).await;
    for payload in ["lost", "next", "last", "given up"] {
        queue.fence(payload);
    }
    scene.until_empty().await;
    assert_eq!((scene.record.begun().len(), away.sent()), (2, 1));
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.failed, summary.lost, summary.buried), (0, 2, 4, 0));
}

#[tokio::test(start_paused = true)]
async fn what_fails_and_is_another_consumers_by_then_is_not_tried_again() {
    let queue = Queue::holding(Some(6 * SECOND));
    queue.put("a", "lost");
    let scene = Scene::start(&queue, |_, _| Act::FailAfter(20 * SECOND));
    scene.until(|scene| scene.record.running() == 1).await;
    queue.fence("lost");
    scene.until_empty().await;
    assert_eq!(scene.record.begun().len(), 1);
    assert_eq!(scene.stopped().await.lost, 1);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_away_is_waited_for() {
    let queue = Queue::new();
    queue.fail_check(ErrorKind::Unavailable);
    let failing = [ErrorKind::Unavailable, ErrorKind::Throttled, ErrorKind::Config, ErrorKind::Config];
    queue.fail_takes(failing.into_iter().cycle().take(40));
    queue.put("a", "book");
    let start = Instant::now();
    let scene = Scene::start(&queue, |_, _| Act::Done);
    scene.until_empty().await;
    // Pauses that double, five seconds at most.
    assert!(start.elapsed() > 150 * SECOND && start.elapsed() < 200 * SECOND, "{:?}", start.elapsed());
    assert!((41..=42).contains(&queue.seen().takes), "{}", queue.seen().takes);
    // The next trouble begins with short pauses again.
    let start = Instant::now();
    queue.fail_takes([ErrorKind::Config]);
    queue.put("a", "pen");
    scene.until_empty().await;
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    assert_eq!(scene.stopped().await.handled, 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_read_must_be_there_at_the_start() {
    for by_check in [true, false] {
        let queue = Queue::new();
        if by_check {
            queue.fail_check(ErrorKind::Config);
        } else {
            queue.fail_takes([ErrorKind::Config]);
        }
        queue.put("a", "book");
        let scene = Scene::start(&queue, |_, _| Act::Done);
        let error = scene.ended().await.unwrap_err();
        assert_eq!((error.kind(), queue.seen().closed, queue.left()), (ErrorKind::Config, 1, 1));
    }
}
