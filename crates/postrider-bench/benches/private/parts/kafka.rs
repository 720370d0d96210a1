//! A Kafka of our own, one node, a fresh topic for each run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_bench::load::Load;
use postrider_brokers::{BrokerConfig, open};
use postrider_core::Broker;
use postrider_testkit::servers::kafka::{KafkaServer, VERSION};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

/// Partitions of each topic.
const PARTITIONS: i32 = 8;
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Kafka {
    server: KafkaServer,
    topics: AtomicUsize,
}

impl Kafka {
    pub async fn start() -> Self {
        Self { server: KafkaServer::start().await.unwrap(), topics: AtomicUsize::new(0) }
    }

    /// What it is, for the page.
    pub fn note(&self) -> String {
        format!(
            "Kafka {VERSION}, one node with 512 MB of heap, topics of {PARTITIONS} partitions with one replica; acks=all, \
             idempotent, lz4."
        )
    }

    pub fn broker(&self) -> Arc<dyn Broker> {
        open(&BrokerConfig::new(format!("kafka://{}", self.server.address()))).unwrap()
    }

    /// The same load for a topic that nobody has written to.
    pub async fn onto_a_fresh_topic(&self, load: &Load) -> Load {
        let topic = format!("{}.{}", load.topic, self.topics.fetch_add(1, Ordering::Relaxed));
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", self.server.address()).create().unwrap();
        let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
        for created in admin.create_topics(&[new], &AdminOptions::new()).await.unwrap() {
            created.unwrap();
        }
        let is_there = || {
            let metadata = admin.inner().fetch_metadata(Some(topic.as_str()), PATIENCE).unwrap();
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            found.is_some_and(|found| {
                found.partitions().len() == usize::try_from(PARTITIONS).unwrap()
                    && found.partitions().iter().all(|partition| partition.leader() >= 0)
            })
        };
        while !is_there() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Load { topic, ..load.clone() }
    }

    /// The topic has as many messages as the load, and so each of them once where none is missing.
    pub fn is_complete(&self, load: &Load) {
        let reader: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.server.address())
            .set("group.id", "bench")
            .create()
            .unwrap();
        let ends =
            (0..PARTITIONS).map(|partition| reader.fetch_watermarks(&load.topic, partition, PATIENCE).unwrap().1);
        assert_eq!(u64::try_from(ends.sum::<i64>()).unwrap(), load.messages, "messages in the topic");
    }
}
