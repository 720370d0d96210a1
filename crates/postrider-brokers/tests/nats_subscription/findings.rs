//! What check says.

use std::time::Duration;

use async_nats::jetstream::consumer::{Config, DeliverPolicy};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType};
use postrider_brokers::{SubscriptionConfig, subscribe};
use postrider_core::{ErrorKind, Finding, Level};

use crate::scene::{Scene, fit, orders, taken};

async fn scene(config: stream::Config) -> Scene {
    let scene = Scene::without_stream("").await;
    scene.context.create_stream(config).await.unwrap();
    scene
}

async fn findings(scene: &Scene) -> Vec<Finding> {
    let findings = scene.subscribe().check().await.unwrap();
    findings.into_iter().filter(|finding| !finding.found.contains(" can lose ")).collect()
}

/// The finding that tells this.
fn telling<'a>(findings: &'a [Finding], told: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.found.contains(told)).unwrap_or_else(|| panic!("{told}: {findings:?}"))
}

#[tokio::test]
async fn a_good_stream_and_a_good_consumer_warn_of_nothing() {
    let scene = scene(orders()).await;
    let before = findings(&scene).await;
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(telling(&before, "the first take makes it").level, Level::Good);
    scene.publish(&["x"]).await;
    taken(&scene.subscribe(), 1).await;
    assert_eq!(findings(&scene).await, []);
}

#[tokio::test]
async fn a_stream_that_can_lose_what_was_not_taken_is_told() {
    let weak = stream::Config {
        storage: StorageType::Memory,
        max_messages: 100,
        max_age: Duration::from_secs(3600),
        ..orders()
    };
    let found = findings(&scene(weak).await).await;
    assert_eq!(telling(&found, "in memory").level, Level::Warning);
    assert_eq!(telling(&found, "drops its oldest messages when it is full").level, Level::Warning);
    assert_eq!(telling(&found, "not taken within 3600s is dropped").level, Level::Good);
    let full = stream::Config { max_messages: 100, discard: DiscardPolicy::New, ..orders() };
    let found = findings(&scene(full).await).await;
    assert!(found.iter().all(|finding| finding.level == Level::Good), "{found:?}");
}

#[tokio::test]
async fn retentions_under_which_not_every_consumer_gets_everything_are_told() {
    let queue = scene(stream::Config { retention: RetentionPolicy::WorkQueue, ..orders() }).await;
    assert!(findings(&queue).await.iter().all(|finding| finding.level == Level::Good));
    let other = Config { durable_name: Some("other".into()), filter_subject: "orders.paid".into(), ..fit() };
    queue.make(other).await;
    assert_eq!(telling(&findings(&queue).await, "workqueue and it has 1 other consumer(s)").level, Level::Warning);
    // It can't be made beside one that has a part of its subjects.
    let error = crate::scene::failing(&queue.subscribe()).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("goes to one consumer"), "{error}");
    let interest = scene(stream::Config { retention: RetentionPolicy::Interest, ..orders() }).await;
    assert_eq!(telling(&findings(&interest).await, "before this consumer is made").level, Level::Warning);
    interest.make(fit()).await;
    assert!(findings(&interest).await.iter().all(|finding| !finding.found.contains("interest")));
}

#[tokio::test]
async fn a_consumer_that_was_made_otherwise_is_told() {
    let scene = scene(orders()).await;
    let other = Config {
        deliver_policy: DeliverPolicy::New,
        max_ack_pending: 10,
        inactive_threshold: Duration::from_secs(60),
        memory_storage: true,
        ..fit()
    };
    scene.make(other).await;
    let found = findings(&scene).await;
    assert_eq!(telling(&found, "its deliver_policy is new").level, Level::Good);
    for told in ["at most 10 messages, and the option max_ack_pending says 1000", "for 60s", "kept in memory"] {
        assert_eq!(telling(&found, told).level, Level::Warning);
    }
    assert_eq!(found.len(), 4, "{found:?}");
}

#[tokio::test]
async fn subjects_that_the_stream_has_in_part_or_not_at_all_are_told() {
    let scene = scene(stream::Config { subjects: vec!["orders.eu.>".into()], ..orders() }).await;
    let check = |from: &str| {
        let broker = scene.broker().option("stream", "ORDERS");
        let from = subscribe(&SubscriptionConfig::new(broker, "invoices", from)).unwrap();
        async move { from.check().await }
    };
    let found = check("orders.>").await.unwrap();
    assert_eq!(telling(&found, "only a part of orders.>").level, Level::Warning);
    let error = check("orders.us.placed").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("nothing of \"orders.us.placed\""), "{error}");
}

#[tokio::test]
async fn a_time_that_is_short_beside_an_answer_is_told() {
    let scene = scene(orders()).await;
    let broker = scene.broker().option("ack_wait", "1s").option("timeout", "5s");
    let from = subscribe(&SubscriptionConfig::new(broker, "invoices", "orders.>")).unwrap();
    assert_eq!(telling(&from.check().await.unwrap(), "given to another after 1s").level, Level::Warning);
}

#[tokio::test]
async fn a_consumer_that_is_paused_is_told_where_the_server_can_pause_one() {
    let scene = scene(orders()).await;
    scene.make(fit()).await;
    let until = serde_json::json!({ "pause_until": "2100-01-01T00:00:00Z" });
    let asked = scene.context.request("CONSUMER.PAUSE.ORDERS.invoices", &until).await;
    let _: serde_json::Value = match asked {
        Ok(answer) => answer,
        // A server before 2.11 knows no such question.
        Err(error) => {
            assert!(scene.is_older([2, 11, 0]), "{error}");
            return;
        }
    };
    assert_eq!(telling(&findings(&scene).await, "it is paused").level, Level::Warning);
    scene.publish(&["x"]).await;
    let from = scene.subscribe();
    assert!(crate::scene::take(&from, 1).await.unwrap().is_empty());
}
