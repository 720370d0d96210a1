//! The NATS broker passes the suite, against a real server on file storage.
#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use async_trait::async_trait;
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, Message};
use postrider_testkit::servers::nats::{NatsOptions, NatsServer};
use postrider_testkit::suites::broker::{BrokerHarness, Deduplication, Received, message, run};
use tokio::sync::Mutex;

/// The stream's own limit, below the server's, so that a message can be refused by JetStream itself.
const STREAM_LIMIT: usize = 2 << 20;

struct Harness {
    server: Mutex<NatsServer>,
    broker: Arc<dyn Broker>,
    context: jetstream::Context,
}

impl Harness {
    async fn start() -> Self {
        let users = "authorization { user: relay, password: hidden-password }".to_owned();
        let server = NatsServer::start_with(NatsOptions { extra: users, ..NatsOptions::default() }).await.unwrap();
        let client = async_nats::ConnectOptions::with_user_and_password("relay".into(), "hidden-password".into());
        let context = jetstream::new(client.connect(server.url()).await.unwrap());
        let stream = Config {
            name: "ORDERS".into(),
            subjects: vec!["orders.>".into()],
            max_message_size: i32::try_from(STREAM_LIMIT).unwrap(),
            ..Config::default()
        };
        context.create_stream(stream).await.unwrap();
        let config = BrokerConfig::new(format!("nats://relay:hidden-password@127.0.0.1:{}", server.port()))
            .option("stream", "ORDERS")
            .option("timeout", "3s");
        Self { server: Mutex::new(server), broker: open(&config).unwrap(), context }
    }
}

#[async_trait]
impl BrokerHarness for Harness {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    fn destination(&self) -> Destination {
        Destination::new("orders.placed")
    }

    async fn received(&self) -> Vec<Received> {
        let stream = self.context.get_stream("ORDERS").await.unwrap();
        let state = stream.cached_info().state.clone();
        let mut received = Vec::new();
        for sequence in 1..=state.last_sequence {
            let message = stream.get_raw_message(sequence).await.unwrap();
            assert_eq!(message.subject.as_str(), "orders.placed");
            let headers: Vec<(String, String)> = message
                .headers
                .iter()
                .flat_map(|(name, values)| values.iter().map(|value| (name.to_string(), value.as_str().to_owned())))
                .collect();
            let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
            assert_eq!(header("Nats-Msg-Id"), header("postrider-id"));
            received.push(Received {
                content_type: header("Content-Type"),
                headers: headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect(),
                payload: message.payload,
            });
        }
        received
    }

    fn deduplication(&self) -> Deduplication {
        Deduplication::ById
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(7)
    }

    fn secret(&self) -> Option<String> {
        Some("hidden-password".to_owned())
    }

    fn oversize(&self) -> Message {
        message(vec![7; 8 << 20])
    }

    async fn refused(&self, mut message: Message) -> Message {
        let mut payload = message.payload.to_vec();
        payload.resize(STREAM_LIMIT + 1, b' ');
        message.payload = payload.into();
        message
    }

    async fn missing(&self) -> (Arc<dyn Broker>, Destination) {
        (self.broker(), Destination::new("nowhere.at.all"))
    }

    async fn stop(&self) {
        self.server.lock().await.stop();
    }

    async fn start(&self) {
        self.server.lock().await.restart().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nats_broker_passes_the_suite() {
    run("nats", Harness::start).await.expect_success();
}
