//! What stands in a topic, read by a consumer that knows nothing of the relay.
#![allow(dead_code, reason = "each program uses what it needs")]

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// A record as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<String>,
    /// Null is none.
    pub payload: Option<Vec<u8>>,
    pub timestamp: Option<i64>,
    pub headers: Vec<(String, String)>,
}

impl Found {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.payload.as_deref().unwrap_or_default()).into_owned()
    }
}

/// Waits until every transaction in a topic is ended, in each of its partitions.
pub async fn transactions_are_over(servers: &str, topic: &str) {
    let (servers, topic) = (servers.to_owned(), topic.to_owned());
    let waiting = move || {
        let committed = consumer(&servers, "read_committed");
        no_transaction_is_open(&committed, &servers, &topic, &partitions(&committed, &topic));
    };
    tokio::task::spawn_blocking(waiting).await.unwrap();
}

/// Everything in a topic that is committed, partition by partition, from its beginning to its end.
pub async fn read(servers: &str, topic: &str) -> Vec<Found> {
    let (servers, topic) = (servers.to_owned(), topic.to_owned());
    tokio::task::spawn_blocking(move || read_blocking(&servers, &topic)).await.unwrap()
}

fn consumer(servers: &str, isolation: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("isolation.level", isolation)
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "50")
        .set("fetch.message.max.bytes", "104857600")
        .set("receive.message.max.bytes", "204857600")
        .create()
        .unwrap()
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> Vec<i32> {
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(20)).unwrap();
    metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect()
}

/// Waits until no transaction is open in any partition: a reader of what is committed takes the first record of an open one
/// for the end. After a crash the server ends what it left open by itself, a while later.
fn no_transaction_is_open(committed: &BaseConsumer, servers: &str, topic: &str, partitions: &[i32]) {
    let all = consumer(servers, "read_uncommitted");
    let end = |consumer: &BaseConsumer, partition: i32| {
        consumer.fetch_watermarks(topic, partition, Duration::from_secs(20)).map(|(_, end)| end)
    };
    let until = Instant::now() + Duration::from_secs(90);
    loop {
        let ends: Vec<_> = partitions.iter().map(|one| (one, end(&all, *one), end(committed, *one))).collect();
        if ends.iter().all(|(_, last, stable)| last.is_ok() && last == stable) {
            break;
        }
        assert!(
            Instant::now() < until,
            "a transaction stays open in {topic} (partition, end, end of what is stable): {ends:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn read_blocking(servers: &str, topic: &str) -> Vec<Found> {
    let consumer = consumer(servers, "read_committed");
    let partitions = partitions(&consumer, topic);
    no_transaction_is_open(&consumer, servers, topic, &partitions);
    let mut list = TopicPartitionList::new();
    for partition in &partitions {
        list.add_partition_offset(topic, *partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut found, mut ended) = (Vec::new(), std::collections::BTreeSet::new());
    let until = Instant::now() + Duration::from_secs(60);
    while ended.len() < partitions.len() {
        assert!(Instant::now() < until, "the topic {topic} could not be read to its end: {} found", found.len());
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(record)) => found.push(take(&record)),
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            Some(Err(_)) | None => {}
        }
    }
    found.sort_by_key(|record| (record.partition, record.offset));
    found
}

fn take(record: &rdkafka::message::BorrowedMessage<'_>) -> Found {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = record.headers().map(|headers| {
        let one = |header: rdkafka::message::Header<'_, &[u8]>| {
            (header.key.to_owned(), header.value.map(text).unwrap_or_default())
        };
        headers.iter().map(one).collect()
    });
    Found {
        partition: record.partition(),
        offset: record.offset(),
        key: record.key().map(text),
        payload: record.payload().map(<[u8]>::to_vec),
        timestamp: record.timestamp().to_millis(),
        headers: headers.unwrap_or_default(),
    }
}
