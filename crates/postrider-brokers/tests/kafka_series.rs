//! What stands behind a message of its key goes to a real Kafka at once, and none of it past one that is refused.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_log;
mod kafka_node;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kafka_log::{Found, read};
use kafka_node::{create_topic, node, noise};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, Outgoing};
use postrider_testkit::suites::broker::{message, outgoing, told};

/// Bytes of the largest request that a topic takes.
const LIMIT: usize = 4096;
/// The bound of a call; what is refused is told long before.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A topic of its own with one partition that takes requests up to [`LIMIT`], and a broker with a further option.
async fn place(topic: &str, (name, value): (&str, &str)) -> Option<(&'static str, Arc<dyn Broker>)> {
    let node = node("a series over Kafka").await?;
    create_topic(&node.address, topic, 1, &[("max.message.bytes", &LIMIT.to_string())]).await;
    let config = BrokerConfig::new(format!("kafka://{}?timeout=20s", node.address)).option(name, value);
    Some((&node.address, open(&config).unwrap()))
}

/// Every message in a request of its own, so that each is refused alone.
const EACH_ALONE: (&str, &str) = ("producer.batch.num.messages", "1");

/// Messages of one key; one of the name `large` is larger than the topic takes.
fn of_key(topic: &str, key: &str, names: &[String]) -> Vec<Outgoing> {
    let one = |name: &String| {
        let payload = if name == "large" { noise(2 * LIMIT) } else { name.clone().into_bytes() };
        outgoing(message(payload).key(key), &Destination::new(topic))
    };
    names.iter().map(one).collect()
}

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| number.to_string()).collect()
}

/// What the topic has of a key.
async fn stored(address: &str, topic: &str, key: &str) -> Vec<String> {
    let found = read(address, topic).await;
    found.iter().filter(|record| record.key.as_deref() == Some(key)).map(Found::text).collect()
}

async fn refuses_one_and_stores_nothing_behind_it(topic: &str, before: usize) {
    let Some((address, broker)) = place(topic, EACH_ALONE).await else { return };
    let batch = [names(0, before), vec!["large".to_owned()], names(before, before + 40)].concat();
    let began = Instant::now();
    let results = broker.publish(&of_key(topic, "k", &batch)).await;
    let took = began.elapsed();
    let expected = [vec!["ok"; before], vec!["rejected"], vec!["-"; 40]].concat();
    assert_eq!(told(&results), expected);
    assert_eq!(stored(address, topic, "k").await, names(0, before));
    assert!(took < TIMEOUT / 2, "it took {took:?} to tell of a refusal");
    // What was refused is a dead letter; the key goes on.
    let results = broker.publish(&of_key(topic, "k", &names(before, before + 40))).await;
    assert_eq!(told(&results), vec!["ok"; 40]);
    assert_eq!(stored(address, topic, "k").await, names(0, before + 40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_behind_a_refused_message_is_stored_where_the_producer_is_known() {
    refuses_one_and_stores_nothing_behind_it("known", 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_behind_a_refused_message_is_stored_where_the_producer_is_new() {
    refuses_one_and_stores_nothing_behind_it("new", 1).await;
}

/// Its producer ends in the midst of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_beside_one_that_is_refused_is_accepted_all_the_same() {
    let Some((address, broker)) = place("beside", EACH_ALONE).await else { return };
    for round in 0..5 {
        let (refused, good) = (format!("refused {round}"), format!("good {round}"));
        let batch = [names(0, 20), vec!["large".to_owned()], names(20, 40)].concat();
        let batches = (of_key("beside", &refused, &batch), of_key("beside", &good, &names(0, 400)));
        let began = Instant::now();
        let results = tokio::join!(broker.publish(&batches.0), broker.publish(&batches.1));
        let took = began.elapsed();
        assert_eq!(told(&results.0), [vec!["ok"; 20], vec!["rejected"], vec!["-"; 20]].concat());
        assert_eq!(told(&results.1), vec!["ok"; 400]);
        let mut found = stored(address, "beside", &good).await;
        found.dedup();
        assert_eq!(found, names(0, 400));
        assert!(took < TIMEOUT / 2, "it took {took:?}");
    }
}

/// The client puts more into a request than the topic takes: no message is to blame for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_too_large_only_together_are_accepted() {
    let Some((address, broker)) = place("together", ("compression", "none")).await else { return };
    let padded = |name: &String| format!("{name}{}", " ".repeat(300));
    let batch: Vec<String> = names(0, 60).iter().map(padded).collect();
    for key in ["a", "b"] {
        let began = Instant::now();
        let results = broker.publish(&of_key("together", key, &batch)).await;
        assert_eq!(told(&results), vec!["ok"; 60]);
        assert_eq!(stored(address, "together", key).await, batch);
        assert!(began.elapsed() < TIMEOUT / 2, "it took {:?}", began.elapsed());
    }
}
