//! What a receipt says, and what becomes of the message then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Incoming, MessageId, Subscription};

use super::hands::{
    comes_next, drained, drained_among, either, ids, numbered, over, publish, quiet, read, take, taken, tried,
};
use super::sharing::settle;
use super::{Harness, message};

/// How long a message stays with who took it; where it stays as long as they live, a moment.
fn hold(from: &Arc<dyn Subscription>) -> Duration {
    from.hold().unwrap_or(Duration::from_secs(1))
}

/// What is counted of a delivery that is not the first.
fn is_repeat(incoming: &Incoming) {
    assert!(incoming.deliveries.is_none_or(|times| times >= 2), "it says that it comes first: {incoming:?}");
}

pub(super) async fn what_was_acknowledged_does_not_come_again(harness: Harness) {
    let messages = numbered("message", 20);
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    for incoming in taken(&harness, &from, messages.len()).await {
        assert!(incoming.deliveries.is_none_or(|times| times == 1), "{incoming:?}");
        over(&harness, incoming).await;
    }
    quiet(&harness, &from, hold(&from) + Duration::from_secs(1)).await;
    from.close().await;
    let next = message("next");
    publish(&harness, std::slice::from_ref(&next)).await;
    let from = harness.subscribe("reader");
    over(&harness, comes_next(&harness, &from, &next).await).await;
    quiet(&harness, &from, Duration::from_secs(1)).await;
}

pub(super) async fn what_was_dropped_without_a_word_comes_again(harness: Harness) {
    let messages = numbered("message", 5);
    publish(&harness, &messages).await;
    let mut from = harness.subscribe("reader");
    let dropped = ids(&taken(&harness, &from, messages.len()).await);
    assert_eq!(dropped.iter().collect::<HashSet<_>>().len(), messages.len());
    if from.hold().is_none() {
        from.close().await;
        from = harness.subscribe("reader");
    }
    let again = taken(&harness, &from, messages.len()).await;
    assert_eq!(ids(&again).into_iter().collect::<HashSet<_>>(), dropped.into_iter().collect());
    for incoming in again {
        is_repeat(&incoming);
        over(&harness, incoming).await;
    }
    quiet(&harness, &from, hold(&from) + Duration::from_secs(1)).await;
}

pub(super) async fn what_was_released_comes_again_at_once(harness: Harness) {
    let (one, other) = (harness.subscribe("reader"), harness.subscribe("reader"));
    let released = message("released");
    publish(&harness, std::slice::from_ref(&released)).await;
    // Whichever of them the broker chooses.
    let incoming = either(&harness, [&one, &other]).await;
    assert_eq!(read(&incoming).id, released.id);
    let began = Instant::now();
    incoming.receipt.release().await.expect("it is given back");
    let again = either(&harness, [&one, &other]).await;
    let waited = began.elapsed();
    assert!(one.hold().is_none_or(|hold| waited < hold), "it came back after {waited:?}");
    assert_eq!(read(&again).id, released.id);
    is_repeat(&again);
    over(&harness, again).await;
    for from in [&one, &other] {
        quiet(&harness, from, Duration::from_millis(500)).await;
    }
}

pub(super) async fn what_is_extended_stays_where_it_is(harness: Harness) {
    let (one, other) = (harness.subscribe("reader"), harness.subscribe("reader"));
    // A broker that divides what there is among its members may give to who comes later what another one has in hand.
    settle(&harness, "reader", [&one, &other]).await;
    let long = message("long");
    publish(&harness, std::slice::from_ref(&long)).await;
    let held = either(&harness, [&one, &other]).await;
    assert_eq!(read(&held).id, long.id);
    let until = Instant::now() + hold(&one) * 5 / 2;
    let mut next = Instant::now();
    while Instant::now() < until {
        if Instant::now() >= next {
            held.receipt.extend().await.expect("it is still ours");
            next += hold(&one) / 4;
        }
        for from in [&other, &one] {
            let came = match tokio::time::timeout(hold(&one) / 4, tried(&harness, from, 1)).await {
                Ok(came) => came.expect("a take beside it"),
                Err(_) => continue,
            };
            assert!(came.is_empty(), "it was given to another although it was extended: {came:?}");
        }
    }
    over(&harness, held).await;
    for from in [&one, &other] {
        quiet(&harness, from, hold(&one) + Duration::from_secs(1)).await;
    }
}

pub(super) async fn acknowledging_out_of_order_loses_nothing(harness: Harness) {
    // One key: one order.
    let messages: Vec<_> = numbered("message", 12).into_iter().map(|message| message.key("k")).collect();
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    let came = taken(&harness, &from, messages.len()).await;
    let (mut acknowledged, mut held): (HashSet<MessageId>, Vec<Incoming>) = (HashSet::new(), Vec::new());
    // From the end, and with holes: what a broker that keeps one position must not take for all that lies before.
    for (n, incoming) in came.into_iter().enumerate().rev() {
        if n % 3 == 1 {
            held.push(incoming);
        } else {
            acknowledged.insert(read(&incoming).id);
            over(&harness, incoming).await;
        }
    }
    // It dies: nobody says a word of what is left, or that it goes.
    drop((held, from));
    let left: Vec<_> = messages.iter().filter(|message| !acknowledged.contains(&message.id)).cloned().collect();
    assert_eq!(left.len(), 4);
    let from = harness.subscribe("reader");
    let mut wanted: HashSet<MessageId> = left.iter().map(|message| message.id).collect();
    let until = Instant::now() + harness.patience();
    while !wanted.is_empty() {
        assert!(Instant::now() < until, "what was not acknowledged did not come: {wanted:?}");
        for incoming in take(&harness, &from, 5).await {
            // What was acknowledged may come again, of a broker that keeps one position.
            wanted.remove(&read(&incoming).id);
            over(&harness, incoming).await;
        }
    }
    let next = message("next").key("k");
    publish(&harness, std::slice::from_ref(&next)).await;
    drained_among(&harness, &from, &[next], &messages).await;
    from.close().await;
    let last = message("last").key("k");
    publish(&harness, std::slice::from_ref(&last)).await;
    let from = harness.subscribe("reader");
    assert_eq!(drained(&harness, &from, std::slice::from_ref(&last)).await[&last.id], 1, "all before it was over");
}
