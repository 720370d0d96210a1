//! How much comes, when, and in which order.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hands::{at_most, comes_next, drained, ids, numbered, over, publish, read, take, taken};
use super::{Harness, message};

pub(super) async fn nothing_comes_where_there_is_nothing(harness: Harness) {
    let from = harness.subscribe("reader");
    assert!(take(&harness, &from, 10).await.is_empty());
    let began = Instant::now();
    for _ in 0..3 {
        assert!(take(&harness, &from, 10).await.is_empty());
    }
    // Whoever asks again and again must not keep a processor busy by it.
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(150), "three takes did not wait: {waited:?}");
}

pub(super) async fn a_message_that_comes_while_one_waits_is_taken(harness: Harness) {
    let from = harness.subscribe("reader");
    // Until who reads what is settled.
    assert!(take(&harness, &from, 10).await.is_empty());
    let waiting = {
        let (harness, from) = (Arc::clone(&harness), Arc::clone(&from));
        tokio::spawn(async move { taken(&harness, &from, 1).await.remove(0) })
    };
    let late = message("late");
    publish(&harness, std::slice::from_ref(&late)).await;
    let incoming = waiting.await.expect("the take that waited");
    assert_eq!(read(&incoming).id, late.id);
    over(&harness, incoming).await;
}

pub(super) async fn never_more_comes_than_was_asked_for(harness: Harness) {
    let messages = numbered("message", 60);
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    let (mut seen, until) = (HashSet::new(), Instant::now() + harness.patience());
    for most in [1, 7, 1, 3, 1000].into_iter().cycle() {
        if seen.len() == messages.len() {
            break;
        }
        assert!(Instant::now() < until, "{} of {} came", seen.len(), messages.len());
        // The take itself counts.
        for incoming in take(&harness, &from, most).await {
            assert!(seen.insert(read(&incoming).id), "it came twice: {incoming:?}");
            over(&harness, incoming).await;
        }
    }
    assert!(take(&harness, &from, 1000).await.is_empty());
}

pub(super) async fn the_messages_of_a_key_come_in_order(harness: Harness) {
    let messages: Vec<_> = (0..150).map(|n| message(format!("{n}")).key(format!("key {}", n % 3))).collect();
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    let (mut came, until) = (Vec::new(), Instant::now() + harness.patience());
    for most in [1, 20, 7].into_iter().cycle() {
        if came.len() == messages.len() {
            break;
        }
        assert!(Instant::now() < until, "{} of {} came", came.len(), messages.len());
        for incoming in take(&harness, &from, most).await {
            came.push(read(&incoming).clone());
            over(&harness, incoming).await;
        }
    }
    for key in ["key 0", "key 1", "key 2"] {
        let of_key = |message: &&postrider_core::Message| message.key.as_ref().is_some_and(|k| k.as_str() == key);
        let sent = messages.iter().filter(of_key).map(|message| message.id);
        assert!(sent.eq(came.iter().filter(of_key).map(|message| message.id)), "{key}");
    }
}

pub(super) async fn a_take_that_is_dropped_loses_nothing(harness: Harness) {
    let (first, second) = (numbered("first", 40), numbered("second", 40));
    publish(&harness, &first).await;
    let from = harness.subscribe("reader");
    let dropping = {
        let (harness, from) = (Arc::clone(&harness), Arc::clone(&from));
        tokio::spawn(async move {
            let mut came = Vec::new();
            // From at once to later than an answer takes.
            for n in 0..60_u64 {
                let some_time = Duration::from_micros(n * n * 30);
                if let Ok(Ok(taken)) = tokio::time::timeout(some_time, from.take(at_most(3))).await {
                    came.extend(ids(&taken));
                    for incoming in taken {
                        over(&harness, incoming).await;
                    }
                }
            }
            came
        })
    };
    publish(&harness, &second).await;
    let came: HashSet<_> = dropping.await.expect("the takes that were dropped").into_iter().collect();
    let left: Vec<_> = first.into_iter().chain(second).filter(|message| !came.contains(&message.id)).collect();
    drained(&harness, &from, &left).await;
    let next = message("next");
    publish(&harness, std::slice::from_ref(&next)).await;
    over(&harness, comes_next(&harness, &from, &next).await).await;
}
