//! A server with a stream, and hands for it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::{self, consumer, stream};
use postrider_brokers::{BrokerConfig, SubscriptionConfig, subscribe};
use postrider_core::{Error, Incoming, Result, Subscription};
use postrider_testkit::servers::nats::{NatsOptions, NatsServer};

/// How long anything may take at most.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server with the stream `ORDERS` of `orders.>`.
pub struct Scene {
    pub server: NatsServer,
    pub context: jetstream::Context,
}

impl Scene {
    pub async fn start() -> Self {
        let scene = Self::without_stream("").await;
        scene.context.create_stream(orders()).await.unwrap();
        scene
    }

    /// A server with these further lines in its configuration. The user `admin` with the password `a` may do everything.
    pub async fn without_stream(extra: &str) -> Self {
        let options = NatsOptions { extra: extra.to_owned(), ..NatsOptions::default() };
        let server = NatsServer::start_with(options).await.unwrap();
        let client = async_nats::ConnectOptions::new().user_and_password("admin".into(), "a".into());
        let context = jetstream::new(client.connect(server.url()).await.unwrap());
        Self { server, context }
    }

    /// The broker, with an `ack_wait` of 4 seconds.
    pub fn broker(&self) -> BrokerConfig {
        BrokerConfig::new(self.server.url()).option("timeout", "2s").option("ack_wait", "4s")
    }

    /// The consumer `invoices` of `orders.>`.
    pub fn config(&self) -> SubscriptionConfig {
        SubscriptionConfig::new(self.broker(), "invoices", "orders.>")
    }

    pub fn subscribe(&self) -> Arc<dyn Subscription> {
        subscribe(&self.config()).unwrap()
    }

    /// Publishes these payloads to `orders.placed`, as another producer does.
    pub async fn publish(&self, payloads: &[&str]) {
        for payload in payloads {
            self.send("orders.placed", HeaderMap::new(), payload).await;
        }
    }

    pub async fn send(&self, subject: &str, headers: HeaderMap, payload: &str) {
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, payload.to_owned().into());
        sent.await.unwrap().await.unwrap();
    }

    /// Makes a consumer as an operator does.
    pub async fn make(&self, config: consumer::Config) {
        self.context.get_stream("ORDERS").await.unwrap().create_consumer(config).await.unwrap();
    }

    /// How the consumer `invoices` is made; none where there is none.
    pub async fn consumer(&self) -> Option<consumer::Config> {
        let stream = self.context.get_stream("ORDERS").await.unwrap();
        stream.consumer_info("invoices").await.ok().map(|info| info.config)
    }

    /// Whether the server is older than this.
    pub fn is_older(&self, than: [u64; 3]) -> bool {
        let version = self.server.version().unwrap();
        let numbers: Vec<u64> = version.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
        numbers.as_slice() < than.as_slice()
    }
}

pub fn orders() -> stream::Config {
    stream::Config { name: "ORDERS".into(), subjects: vec!["orders.>".into()], ..stream::Config::default() }
}

/// A consumer that is what this one needs.
pub fn fit() -> consumer::Config {
    consumer::Config {
        durable_name: Some("invoices".into()),
        ack_policy: consumer::AckPolicy::Explicit,
        ack_wait: Duration::from_secs(4),
        ..consumer::Config::default()
    }
}

pub async fn take(from: &Arc<dyn Subscription>, most: usize) -> Result<Vec<Incoming>> {
    let taken = tokio::time::timeout(PATIENCE, from.take(NonZeroUsize::new(most).unwrap())).await;
    taken.unwrap_or_else(|_| panic!("a take did not end"))
}

/// Takes until so many came, whatever fails meanwhile.
pub async fn taken(from: &Arc<dyn Subscription>, count: usize) -> Vec<Incoming> {
    let (mut all, until) = (Vec::new(), Instant::now() + PATIENCE);
    while all.len() < count {
        assert!(Instant::now() < until, "{} of {count} came", all.len());
        match take(from, count - all.len()).await {
            Ok(taken) => all.extend(taken),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    all
}

/// Takes until it fails, and gives the error.
pub async fn failing(from: &Arc<dyn Subscription>) -> Error {
    let until = Instant::now() + PATIENCE;
    loop {
        match take(from, 10).await {
            Ok(_) => assert!(Instant::now() < until, "no take failed"),
            Err(error) => return error,
        }
    }
}

pub fn payloads(taken: &[Incoming]) -> Vec<String> {
    taken.iter().map(|incoming| String::from_utf8(incoming.payload.to_vec()).unwrap()).collect()
}

/// Acknowledges everything.
pub async fn over(taken: Vec<Incoming>) {
    for incoming in taken {
        incoming.receipt.acknowledge().await.unwrap();
    }
}
