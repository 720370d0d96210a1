//! Members of a group of Kafka, what they take, and what the cluster has recorded of them.
#![allow(dead_code, reason = "each program uses what it needs")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_brokers::{BrokerConfig, SubscriptionConfig, subscribe};
use postrider_core::{ErrorKind, Incoming, Subscription};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// How long something that must happen may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A member of a group that reads a topic, with the shortest session that the server allows.
pub fn member(address: &str, group: &str, topic: &str) -> Arc<dyn Subscription> {
    member_with(address, group, topic, &[])
}

/// The same with further options.
pub fn member_with(address: &str, group: &str, topic: &str, options: &[(&str, &str)]) -> Arc<dyn Subscription> {
    let mut broker = BrokerConfig::new(format!("kafka://{address}")).option("session_timeout", "6s");
    for (name, value) in options {
        broker = broker.option(*name, *value);
    }
    subscribe(&SubscriptionConfig::new(broker, group, topic)).unwrap()
}

/// What one taking gives; a failure of the connection gives nothing.
pub async fn take(member: &Arc<dyn Subscription>, at_most: usize) -> Vec<Incoming> {
    match member.take(NonZeroUsize::new(at_most).unwrap()).await {
        Ok(taken) => {
            assert!(taken.len() <= at_most);
            taken
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Config), "{error}");
            Vec::new()
        }
    }
}

/// Takes until so many came.
pub async fn gather(member: &Arc<dyn Subscription>, how_many: usize) -> Vec<Incoming> {
    let (until, mut all) = (Instant::now() + PATIENCE, Vec::new());
    while all.len() < how_many {
        assert!(Instant::now() < until, "only {} of {how_many} messages came: {:?}", all.len(), places(&all));
        all.extend(take(member, how_many - all.len()).await);
    }
    all
}

/// Where messages lie.
pub fn places(all: &[Incoming]) -> Vec<String> {
    all.iter().map(|one| one.place.as_str().to_owned()).collect()
}

/// The payloads of messages.
pub fn texts(all: &[Incoming]) -> Vec<String> {
    all.iter().map(|one| String::from_utf8_lossy(&one.payload).into_owned()).collect()
}

/// What says that messages are over.
pub async fn acknowledge(all: Vec<Incoming>) {
    futures_util::future::join_all(all.into_iter().map(|one| one.receipt.acknowledge()))
        .await
        .into_iter()
        .for_each(|told| told.unwrap());
}

/// A producer that knows nothing of us.
pub fn producer(address: &str) -> FutureProducer {
    ClientConfig::new().set("bootstrap.servers", address).set("acks", "all").create().unwrap()
}

/// One record of another producer.
pub struct Sent<'s> {
    pub partition: i32,
    pub key: Option<&'s [u8]>,
    pub payload: Option<&'s [u8]>,
    pub headers: &'s [(&'s str, &'s [u8])],
}

/// Sends records, one after the other.
pub async fn send(address: &str, topic: &str, all: &[Sent<'_>]) {
    let producer = producer(address);
    for sent in all {
        let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(topic).partition(sent.partition);
        if !sent.headers.is_empty() {
            let add = |all: OwnedHeaders, (key, value): &(&str, &[u8])| all.insert(Header { key, value: Some(*value) });
            record = record.headers(sent.headers.iter().fold(OwnedHeaders::new(), add));
        }
        if let Some(key) = sent.key {
            record = record.key(key);
        }
        if let Some(payload) = sent.payload {
            record = record.payload(payload);
        }
        producer.send(record, PATIENCE).await.unwrap();
    }
}

/// Sends so many numbers to a partition, beginning with this one.
pub async fn send_numbers(address: &str, topic: &str, partition: i32, from: usize, to: usize) {
    let producer = producer(address);
    let texts: Vec<String> = (from..to).map(|number| number.to_string()).collect();
    let under_way = texts.iter().map(|text| {
        let record: FutureRecord<'_, (), str> = FutureRecord::to(topic).partition(partition).payload(text.as_str());
        producer.send(record, PATIENCE)
    });
    for sent in futures_util::future::join_all(under_way).await {
        sent.unwrap();
    }
}

/// The position that the cluster has recorded for a group; none where it has recorded none.
pub async fn recorded(address: &str, group: &str, topic: &str, partition: i32) -> Option<i64> {
    let (address, group, topic) = (address.to_owned(), group.to_owned(), topic.to_owned());
    let asked = move || {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", &address).set("group.id", &group).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(&topic, partition);
        let found = consumer.committed_offsets(list, Duration::from_secs(20)).unwrap();
        match found.find_partition(&topic, partition).unwrap().offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    };
    tokio::task::spawn_blocking(asked).await.unwrap()
}
