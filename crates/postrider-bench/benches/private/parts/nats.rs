//! A NATS of our own, with one stream on file storage.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, context::ContextBuilder, stream::Config};
use postrider_bench::load::Load;
use postrider_brokers::{BrokerConfig, open};
use postrider_core::Broker;
use postrider_testkit::servers::nats::NatsServer;
use postrider_testkit::servers::process::find;

/// The most acknowledgements that the limit waits for at once: as many as the product.
const IN_FLIGHT: usize = 4_000;

pub struct Nats {
    pub server: NatsServer,
    pub context: jetstream::Context,
}

impl Nats {
    pub async fn start() -> Self {
        let server = NatsServer::start().await.unwrap();
        let client = async_nats::connect(server.url()).await.unwrap();
        let context = ContextBuilder::new().timeout(Duration::from_secs(30)).max_ack_inflight(IN_FLIGHT).build(client);
        Self { server, context }
    }

    /// What it is, for the page.
    pub fn note(&self) -> String {
        let version = self.server.version().unwrap();
        format!("NATS JetStream {version}, one stream on file storage, one replica, de-duplication by id.")
    }

    pub fn broker(&self) -> Arc<dyn Broker> {
        open(&BrokerConfig::new(self.server.url())).unwrap()
    }

    /// A fresh stream in place of the one before.
    pub async fn fresh_stream(&self) {
        let _ = self.context.delete_stream("bench").await;
        let config = Config { name: "bench".into(), subjects: vec!["bench.>".into()], ..Config::default() };
        self.context.create_stream(config).await.unwrap();
    }

    async fn stored(&self) -> u64 {
        self.context.get_stream("bench").await.unwrap().get_info().await.unwrap().state.messages
    }

    /// The stream has each message of a load once.
    pub async fn is_complete(&self, load: &Load) {
        assert_eq!(self.stored().await, load.messages, "messages in the stream");
    }
}

/// What the broker's own tool says of itself, messages per second; none where it is not installed.
pub fn own_bench(nats: &Nats, messages: u64) -> Option<f64> {
    let program = find("nats", &[], "natscli").ok()?;
    let said = Command::new(program)
        .args(["--server", &nats.server.url(), "bench", "js", "pub", "async", "bench.own", "--create", "--purge"])
        .args(["--stream", "benchown", "--storage", "file", "--size", "200", "--batch", "4000", "--no-progress"])
        .args(["--msgs", &messages.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    let rate = text.split_once("msgs/sec").and_then(|(before, _)| before.split_whitespace().last().map(str::to_owned));
    let rate = rate.and_then(|rate| rate.replace(',', "").parse().ok());
    if rate.is_none() {
        eprintln!("nats bench gave no rate: {text}");
    }
    rate
}
