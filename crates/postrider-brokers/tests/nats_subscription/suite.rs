//! The suite, through a proxy that can cut connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream;
use async_trait::async_trait;
use postrider_brokers::{BrokerConfig, SubscriptionConfig, open, subscribe};
use postrider_core::{Broker, Destination, Result, Subscription};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::nats::{NatsOptions, NatsServer};
use postrider_testkit::suites::subscriptions::{Foreign, SubscriptionHarness, run};
use tokio::sync::Mutex;

use crate::scene::orders;

struct Harness {
    server: Mutex<NatsServer>,
    proxy: Proxy,
    broker: Arc<dyn Broker>,
    context: jetstream::Context,
}

impl Harness {
    async fn start() -> Self {
        let users = "authorization { user: relay, password: hidden-password }".to_owned();
        let server = NatsServer::start_with(NatsOptions { extra: users, ..NatsOptions::default() }).await.unwrap();
        let client = async_nats::ConnectOptions::with_user_and_password("relay".into(), "hidden-password".into());
        let context = jetstream::new(client.connect(server.url()).await.unwrap());
        context.create_stream(orders()).await.unwrap();
        let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())), b"").await.unwrap();
        let broker = open(&at(server.port())).unwrap();
        Self { server: Mutex::new(server), proxy, broker, context }
    }

    fn reading(&self, consumer: &str, from: &str) -> Result<Arc<dyn Subscription>> {
        let broker = at(self.proxy.port()).option("ack_wait", "4s");
        subscribe(&SubscriptionConfig::new(broker, consumer, from))
    }
}

fn at(port: u16) -> BrokerConfig {
    BrokerConfig::new(format!("nats://relay:hidden-password@127.0.0.1:{port}")).option("timeout", "2s")
}

#[async_trait]
impl SubscriptionHarness for Harness {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    fn destination(&self) -> Destination {
        Destination::new("orders.in")
    }

    async fn publish_foreign(&self, messages: Vec<Foreign>) {
        for foreign in messages {
            let mut headers = HeaderMap::new();
            for (name, value) in &foreign.headers {
                headers.append(name.as_str(), value.as_str());
            }
            let sent = self.context.publish_with_headers("orders.in", headers, foreign.payload);
            sent.await.unwrap().await.unwrap();
        }
    }

    fn subscribe(&self, consumer: &str) -> Arc<dyn Subscription> {
        self.reading(consumer, "orders.in").unwrap()
    }

    fn missing(&self) -> Arc<dyn Subscription> {
        self.reading("reader", "nowhere.>").unwrap()
    }

    fn misnamed(&self) -> Vec<(&'static str, Result<Arc<dyn Subscription>>)> {
        vec![
            ("the consumer has no name", self.reading("", "orders.in")),
            ("the consumer's name has a dot", self.reading("a.b", "orders.in")),
            ("the consumer's name has a blank", self.reading("a b", "orders.in")),
            ("the consumer's name has a wildcard", self.reading("a*", "orders.in")),
            ("the consumer's name has a slash", self.reading("a/b", "orders.in")),
            ("the subject has an empty word", self.reading("reader", "orders..in")),
            ("the subject is empty", self.reading("reader", "")),
            ("the subject has a wildcard in a word", self.reading("reader", "orders.in*")),
        ]
    }

    async fn stop(&self) {
        self.server.lock().await.stop();
    }

    async fn start(&self) {
        self.server.lock().await.restart().await.unwrap();
    }

    async fn cut(&self) {
        self.proxy.cut();
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(15)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn secret(&self) -> Option<String> {
        Some("hidden-password".to_owned())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nats_subscription_passes_the_suite() {
    run("nats", Harness::start).await.expect_success();
}
