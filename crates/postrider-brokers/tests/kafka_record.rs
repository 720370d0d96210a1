//! What stands in a real Kafka after a message was published: partition, key, payload, timestamp, headers.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_log;
mod kafka_node;

use std::sync::Arc;

use kafka_log::{Found, read};
use kafka_node::{create_topic, node};
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, Error, ErrorKind, Message, Outgoing, Published};
use postrider_testkit::suites::broker::{message, outgoing};

/// A broker and a topic of its own; none where there is no Kafka, which is said.
async fn place(topic: &str, partitions: i32, settings: &[(&str, &str)]) -> Option<(&'static str, Arc<dyn Broker>)> {
    let node = node("records in Kafka").await?;
    create_topic(&node.address, topic, partitions, settings).await;
    Some((&node.address, open(&BrokerConfig::new(format!("kafka://{}?timeout=10s", node.address))).unwrap()))
}

fn to(topic: &str, message: Message) -> Outgoing {
    outgoing(message, &Destination::new(topic))
}

async fn accepted(broker: &Arc<dyn Broker>, batch: Vec<Outgoing>) {
    let results = broker.publish(&batch).await;
    assert!(results.iter().all(|result| matches!(result, Published::Accepted(_))), "{results:?}");
}

async fn error(broker: &Arc<dyn Broker>, outgoing: Outgoing) -> Error {
    match broker.publish(&[outgoing]).await.remove(0) {
        Published::Failed(error) => error,
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_go_to_the_partitions_to_which_the_java_producer_sends_them() {
    const PARTITIONS: i32 = 7;
    let Some((address, broker)) = place("java", PARTITIONS, &[]).await else { return };
    // org.apache.kafka.common.utils.UtilsTest#testMurmur2; a partition is (hash & 0x7fffffff) % partitions.
    let vectors = [
        ("21", -973_932_308_i32),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ];
    accepted(&broker, vectors.map(|(key, _)| to("java", message("x").key(key))).into()).await;
    let found = read(address, "java").await;
    for (key, hash) in vectors {
        let record = found.iter().find(|record| record.key.as_deref() == Some(key)).unwrap();
        assert_eq!(record.partition, (hash & i32::MAX) % PARTITIONS, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_a_key_has_none_on_kafka_and_an_empty_payload_is_not_null() {
    let Some((address, broker)) = place("keyless", 1, &[]).await else { return };
    accepted(&broker, vec![to("keyless", message("")), to("keyless", message("x").key("k"))]).await;
    let found = read(address, "keyless").await;
    let of = |text: &str| found.iter().find(|record| record.text() == text).unwrap();
    assert_eq!((of("").key.as_deref(), of("").payload.as_deref()), (None, Some(&[][..])));
    assert_eq!(of("x").key.as_deref(), Some("k"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_and_timestamp_are_those_that_the_message_asks_for() {
    let Some((address, broker)) = place("asked", 3, &[]).await else { return };
    let asked = message("x").key("21").attribute("kafka.partition", "2").attribute("kafka.timestamp", "1767225600123");
    accepted(&broker, vec![to("asked", asked)]).await;
    let found = read(address, "asked").await;
    assert_eq!((found[0].partition, found[0].timestamp), (2, Some(1_767_225_600_123)));
    let beyond = error(&broker, to("asked", message("x").attribute("kafka.partition", "3"))).await;
    assert_eq!(beyond.kind(), ErrorKind::Rejected, "{beyond}");
    assert!(beyond.to_string().contains("from 0 to 2"), "{beyond}");
    let word = error(&broker, to("asked", message("x").attribute("kafka.partition", "two"))).await;
    assert_eq!(word.kind(), ErrorKind::Rejected, "{word}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tombstone_is_a_null_under_its_key_with_its_headers() {
    let settings = [("cleanup.policy", "compact")];
    let Some((address, broker)) = place("compacted", 1, &settings).await else { return };
    let tombstone = message("").key("customer 7").attribute("kafka.tombstone", "true");
    let id = tombstone.id.to_string();
    accepted(&broker, vec![to("compacted", message("x").key("customer 7")), to("compacted", tombstone)]).await;
    let found: Vec<Found> = read(address, "compacted").await;
    assert_eq!(found[1].payload, None);
    assert_eq!((found[1].key.as_deref(), found[1].header("postrider-id")), (Some("customer 7"), Some(id.as_str())));
    let full = error(&broker, to("compacted", message("x").key("k").attribute("kafka.tombstone", "true"))).await;
    assert_eq!(full.kind(), ErrorKind::Rejected, "{full}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compacted_topic_refuses_what_has_no_key_and_nothing_beside_it() {
    let settings = [("cleanup.policy", "compact")];
    let Some((address, broker)) = place("keyed-only", 1, &settings).await else { return };
    let keyed = |n: i32| to("keyed-only", message(format!("{n}")).key(n));
    let batch = [keyed(0), keyed(1), to("keyed-only", message("no key")), keyed(2), keyed(3)];
    let results = broker.publish(&batch).await;
    for (index, result) in results.iter().enumerate() {
        match result {
            Published::Failed(error) if index == 2 => {
                assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                assert!(error.to_string().contains("without a key"), "{error}");
            }
            Published::Accepted(_) if index != 2 => {}
            other => panic!("{index}: {other:?}"),
        }
    }
    assert_eq!(read(address, "keyed-only").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_small_messages_pass_a_topic_whose_limit_is_smaller_than_a_full_request() {
    let settings = [("max.message.bytes", "3000")];
    let Some((address, broker)) = place("narrow", 1, &settings).await else { return };
    let fits = |n: i32| to("narrow", message(kafka_node::noise(1_000)).key(n));
    let mut batch: Vec<Outgoing> = (0..30).map(fits).collect();
    batch.insert(10, to("narrow", message(kafka_node::noise(4_000)).key("large")));
    let results = broker.publish(&batch).await;
    for (index, result) in results.iter().enumerate() {
        match result {
            Published::Failed(error) if index == 10 => assert_eq!(error.kind(), ErrorKind::Rejected, "{error}"),
            Published::Accepted(_) if index != 10 => {}
            other => panic!("{index}: {other:?}"),
        }
    }
    assert_eq!(read(address, "narrow").await.len(), 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_compression_arrives() {
    let Some((address, _)) = place("compressed", 1, &[]).await else { return };
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let broker = open(&BrokerConfig::new(format!("kafka://{address}?compression={codec}"))).unwrap();
        let text = format!("{codec} {}", "x".repeat(5_000));
        accepted(&broker, vec![to("compressed", message(text.clone()))]).await;
        assert!(read(address, "compressed").await.iter().any(|record| record.text() == text), "{codec}");
    }
}
