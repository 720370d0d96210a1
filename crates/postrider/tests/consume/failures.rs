//! What becomes of a message that cannot be handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider::consume::Consumer;
use postrider::{Attempts, CancellationToken, Delivery, InboxError, RetryPolicy};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::scene::{Act, Scene, policy, until};

#[tokio::test(start_paused = true)]
async fn an_error_a_panic_and_a_handler_that_hangs_are_failures_and_the_next_attempt_may_succeed() {
    let queue = Queue::new();
    for payload in ["error", "panic", "hang"] {
        queue.put(payload, payload);
    }
    let start = Instant::now();
    let scene = Scene::start_with(
        &queue,
        |payload, nth| match (payload, nth) {
            ("error", 1) => Act::Fail,
            ("panic", 1) => Act::Panic,
            ("hang", 1) => Act::Hang,
            _ => Act::Done,
        },
        |builder| builder.handler_timeout(Duration::from_secs(7)),
    );
    scene.until_empty().await;
    assert!(start.elapsed() > Duration::from_secs(7), "the one that hangs has its time");
    assert_eq!(scene.record.running(), 0);
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.failed, summary.again, summary.buried), (3, 3, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_panic_before_there_is_a_future() {
    let queue = Queue::new();
    queue.put("a", "book");
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let handler = move |_: Delivery| {
        let nth = counted.fetch_add(1, Ordering::SeqCst);
        assert!(nth > 0, "the handler is wrong");
        async { Ok::<(), String>(()) }
    };
    let consumer = Consumer::builder(Arc::clone(&queue) as _, handler).retry(policy()).build().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(consumer.run(stop.clone()));
    until(|| queue.left() == 0).await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap().failed, 1);
}

#[tokio::test(start_paused = true)]
async fn what_fails_by_no_fault_of_its_own_is_tried_longer_than_the_attempts_last() {
    let queue = Queue::new();
    queue.put("a", "book");
    let scene = Scene::start(&queue, |_, nth| if nth <= 12 { Act::Again } else { Act::Done });
    scene.until_empty().await;
    assert!(scene.dead.messages().is_empty());
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.again, summary.failed), (1, 12, 0));
}

#[tokio::test(start_paused = true)]
async fn a_closure_says_by_its_error_whose_fault_it_is() {
    let queue = Queue::new();
    queue.put("a", "book");
    let tries = AtomicU32::new(0);
    let handler = move |_: Delivery| {
        let nth = tries.fetch_add(1, Ordering::SeqCst);
        async move {
            match nth {
                0..5 => Err(InboxError::Contended(None)),
                _ => Ok(postrider::Seen::Repeat),
            }
        }
    };
    let consumer = Consumer::builder(Arc::clone(&queue) as _, handler).retry(policy()).build().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(consumer.run(stop.clone()));
    until(|| queue.left() == 0).await;
    stop.cancel();
    let summary = running.await.unwrap().unwrap();
    assert_eq!((summary.again, summary.failed, summary.handled, summary.repeats), (5, 0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_pauses_are_those_of_the_policy() {
    let queue = Queue::new();
    queue.put("a", "book");
    let retry = RetryPolicy { attempts: Attempts::AtMost(5), initial: Duration::from_secs(60), ..policy() };
    let start = Instant::now();
    let scene =
        Scene::start_with(&queue, |_, nth| if nth < 3 { Act::Fail } else { Act::Done }, |builder| builder.retry(retry));
    scene.until_empty().await;
    // At most 60 and 120 s, and at least a tenth of each.
    assert!(start.elapsed() >= Duration::from_secs(18) && start.elapsed() < Duration::from_secs(182));
    scene.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_place_for_dead_letters_nothing_is_given_up_and_others_flow() {
    let queue = Queue::new();
    queue.put("a", "book");
    let place = queue.put_unreadable("?");
    let scene = Scene::start_bare(
        &queue,
        |payload, nth| if payload == "book" && nth < 9 { Act::GiveUp } else { Act::Done },
        |builder| builder,
    );
    for n in 0..20 {
        queue.put("", &n.to_string());
    }
    let start = Instant::now();
    scene.until(|scene| scene.queue.left() == 1).await;
    assert!(start.elapsed() > Duration::from_secs(7 * 300), "each pause is the longest");
    assert_eq!(queue.out(), 1, "what is no message stays in hand: {place}");
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.failed, summary.buried, summary.released), (21, 8, 0, 1));
}
