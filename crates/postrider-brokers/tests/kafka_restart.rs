//! A real Kafka is killed and started again while messages are on their way.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_log;
mod kafka_node;

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, ErrorKind, Lane, Outgoing, Published, Term};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::kafka::KafkaServer;
use postrider_testkit::servers::process::Signal;
use postrider_testkit::suites::broker::{message, outgoing};
use tokio::sync::watch;

const KEYS: usize = 6;
/// Messages of each key that are published together.
const ROUND: usize = 10;

/// A node of this test alone; none where there is no Kafka, which is said.
async fn node() -> Option<KafkaServer> {
    installed("kafka that is killed", KafkaServer::start().await)
}

fn numbered(topic: &str, from: usize, to: usize) -> Vec<Outgoing> {
    let one = |number: usize, key: usize| {
        let outgoing = outgoing(message(format!("{number}")).key(format!("key {key}")), &Destination::new(topic));
        Outgoing { lane: Lane(u16::try_from(key % 3).unwrap()), term: Term(1), ..outgoing }
    };
    (from..to).flat_map(|number| (0..KEYS).map(move |key| one(number, key))).collect()
}

/// Publishes as the relay does, for so long and for as long as somebody asks for what was accepted of each key, which it
/// returns.
///
/// With transactions, a Kafka that is killed before it wrote the marker of a commit that it had acknowledged can leave that
/// out when it starts again, and the next transaction of the lane in that partition shows both (docs/operating.md, Kafka).
/// Each round has every key, and so every partition that a lane writes to.
async fn publish_for(broker: &Arc<dyn Broker>, topic: &str, time: Duration, accepted: &watch::Sender<usize>) -> usize {
    let (until, mut next) = (Instant::now() + time, 0);
    while Instant::now() < until || !accepted.is_closed() {
        let mut left = numbered(topic, next, next + ROUND);
        next += ROUND;
        let patience = Instant::now() + Duration::from_secs(60);
        while !left.is_empty() {
            assert!(Instant::now() < patience, "never accepted");
            let results = broker.publish(&left).await;
            assert_eq!(results.len(), left.len());
            for result in &results {
                if let Published::Failed(error) = result {
                    assert!(matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable), "{error}");
                }
            }
            let pairs = left.into_iter().zip(results);
            left = pairs.filter(|(_, result)| !matches!(result, Published::Accepted(_))).map(|(one, _)| one).collect();
        }
        accepted.send_replace(next);
    }
    next
}

/// Nothing is lost, and the first arrivals of each key are in the order in which they were sent.
async fn loses_and_reorders_nothing(further: &[(&str, &str)]) {
    let Some(mut server) = node().await else { return };
    let (address, topic) = (server.address(), "orders");
    kafka_node::create_topic(&address, topic, 3, &[]).await;
    let mut config = BrokerConfig::new(format!("kafka://{address}?timeout=2s"));
    for (name, value) in further {
        config = config.option(*name, *value);
    }
    let broker = open(&config).unwrap();
    let (told, mut accepted) = watch::channel(0);
    let publishing = tokio::spawn(async move { publish_for(&broker, topic, Duration::from_secs(20), &told).await });
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.kill9();
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.restart().await.unwrap();
    }
    // Frozen for longer than the timeout: answers that come too late.
    server.signal(Signal::Stop);
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.signal(Signal::Continue);
    // The round under way may have begun before the last kill; the one after it did not.
    let now = *accepted.borrow();
    accepted.wait_for(|accepted| *accepted >= now + 2 * ROUND).await.unwrap();
    drop(accepted);
    let each = publishing.await.unwrap();
    let found = kafka_log::read(&address, topic).await;
    for key in 0..KEYS {
        let (key, mut next) = (format!("key {key}"), 0);
        for record in found.iter().filter(|record| record.key.as_deref() == Some(&key)) {
            let number: usize = record.text().parse().unwrap();
            assert!(number <= next, "{key}: {number} came before {next}");
            next = next.max(number + 1);
        }
        assert_eq!(next, each, "{key} is not complete");
    }
    println!("{each} of each of {KEYS} keys, {} repeats", found.len() - each * KEYS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kafka_that_is_killed_and_frozen_loses_and_reorders_nothing() {
    loses_and_reorders_nothing(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kafka_that_is_killed_and_frozen_loses_and_reorders_nothing_of_transactions() {
    loses_and_reorders_nothing(&[("transactional_id_prefix", "restart")]).await;
}
