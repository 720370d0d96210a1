//! Subscriptions that go, in good order or not.

use std::collections::HashSet;
use std::time::Instant;

use super::hands::{drained, ids, numbered, over, publish, read, take, taken, tried};
use super::{Harness, message};

pub(super) async fn what_was_not_acknowledged_comes_again_after_close(harness: Harness) {
    let messages: Vec<_> = numbered("message", 10).into_iter().map(|message| message.key("k")).collect();
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    let mut came = taken(&harness, &from, messages.len()).await;
    let left = came.split_off(4);
    for incoming in came {
        over(&harness, incoming).await;
    }
    from.close().await;
    drop(left);
    let from = harness.subscribe("reader");
    // The first four were acknowledged in their order: they are over, and `drained` demands that they do not come.
    let times = drained(&harness, &from, &messages[4..]).await;
    assert!(times.values().all(|times| *times == 1), "in quiet running nothing comes more often: {times:?}");
}

pub(super) async fn what_was_not_taken_comes_after_close(harness: Harness) {
    let messages: Vec<_> = numbered("message", 30).into_iter().map(|message| message.key("k")).collect();
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    for incoming in taken(&harness, &from, 7).await {
        over(&harness, incoming).await;
    }
    from.close().await;
    let from = harness.subscribe("reader");
    let came = taken(&harness, &from, messages.len() - 7).await;
    assert!(ids(&came).into_iter().eq(messages[7..].iter().map(|message| message.id)), "the order is another");
    for incoming in came {
        over(&harness, incoming).await;
    }
}

pub(super) async fn what_a_dead_member_held_goes_to_another(harness: Harness) {
    let messages = numbered("message", 10);
    publish(&harness, &messages).await;
    let (dying, other) = (harness.subscribe("reader"), harness.subscribe("reader"));
    let held = taken(&harness, &dying, 4).await;
    drop((held, dying));
    let times = drained(&harness, &other, &messages).await;
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}

pub(super) async fn closing_twice_does_no_harm(harness: Harness) {
    let (from, other) = (harness.subscribe("reader"), harness.subscribe("never-used"));
    let messages = numbered("message", 4);
    publish(&harness, &messages).await;
    let mut seen = HashSet::new();
    for incoming in taken(&harness, &from, 2).await {
        seen.insert(read(&incoming).id);
        over(&harness, incoming).await;
    }
    for from in [&from, &other, &from, &other] {
        tokio::time::timeout(harness.deadline(), from.close()).await.expect("close did not end");
    }
    // What comes after close may fail, but it ends, and it takes nothing away from others.
    for _ in 0..3 {
        assert!(tried(&harness, &from, 10).await.unwrap_or_default().is_empty(), "something came after close");
    }
    assert!(tokio::time::timeout(harness.deadline(), from.check()).await.is_ok(), "check did not end after close");
    let from = harness.subscribe("reader");
    let until = Instant::now() + harness.patience();
    while seen.len() < messages.len() {
        assert!(Instant::now() < until, "{} of {} came", seen.len(), messages.len());
        for incoming in take(&harness, &from, 10).await {
            assert!(seen.insert(read(&incoming).id), "{incoming:?}");
            over(&harness, incoming).await;
        }
    }
    let next = message("next");
    publish(&harness, std::slice::from_ref(&next)).await;
    drained(&harness, &from, &[next]).await;
}
