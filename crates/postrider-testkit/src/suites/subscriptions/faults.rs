//! Faults, and what is said of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Error, ErrorKind, Level, Subscription};

use super::hands::{at_most, drained, drained_among, numbered, over, publish, read, take, taken, tried};
use super::{Foreign, Harness, message};

/// Takes until it fails, each time within the deadline, and gives the error. What came before it, is dropped.
async fn failing(harness: &Harness, from: &Arc<dyn Subscription>) -> Error {
    let until = Instant::now() + harness.patience();
    loop {
        match tried(harness, from, 10).await {
            Ok(_) => assert!(Instant::now() < until, "no take of a broker that is away failed"),
            Err(error) => return error,
        }
    }
}

/// Demands that an error is of a broker that is away.
fn away(error: &Error) {
    let kinds = [ErrorKind::Unavailable, ErrorKind::Config, ErrorKind::Throttled];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
}

pub(super) async fn a_broker_that_is_away_fails_and_comes_back_by_itself(harness: Harness) {
    let before = numbered("before", 20);
    publish(&harness, &before).await;
    let from = harness.subscribe("reader");
    let mut left = before.clone();
    for incoming in taken(&harness, &from, 5).await {
        left.retain(|message| message.id != read(&incoming).id);
        over(&harness, incoming).await;
    }
    harness.stop().await;
    away(&failing(&harness, &from).await);
    away(&failing(&harness, &from).await);
    harness.start().await;
    let after = numbered("after", 5);
    publish(&harness, &after).await;
    left.extend(after);
    // What was over may come again where the broker went before it kept that: it is a repeat then.
    drained_among(&harness, &from, &left, &before).await;
}

pub(super) async fn a_broker_that_is_away_at_the_start_is_waited_for(harness: Harness) {
    let messages = numbered("message", 3);
    publish(&harness, &messages).await;
    harness.stop().await;
    let from = harness.subscribe("reader");
    away(&failing(&harness, &from).await);
    harness.start().await;
    drained(&harness, &from, &messages).await;
}

pub(super) async fn a_receipt_ends_in_time_while_the_broker_is_away(harness: Harness) {
    let messages = numbered("message", 3);
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    let mut came = taken(&harness, &from, 3).await;
    let [one, two, three] = [came.remove(0), came.remove(0), came.remove(0)];
    let kept = read(&two).clone();
    harness.stop().await;
    // The first, before which nothing is left: a broker that keeps one position has to be told of it now. It may have nothing
    // to be asked for when work goes on, or something is given back.
    let acknowledged = tokio::time::timeout(harness.deadline(), one.receipt.acknowledge()).await;
    let extended = tokio::time::timeout(harness.deadline(), two.receipt.extend()).await;
    let released = tokio::time::timeout(harness.deadline(), three.receipt.release()).await;
    let error = acknowledged.expect("acknowledge did not end").expect_err("it was recorded by a broker that is away");
    let kinds = [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Fenced];
    for error in
        [Some(error), extended.expect("extend did not end").err(), released.expect("release did not end").err()]
    {
        assert!(error.as_ref().is_none_or(|error| kinds.contains(&error.kind())), "{error:?}");
    }
    drop(two);
    harness.start().await;
    // Of what nobody said that it is over nothing is lost; what was said in vain may have been heard after all.
    let next = message("next");
    publish(&harness, std::slice::from_ref(&next)).await;
    drained_among(&harness, &from, &[kept, next], &messages).await;
}

pub(super) async fn connections_that_are_cut_lose_nothing(harness: Harness) {
    let messages: Vec<_> =
        numbered("message", 120).into_iter().enumerate().map(|(n, m)| m.key(format!("key {}", n % 7))).collect();
    publish(&harness, &messages).await;
    let from = harness.subscribe("reader");
    let cutting = {
        let harness = Arc::clone(&harness);
        tokio::spawn(async move {
            for n in 1..=6_u64 {
                tokio::time::sleep(Duration::from_millis(40 * n)).await;
                harness.cut().await;
            }
        })
    };
    drained(&harness, &from, &messages).await;
    cutting.await.expect("the connections are cut");
    let last = numbered("last", 3);
    publish(&harness, &last).await;
    drained_among(&harness, &from, &last, &messages).await;
}

pub(super) async fn check_is_content_with_a_working_place_and_takes_nothing(harness: Harness) {
    let from = harness.subscribe("reader");
    let checked = || async {
        let check = tokio::time::timeout(harness.deadline(), from.check()).await;
        let findings = check.expect("check did not end").unwrap_or_else(|error| panic!("check failed: {error}"));
        assert!(findings.iter().all(|finding| finding.level != Level::Failure), "{findings:?}");
    };
    checked().await;
    let messages = numbered("message", 3);
    publish(&harness, &messages).await;
    checked().await;
    let times = drained(&harness, &from, &messages).await;
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    checked().await;
}

pub(super) async fn check_of_a_broker_that_is_away_fails(harness: Harness) {
    let from = harness.subscribe("reader");
    assert!(take(&harness, &from, 1).await.is_empty());
    harness.stop().await;
    for from in [&from, &harness.subscribe("reader")] {
        let check = tokio::time::timeout(harness.deadline(), from.check()).await;
        away(&check.expect("check did not end").expect_err("check of a broker that is away succeeded"));
    }
}

pub(super) async fn what_is_not_there_is_a_config_error(harness: Harness) {
    let missing = harness.missing();
    let check = tokio::time::timeout(harness.deadline(), missing.check()).await;
    let error = check.expect("check did not end").expect_err("check found what does not exist");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = failing(&harness, &missing).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

pub(super) async fn nothing_secret_is_shown(harness: Harness) {
    const CANARY: &str = "canary-in-the-payload";
    let from = harness.subscribe("reader");
    publish(&harness, &[message(CANARY).header("x-secret", CANARY)]).await;
    harness.publish_foreign(vec![Foreign::new(CANARY).header("postrider-id", "7").header("x-secret", CANARY)]).await;
    let mut shown = format!("{from:?}");
    let mut receipts = Vec::new();
    for incoming in taken(&harness, &from, 2).await {
        shown.push_str(&format!("{:?} {}", incoming.receipt, incoming.place));
        if let Err(error) = &incoming.message {
            shown.push_str(&format!("{error} {error:?}"));
        }
        receipts.push(incoming.receipt);
    }
    shown.push_str(&format!("{from:?} {:?}", from.check().await));
    harness.stop().await;
    for receipt in receipts {
        shown.push_str(&format!("{:?}", tokio::time::timeout(harness.deadline(), receipt.acknowledge()).await));
    }
    let error = failing(&harness, &from).await;
    shown.push_str(&format!("{error} {error:?} {from:?}"));
    shown.push_str(&format!("{:?}", from.check().await));
    shown.push_str(&format!("{:?}", tokio::time::timeout(harness.deadline(), from.take(at_most(1))).await));
    assert!(!shown.contains(CANARY), "a payload or header is shown: {shown}");
    if let Some(credential) = harness.secret() {
        assert!(!shown.contains(&credential), "a credential is shown");
    }
}
