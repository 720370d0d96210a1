//! The Kafka subscription passes the suite, against a real Kafka behind a proxy that cuts its connections.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kafka_member;
mod kafka_node;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kafka_member::{PATIENCE, Sent, send};
use kafka_node::create_topic;
use postrider_brokers::{BrokerConfig, SubscriptionConfig, open, subscribe};
use postrider_core::{Broker, Destination, Result, Subscription};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::kafka::{Behind, KafkaOptions, KafkaServer};
use postrider_testkit::servers::process::{ServerError, free_port};
use postrider_testkit::suites::subscriptions::{Foreign, SubscriptionHarness, run};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::sync::{Mutex, OnceCell};

/// How many partitions the place has: fewer than keys, so that some share one.
const PARTITIONS: i32 = 4;

/// The node, shared by the cases.
struct Node {
    server: Mutex<KafkaServer>,
    /// Where nothing is in the way.
    address: String,
    proxy: Proxy,
}

static NODE: OnceCell<Node> = OnceCell::const_new();

async fn node() -> Result<&'static Node, ServerError> {
    NODE.get_or_try_init(|| async {
        let port = free_port()?;
        let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), b"").await?;
        let behind = vec![Behind { port, advertised: proxy.port() }];
        let server = KafkaServer::start_with(KafkaOptions { behind, ..KafkaOptions::default() }).await?;
        Ok(Node { address: server.address(), server: Mutex::new(server), proxy })
    })
    .await
}

/// A topic of the node, and groups of its own.
struct Harness {
    node: &'static Node,
    topic: String,
    broker: Arc<dyn Broker>,
}

impl Harness {
    async fn start() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let node = node().await.unwrap();
        let mut server = node.server.lock().await;
        if !server.is_running() {
            server.restart().await.unwrap();
        }
        drop(server);
        let topic = format!("place.{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        create_topic(&node.address, &topic, PARTITIONS, &[]).await;
        let broker = open(&BrokerConfig::new(format!("kafka://{}?timeout=5s", node.address))).unwrap();
        Self { node, topic, broker }
    }

    fn reading(&self, consumer: &str, topic: &str) -> Result<Arc<dyn Subscription>> {
        let url = format!("kafka://127.0.0.1:{}?session_timeout=6s&timeout=5s", self.node.proxy.port());
        subscribe(&SubscriptionConfig::new(BrokerConfig::new(url), consumer, topic))
    }

    /// Each place has its own groups: another one's member must not be waited for.
    fn group(&self, consumer: &str) -> String {
        format!("{consumer}.{}", self.topic)
    }
}

#[async_trait]
impl SubscriptionHarness for Harness {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    fn destination(&self) -> Destination {
        Destination::new(&self.topic)
    }

    async fn publish_foreign(&self, messages: Vec<Foreign>) {
        for Foreign { headers, payload } in messages {
            let headers: Vec<(&str, &[u8])> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
            let sent = Sent { partition: 0, key: None, payload: Some(&payload), headers: &headers };
            send(&self.node.address, &self.topic, &[sent]).await;
        }
    }

    fn subscribe(&self, consumer: &str) -> Arc<dyn Subscription> {
        self.reading(&self.group(consumer), &self.topic).unwrap()
    }

    fn missing(&self) -> Arc<dyn Subscription> {
        self.reading("reader-of-nothing", "no.such.place").unwrap()
    }

    fn misnamed(&self) -> Vec<(&'static str, Result<Arc<dyn Subscription>>)> {
        let long = "x".repeat(201);
        vec![
            ("the consumer has no name", self.reading("", &self.topic)),
            ("the consumer's name is too long", self.reading(&long, &self.topic)),
            ("the consumer's name has a line break", self.reading("a\nb", &self.topic)),
            ("the topic has no name", self.reading("reader", "")),
            ("the topic has a blank", self.reading("reader", "a b")),
            ("the topic is a pattern", self.reading("reader", "^place.*")),
        ]
    }

    async fn settled(&self, consumer: &str, subscriptions: usize) {
        let (address, group) = (self.node.address.clone(), self.group(consumer));
        let until = Instant::now() + PATIENCE;
        loop {
            let (of, which) = (address.clone(), group.clone());
            let asked = tokio::task::spawn_blocking(move || share(&of, &which)).await.unwrap();
            if asked.len() == subscriptions && asked.iter().all(|partitions| *partitions > 0) {
                return;
            }
            assert!(Instant::now() < until, "{group:?} has members with {asked:?} partitions");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn stop(&self) {
        self.node.server.lock().await.kill9();
    }

    async fn start(&self) {
        self.node.server.lock().await.restart().await.unwrap();
    }

    async fn cut(&self) {
        self.node.proxy.cut();
    }
}

/// How many topics' partitions each member of a group has, where it is settled.
fn share(address: &str, group: &str) -> Vec<usize> {
    let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
    let Ok(groups) = client.fetch_group_list(Some(group), Duration::from_secs(5)) else { return Vec::new() };
    let Some(found) = groups.groups().iter().find(|found| found.name() == group && found.state() == "Stable") else {
        return Vec::new();
    };
    // A version, then how many topics: none where the member waits for what another one still has.
    let topics = |bytes: &[u8]| bytes.get(2..6).map_or(0, |count| usize::from(count.iter().any(|byte| *byte != 0)));
    found.members().iter().map(|member| member.assignment().map_or(0, topics)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kafka_subscription_passes_the_suite() {
    if installed("a subscription to Kafka", node().await).is_none() {
        return;
    }
    run("kafka", Harness::start).await.expect_success();
}
