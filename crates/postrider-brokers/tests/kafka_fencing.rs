//! What the broker fences, and what is a transaction: lanes with a transactional producer each, on a real Kafka.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_log;
mod kafka_node;

use std::sync::Arc;

use kafka_node::{create_topic, node, noise};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, ErrorKind, Lane, Outgoing, Published, Term};
use postrider_testkit::suites::broker::{message, outgoing};

/// Where the node is, for a test of this; none where there is no Kafka, which is said.
async fn address(what: &str) -> Option<&'static str> {
    Some(&node(what).await?.address)
}

fn relay(address: &str, prefix: &str) -> Arc<dyn Broker> {
    let config = BrokerConfig::new(format!("kafka://{address}?timeout=10s"));
    open(&config.option("transactional_id_prefix", prefix)).unwrap()
}

fn of(topic: &str, lane: u16, term: i64, key: &str, text: impl Into<Vec<u8>>) -> Outgoing {
    let outgoing = outgoing(message(text.into()).key(key), &Destination::new(topic));
    Outgoing { lane: Lane(lane), term: Term(term), ..outgoing }
}

async fn texts(address: &str, topic: &str) -> Vec<String> {
    kafka_log::read(address, topic).await.iter().map(kafka_log::Found::text).collect()
}

fn kind(result: &Published) -> Option<ErrorKind> {
    match result {
        Published::Failed(error) => Some(error.kind()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_lost_its_lane_is_fenced_by_the_broker_and_does_not_take_it_back() {
    let Some(address) = address("a relay fenced by Kafka").await else { return };
    create_topic(address, "fenced", 1, &[]).await;
    let (zombie, successor) = (relay(address, "fence"), relay(address, "fence"));
    let accepted = |results: &[Published]| assert!(matches!(results, [Published::Accepted(_)]), "{results:?}");
    accepted(&zombie.publish(&[of("fenced", 1, 1, "k", "first")]).await);
    accepted(&successor.publish(&[of("fenced", 1, 2, "k", "second")]).await);
    // Twice: it must not take the lane back by asking again.
    for _ in 0..2 {
        let results = zombie.publish(&[of("fenced", 1, 1, "k", "too late")]).await;
        assert_eq!(kind(&results[0]), Some(ErrorKind::Fenced), "{results:?}");
    }
    // Its other lanes are its own.
    accepted(&zombie.publish(&[of("fenced", 2, 1, "other", "third")]).await);
    accepted(&successor.publish(&[of("fenced", 1, 2, "k", "fourth")]).await);
    // The lane comes back to it under a new term.
    accepted(&zombie.publish(&[of("fenced", 1, 3, "k", "fifth")]).await);
    let results = successor.publish(&[of("fenced", 1, 2, "k", "too late")]).await;
    assert_eq!(kind(&results[0]), Some(ErrorKind::Fenced), "{results:?}");
    assert_eq!(texts(address, "fenced").await, ["first", "second", "third", "fourth", "fifth"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_leaves_out_what_is_refused_with_those_behind_it_of_its_key_and_commits_the_others() {
    let Some(address) = address("a relay fenced by Kafka").await else { return };
    create_topic(address, "limited", 1, &[("max.message.bytes", "20000")]).await;
    let broker = relay(address, "refuse");
    let large = noise(30_000);
    let batch = [
        of("limited", 1, 1, "a", "a1"),
        of("limited", 1, 1, "b", large),
        of("limited", 1, 1, "b", "b2"),
        of("nowhere", 1, 1, "c", "c1"),
        of("limited", 1, 1, "a", "a2"),
        of("limited", 2, 1, "d", "d1"),
    ];
    let results = broker.publish(&batch).await;
    assert!(matches!(results[0], Published::Accepted(_)), "{results:?}");
    assert_eq!(kind(&results[1]), Some(ErrorKind::Rejected), "{results:?}");
    assert!(matches!(results[2], Published::NotSent), "{results:?}");
    assert_eq!(kind(&results[3]), Some(ErrorKind::Config), "{results:?}");
    assert!(matches!(results[4], Published::Accepted(_)), "{results:?}");
    assert!(matches!(results[5], Published::Accepted(_)), "{results:?}");
    let mut found = texts(address, "limited").await;
    found.retain(|text| text != "d1");
    assert_eq!(found, ["a1", "a2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_goes_in_one_transaction_and_in_order() {
    let Some(address) = address("a relay fenced by Kafka").await else { return };
    create_topic(address, "hot", 3, &[]).await;
    let broker = relay(address, "hot");
    let batch: Vec<Outgoing> = (0..1000).map(|n| of("hot", 1, 1, "k", format!("{n}"))).collect();
    let results = broker.publish(&batch).await;
    assert!(results.iter().all(|result| matches!(result, Published::Accepted(_))), "{:?}", results.first());
    let expected: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    assert_eq!(texts(address, "hot").await, expected);
}
