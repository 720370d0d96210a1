//! Faults.

use std::time::{Duration, Instant};

use postrider_core::{ErrorKind, Isolation, Message, OrderInBatch, Outgoing, Published};

use super::cases::{accepted, call, of, publish};
use super::{Harness, message, outgoing};

/// Demands that every result is a failure of a destination that is away.
fn away(results: &[Published]) {
    for result in results {
        match result {
            Published::NotSent => {}
            Published::Failed(error) => {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Unknown), "{kind}: {error}");
            }
            Published::Accepted(_) => panic!("accepted by a broker that is away"),
        }
    }
    assert!(results.iter().any(|result| matches!(result, Published::Failed(_))), "nobody says what failed");
}

pub(super) async fn an_unreachable_broker_is_never_accepted_and_never_hangs(harness: Harness) {
    // Once while a connection stands, and once when it is known to be lost.
    accepted(&harness, vec![message("before")]).await;
    harness.stop().await;
    for _ in 0..2 {
        away(&publish(&harness, vec![message("lost").key("a"), message("lost too").key("a"), message("x")]).await);
    }
}

pub(super) async fn check_of_an_unreachable_broker_fails_with_what_to_do(harness: Harness) {
    harness.stop().await;
    let destinations = [harness.destination()];
    let broker = harness.broker();
    let check = tokio::time::timeout(harness.deadline(), broker.check(&destinations));
    let error = check.await.expect("check did not end").expect_err("check of a broker that is away succeeded");
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Config), "{error}");
}

pub(super) async fn it_goes_on_by_itself_when_the_receiver_is_back(harness: Harness) {
    accepted(&harness, vec![message("before")]).await;
    harness.stop().await;
    let again = message("again").key("k");
    away(&publish(&harness, vec![again.clone()]).await);
    harness.start().await;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match &publish(&harness, vec![again.clone()]).await[..] {
            [Published::Accepted(_)] => break,
            other => assert!(Instant::now() < until, "not accepted after its return: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let received = harness.received().await;
    assert!(!of(&received, &again).is_empty(), "the message did not arrive");
    assert_eq!(received[0].payload, "before");
}

pub(super) async fn a_message_that_is_too_large_is_rejected_alone(harness: Harness) {
    let (before, large, after) = (message("before").key("a"), harness.oversize().key("b"), message("after").key("c"));
    let results = publish(&harness, vec![before.clone(), large.clone(), after.clone()]).await;
    match &results[..] {
        [Published::Accepted(_), Published::Failed(error), Published::Accepted(_)] => {
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        }
        other => panic!("expected the large one alone to fail, found {other:?}"),
    }
    let received = harness.received().await;
    let arrived = [&before, &large, &after].map(|message| of(&received, message).len());
    assert_eq!(arrived, [1, 0, 1]);
}

pub(super) async fn nothing_of_a_key_is_accepted_after_its_failure(harness: Harness) {
    let broker = harness.broker();
    assert_eq!(broker.profile().order, OrderInBatch::Kept, "the profile keeps no order: list the case as excluded");
    let [first, bad, second, third] = ["first", "bad", "second", "third"].map(|text| message(text).key("hot"));
    let other = message("other").key("cold");
    let bad = harness.refused(bad).await;
    // One call, whatever the profile's limit: a batch that is allowed may hold all of them.
    let messages: [&Message; 5] = [&first, &bad, &second, &other, &third];
    let batch: Vec<Outgoing> =
        messages.iter().map(|message| outgoing((*message).clone(), &harness.destination())).collect();
    let results = call(&harness, &broker, &batch).await;
    assert!(matches!(results[1], Published::Failed(_)), "{results:?}");
    for late in [2, 4] {
        assert!(!matches!(results[late], Published::Accepted(_)), "accepted after a failure of its key: {results:?}");
    }
    if broker.profile().isolation == Isolation::PerMessage {
        assert!(matches!(results[0], Published::Accepted(_)), "{results:?}");
        assert!(matches!(results[3], Published::Accepted(_)), "{results:?}");
    }
    let received = harness.received().await;
    for late in [&bad, &second, &third] {
        assert!(of(&received, late).is_empty(), "arrived after a failure of its key");
    }
}

pub(super) async fn publishing_to_a_missing_destination_is_a_config_error(harness: Harness) {
    let (broker, destination) = harness.missing().await;
    match &call(&harness, &broker, &[outgoing(message("nowhere"), &destination)]).await[..] {
        [Published::Failed(error)] => assert_eq!(error.kind(), ErrorKind::Config, "{error}"),
        other => panic!("expected a failure, found {other:?}"),
    }
}

pub(super) async fn check_finds_a_missing_destination(harness: Harness) {
    let (broker, destination) = harness.missing().await;
    let error = broker.check(std::slice::from_ref(&destination)).await.expect_err("check found what does not exist");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

pub(super) async fn nothing_secret_is_shown(harness: Harness) {
    const CANARY: &str = "canary-in-the-payload";
    let secret = harness.refused(message(CANARY).header("x-secret", CANARY)).await;
    let mut shown = format!("{:?}", harness.broker());
    shown.push_str(&format!("{:?}", publish(&harness, vec![secret.clone()]).await));
    harness.stop().await;
    shown.push_str(&format!("{:?}", publish(&harness, vec![secret]).await));
    if let Err(error) = harness.broker().check(&[harness.destination()]).await {
        shown.push_str(&format!("{error} {error:?}"));
    }
    assert!(!shown.contains(CANARY), "a payload or header is shown: {shown}");
    if let Some(credential) = harness.secret() {
        assert!(!shown.contains(&credential), "a credential is shown");
    }
}
