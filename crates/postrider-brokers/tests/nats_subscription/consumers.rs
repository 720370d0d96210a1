//! The durable consumer: made, found, shared, and never changed.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, Config, DeliverPolicy};
use async_nats::jetstream::stream;
use postrider_brokers::{SubscriptionConfig, subscribe};
use postrider_core::ErrorKind;

use crate::scene::{Scene, failing, fit, orders, over, payloads, take, taken};

#[tokio::test]
async fn the_consumer_is_made_as_the_manual_says() {
    let scene = Scene::start().await;
    scene.publish(&["early"]).await;
    assert_eq!(scene.consumer().await, None);
    let from = scene.subscribe();
    assert_eq!(payloads(&taken(&from, 1).await), ["early"]);
    let made = scene.consumer().await.unwrap();
    assert_eq!((made.ack_policy, made.deliver_policy), (AckPolicy::Explicit, DeliverPolicy::All));
    assert_eq!((made.ack_wait, made.max_deliver, made.max_ack_pending), (Duration::from_secs(4), -1, 1000));
    assert_eq!((made.filter_subject.as_str(), made.deliver_subject), ("orders.>", None));
    assert_eq!(from.hold(), Some(Duration::from_secs(4)));
}

#[tokio::test]
async fn a_consumer_with_other_settings_is_refused_by_what_differs_and_left_alone() {
    let scene = Scene::start().await;
    scene.publish(&["kept"]).await;
    for (other, told) in [
        (Config { ack_policy: AckPolicy::All, ..fit() }, "its ack_policy is \"all\" and must be \"explicit\""),
        (Config { ack_wait: Duration::from_secs(9), ..fit() }, "its ack_wait is 9s, and the option ack_wait says 4s"),
        (Config { max_deliver: 3, ..fit() }, "no message more than 3 times"),
        (Config { headers_only: true, ..fit() }, "headers without payloads"),
        (
            Config { filter_subject: "orders.paid".into(), ..fit() },
            "it reads orders.paid, and here orders.> is to be read",
        ),
        (Config { deliver_subject: Some("push.here".into()), ..fit() }, "must be one that is pulled from"),
        (Config { max_deliver: 9, backoff: vec![Duration::from_secs(1)], ..fit() }, "it has a backoff"),
    ] {
        scene.make(other).await;
        let before = scene.consumer().await;
        let from = scene.subscribe();
        for error in [failing(&from).await, from.check().await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let text = error.to_string();
            assert!(text.contains(told) && text.contains("nats consumer edit"), "{text}");
        }
        assert_eq!(scene.consumer().await, before, "it was changed");
        scene.context.delete_consumer_from_stream("invoices", "ORDERS").await.unwrap();
    }
}

#[tokio::test]
async fn a_consumer_that_loses_nothing_is_used_as_it_is() {
    let scene = Scene::start().await;
    scene.publish(&["old"]).await;
    // In this stream, no filter and its only subject are the same.
    let chosen = Config {
        deliver_policy: DeliverPolicy::New,
        max_ack_pending: 7,
        description: Some("the operator's".into()),
        max_batch: 2,
        ..fit()
    };
    scene.make(chosen).await;
    let before = scene.consumer().await;
    let from = scene.subscribe();
    assert!(take(&from, 10).await.unwrap().is_empty());
    scene.publish(&["a", "b", "c", "d", "e"]).await;
    let mut came = Vec::new();
    while came.len() < 5 {
        let taken = take(&from, 100).await.unwrap();
        assert!(taken.len() <= 2, "its own bound of a request was not kept");
        came.extend(payloads(&taken));
        over(taken).await;
    }
    assert_eq!(came, ["a", "b", "c", "d", "e"]);
    assert_eq!(scene.consumer().await, before);
}

#[tokio::test]
async fn two_that_make_it_at_once_both_succeed_and_share_it() {
    let scene = Scene::start().await;
    for round in 0..20 {
        let name = format!("round-{round}");
        let all: Vec<_> = (0..4)
            .map(|_| subscribe(&SubscriptionConfig { consumer: name.clone(), ..scene.config() }).unwrap())
            .collect();
        // Connected before, so that all of them ask in the same moment.
        for from in &all {
            from.check().await.unwrap();
        }
        let (a, b, c, d) = tokio::join!(take(&all[0], 1), take(&all[1], 1), take(&all[2], 1), take(&all[3], 1));
        for taken in [a, b, c, d] {
            assert!(taken.unwrap().is_empty());
        }
    }
    let stream = scene.context.get_stream("ORDERS").await.unwrap();
    assert_eq!(stream.cached_info().state.consumer_count, 20);
}

#[tokio::test]
async fn several_subjects_are_read_by_one_consumer_where_the_server_can() {
    let scene = Scene::start().await;
    let config = SubscriptionConfig::new(scene.broker(), "invoices", "orders.paid").and_from("orders.placed.*");
    let from = subscribe(&config).unwrap();
    for (subject, payload) in [("orders.paid", "1"), ("orders.placed", "no"), ("orders.placed.eu", "2")] {
        scene.send(subject, async_nats::HeaderMap::new(), payload).await;
    }
    if scene.is_older([2, 10, 0]) {
        for error in [failing(&from).await, from.check().await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("needs a server of 2.10 or later"), "{error}");
        }
        assert_eq!(scene.consumer().await, None);
    } else {
        assert_eq!(payloads(&taken(&from, 2).await), ["1", "2"]);
        from.check().await.unwrap();
    }
}

#[tokio::test]
async fn the_stream_is_found_by_the_subjects_or_named() {
    let scene = Scene::start().await;
    let other = stream::Config { name: "OTHER".into(), subjects: vec!["other.>".into()], ..orders() };
    scene.context.create_stream(other).await.unwrap();
    let error = |from: &str, broker| {
        let from = subscribe(&SubscriptionConfig::new(broker, "invoices", from)).unwrap();
        async move {
            let error = failing(&from).await;
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            error.to_string()
        }
    };
    let text = error("nowhere", scene.broker()).await;
    assert!(text.contains("nats stream add"), "{text}");
    let text = error(">", scene.broker()).await;
    assert!(text.contains("ORDERS, OTHER") && text.contains("option stream"), "{text}");
    let text = error("orders.a", scene.broker().option("stream", "MISSING")).await;
    assert!(text.contains("nats stream add MISSING"), "{text}");
    scene.publish(&["here"]).await;
    let named = SubscriptionConfig::new(scene.broker().option("stream", "ORDERS"), "all", ">");
    assert_eq!(payloads(&taken(&subscribe(&named).unwrap(), 1).await), ["here"]);
}

#[tokio::test]
async fn where_the_consumer_is_full_takes_wait_without_hurry_until_something_is_over() {
    let scene = Scene::start().await;
    let broker = scene.broker().option("max_ack_pending", 3);
    let from = subscribe(&SubscriptionConfig::new(broker, "invoices", "orders.>")).unwrap();
    scene.publish(&["1", "2", "3", "4", "5"]).await;
    let held = taken(&from, 3).await;
    assert_eq!(payloads(&held), ["1", "2", "3"]);
    let began = Instant::now();
    assert!(take(&from, 10).await.unwrap().is_empty());
    assert!(began.elapsed() >= Duration::from_millis(500), "it did not wait");
    over(held).await;
    assert_eq!(payloads(&taken(&from, 2).await), ["4", "5"]);
}
