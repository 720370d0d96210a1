//! What stands behind a message of its key goes to a real Kafka at once, and none of it past one that is refused.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_log;
mod kafka_node;

use std::sync::Arc;

use kafka_log::read;
use kafka_node::{create_topic, node, noise};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, Outgoing, Published};
use postrider_testkit::suites::broker::{message, outgoing};

/// Bytes of the largest request that a topic takes, with one of which a message is refused.
const LIMIT: usize = 4096;

/// A broker whose every message goes in a request of its own, so that each is refused alone, and a topic of its own.
async fn place(topic: &str) -> Option<(&'static str, Arc<dyn Broker>)> {
    let node = node("a series over Kafka").await?;
    create_topic(&node.address, topic, 1, &[("max.message.bytes", &LIMIT.to_string())]).await;
    let config = BrokerConfig::new(format!("kafka://{}?timeout=20s", node.address));
    Some((&node.address, open(&config.option("producer.batch.num.messages", "1")).unwrap()))
}

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

fn told(results: &[Published]) -> Vec<&'static str> {
    let one = |result: &Published| match result {
        Published::Accepted(_) => "ok",
        Published::Failed(error) => error.kind().as_str(),
        Published::NotSent => "-",
    };
    results.iter().map(one).collect()
}

async fn refuses_one_and_stores_nothing_behind_it(topic: &str, before: usize) {
    let Some((address, broker)) = place(topic).await else { return };
    let batch = [names(0, before), vec!["large".to_owned()], names(before, before + 40)].concat();
    let results = broker.publish(&of_key(topic, "k", &batch)).await;
    let expected = [vec!["ok"; before], vec!["rejected"], vec!["-"; 40]].concat();
    assert_eq!(told(&results), expected);
    let stored: Vec<String> = read(address, topic).await.iter().map(kafka_log::Found::text).collect();
    assert_eq!(stored, names(0, before));
    // What was refused is a dead letter; the key goes on.
    let results = broker.publish(&of_key(topic, "k", &names(before, before + 40))).await;
    assert_eq!(told(&results), vec!["ok"; 40]);
    let stored: Vec<String> = read(address, topic).await.iter().map(kafka_log::Found::text).collect();
    assert_eq!(stored, names(0, before + 40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_behind_a_refused_message_is_stored_where_the_producer_is_known() {
    refuses_one_and_stores_nothing_behind_it("known", 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_behind_a_refused_message_is_stored_where_the_producer_is_new() {
    refuses_one_and_stores_nothing_behind_it("new", 1).await;
}
