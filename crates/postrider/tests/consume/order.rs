//! Who is handled when.

use std::time::Duration;

use postrider::consume::Order;
use postrider::{ErrorKind, Message};

use crate::queue::Queue;
use crate::scene::{Act, Scene, places};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn messages_of_one_key_are_handled_one_after_another_and_those_of_others_at_once() {
    let queue = Queue::new();
    for n in 1..=3 {
        for key in ["a", "b", "c"] {
            queue.put(key, &format!("{key}{n}"));
        }
    }
    let scene = Scene::start(&queue, |_, _| Act::DoneAfter(SECOND));
    scene.until(|scene| scene.record.running() == 3).await;
    let mut begun = scene.record.begun();
    begun.sort_unstable();
    assert_eq!(begun, ["a1", "b1", "c1"], "and none of their successors");
    scene.until_empty().await;
    let (begun, ended) = (scene.record.begun(), scene.record.ended());
    for key in ["a", "b", "c"] {
        for n in 1..3 {
            let (this, next) = (format!("{key}{n}"), format!("{key}{}", n + 1));
            assert!(places(&ended, &[&this]) < places(&begun, &[&next]), "{begun:?} {ended:?}");
        }
    }
    assert_eq!(scene.record.most(), 3);
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.failed, summary.released), (9, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_is_tried_again_in_its_place_and_only_its_key_waits() {
    let queue = Queue::new();
    for (key, payload) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2"), ("", "none")] {
        queue.put(key, payload);
    }
    let scene = Scene::start(&queue, |payload, nth| match payload {
        "a1" if nth < 3 => Act::Fail,
        _ => Act::Done,
    });
    scene.until(|scene| scene.queue.left() == 2).await;
    assert_eq!(scene.record.begun().iter().filter(|payload| *payload == "a2").count(), 0);
    scene.until_empty().await;
    let begun = scene.record.begun();
    let of_a: Vec<&String> = begun.iter().filter(|payload| payload.starts_with('a')).collect();
    assert_eq!(of_a, ["a1", "a1", "a1", "a2"]);
    assert_eq!(queue.seen().acknowledged.len(), 5);
    assert!(scene.dead.messages().is_empty());
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.failed), (5, 2));
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_and_no_more_are_in_hand_than_the_settings_say() {
    let queue = Queue::new();
    for n in 0..40 {
        queue.put("", &n.to_string());
    }
    let scene = Scene::start_with(&queue, |_, _| Act::DoneAfter(SECOND), |builder| builder.concurrency(4).window(6));
    scene.until_empty().await;
    assert_eq!((scene.record.most(), queue.seen().most_out), (4, 6));
    assert_eq!(scene.stopped().await.handled, 40);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_delivered_twice_at_once_does_not_meet_itself() {
    let queue = Queue::new();
    let message = Message::new("orders.placed", "same");
    queue.put_message(message.clone(), 0);
    queue.put_message(message, 0);
    let scene = Scene::start(&queue, |_, nth| if nth == 1 { Act::DoneAfter(SECOND) } else { Act::Before });
    scene.until_empty().await;
    assert_eq!((scene.record.most(), queue.seen().acknowledged.len()), (1, 2));
    let summary = scene.stopped().await;
    assert_eq!((summary.handled, summary.repeats), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_keeps_no_other_from_the_window_until_it_has_filled_it() {
    let queue = Queue::new();
    for n in 0..5 {
        queue.put("a", &format!("a{n}"));
    }
    for n in 0..50 {
        queue.put("", &n.to_string());
    }
    let scene = Scene::start_with(
        &queue,
        |payload, nth| if payload == "a0" && nth < 3 { Act::Fail } else { Act::Done },
        |builder| builder.concurrency(2).window(6),
    );
    scene.until(|scene| scene.queue.left() == 5).await;
    assert_eq!(scene.record.begun().iter().filter(|payload| payload.starts_with('a')).count(), 1);
    scene.until_empty().await;
    assert_eq!(scene.stopped().await.handled, 55);
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_part_are_handled_one_after_another_whatever_their_keys_and_those_of_others_at_once() {
    let queue = Queue::in_parts();
    for n in 1..=3 {
        for part in 0..3 {
            queue.put_in(part, &format!("{part}-{n}"));
        }
    }
    let scene = Scene::start_with(
        &queue,
        |payload, nth| if payload == "1-1" && nth < 3 { Act::FailAfter(SECOND) } else { Act::DoneAfter(SECOND) },
        |builder| builder.order(Order::Part),
    );
    scene.until(|scene| scene.record.running() == 3).await;
    let mut begun = scene.record.begun();
    begun.sort_unstable();
    assert_eq!(begun, ["0-1", "1-1", "2-1"], "and none of their successors");
    scene.until_empty().await;
    let begun = scene.record.begun();
    let of_one: Vec<&String> = begun.iter().filter(|payload| payload.starts_with('1')).collect();
    assert_eq!(of_one, ["1-1", "1-1", "1-1", "1-2", "1-3"], "they wait behind the one that fails");
    assert_eq!(scene.record.most(), 3);
    assert_eq!(scene.stopped().await.handled, 9);
}

/// A cursor that has passed a message takes it for a repeat: nothing behind one that is lost may be handled.
#[tokio::test(start_paused = true)]
async fn a_part_does_not_go_on_behind_a_message_of_which_nobody_knows_the_end() {
    let queue = Queue::in_parts();
    for n in 1..=3 {
        queue.put_in(0, &n.to_string());
    }
    queue.panic_at_acknowledgements();
    let scene = Scene::start_with(&queue, |_, _| Act::Done, |builder| builder.order(Order::Part));
    let record = std::sync::Arc::clone(&scene.record);
    // By turns and not by time: a consumer that went on would never rest, and no time would pass.
    while !scene.running.is_finished() {
        assert!(record.begun().len() <= 1, "it went on");
        tokio::task::yield_now().await;
    }
    let error = scene.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!((record.begun(), queue.left(), queue.seen().closed), (vec!["1".to_owned()], 3, 1));
}
