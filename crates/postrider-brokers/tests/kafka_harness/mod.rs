//! What the suite needs to know about a broker of the shared node.
#![allow(dead_code, reason = "each program uses what it needs")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, Message};
use postrider_testkit::suites::broker::{BrokerHarness, Deduplication, Received, message};

use crate::kafka_log;
use crate::kafka_node::{Node, create_topic, node, noise};

/// The topic's own limit, below the server's.
const TOPIC_LIMIT: usize = 2 << 20;

/// A broker of the shared node.
pub struct Harness {
    node: &'static Node,
    topic: String,
    broker: Arc<dyn Broker>,
}

impl Harness {
    /// A broker with further options, and a topic of its own.
    pub async fn start(further: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let node = node("a suite over Kafka").await.unwrap();
        let topic = format!("orders.placed.{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        create_topic(&node.address, &topic, 2, &[("max.message.bytes", &TOPIC_LIMIT.to_string())]).await;
        let mut config = BrokerConfig::new(format!("kafka://admin:admin-password@{}", node.guarded))
            .option("sasl", "plain")
            .option("timeout", "3s");
        for (name, value) in further {
            config = config.option(*name, *value);
        }
        Self { node, topic, broker: open(&config).unwrap() }
    }
}

#[async_trait]
impl BrokerHarness for Harness {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    fn destination(&self) -> Destination {
        Destination::new(&self.topic)
    }

    async fn received(&self) -> Vec<Received> {
        let mut found = kafka_log::read(&self.node.address, &self.topic).await;
        found.sort_by_key(|record| (record.timestamp, record.partition, record.offset));
        let one = |record: kafka_log::Found| {
            assert_eq!(record.key.as_deref(), record.header("postrider-key"));
            Received {
                content_type: record.header("content-type").map(str::to_owned),
                payload: record.payload.unwrap().into(),
                headers: record.headers,
            }
        };
        found.into_iter().map(one).collect()
    }

    fn deduplication(&self) -> Deduplication {
        Deduplication::None
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(20)
    }

    fn secret(&self) -> Option<String> {
        Some("admin-password".to_owned())
    }

    fn oversize(&self) -> Message {
        message(noise(9 << 20))
    }

    async fn refused(&self, mut message: Message) -> Message {
        let mut payload = message.payload.to_vec();
        payload.extend(noise(TOPIC_LIMIT));
        message.payload = payload.into();
        message
    }

    async fn missing(&self) -> (Arc<dyn Broker>, Destination) {
        (self.broker(), Destination::new("nowhere.at.all"))
    }

    async fn stop(&self) {
        // A Kafka that is killed before it wrote the marker of a commit that it had acknowledged can leave that out for
        // good when it starts again (docs/operating.md, Kafka). What is tested is how this broker goes on after a kill.
        kafka_log::transactions_are_over(&self.node.address, &self.topic).await;
        self.node.server.lock().await.kill9();
    }

    async fn start(&self) {
        self.node.server.lock().await.restart().await.unwrap();
    }
}
