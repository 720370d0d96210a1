//! How many messages of 200 bytes each broker acknowledges per second. Run by hand, in release:
//! `cargo test --release -p postrider-brokers --all-features --test speed -- --ignored --nocapture --test-threads 1`
#![cfg(all(feature = "file", feature = "http", feature = "nats"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::time::Instant;

use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, Outgoing, Published};
use postrider_testkit::servers::http_receiver::HttpReceiver;
use postrider_testkit::servers::nats::NatsServer;
use postrider_testkit::suites::broker::{message, outgoing};

/// Publishes `calls` batches, `at_once` of them at a time, and prints the rate.
async fn measure(what: &str, broker: &Arc<dyn Broker>, calls: usize, size: usize, at_once: usize, keys: usize) {
    let began = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..at_once {
        let broker = Arc::clone(broker);
        workers.spawn(async move {
            let destination = Destination::new("orders.placed");
            for _ in 0..calls / at_once {
                let batch: Vec<Outgoing> = (0..size)
                    .map(|n| outgoing(message(vec![b'x'; 200]).key(format!("{worker} {}", n % keys)), &destination))
                    .collect();
                let results = broker.publish(&batch).await;
                assert!(results.iter().all(|result| matches!(result, Published::Accepted(_))), "{:?}", results.first());
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    let (messages, seconds) = ((calls / at_once * at_once * size) as f64, began.elapsed().as_secs_f64());
    println!("{what}: {:.0} messages/s ({messages} in {seconds:.2} s)", messages / seconds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn nats() {
    let server = NatsServer::start().await.unwrap();
    let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let stream = Config { name: "ORDERS".into(), subjects: vec!["orders.>".into()], ..Config::default() };
    context.create_stream(stream).await.unwrap();
    let broker = open(&BrokerConfig::new(server.url()).option("timeout", "30s")).unwrap();
    println!("nats-server {}", server.version().unwrap());
    measure("nats, 1,000 keys, one call at a time", &broker, 100, 1000, 1, 1000).await;
    measure("nats, 1,000 keys, four calls at once", &broker, 200, 1000, 4, 1000).await;
    measure("nats, 100 keys, four calls at once", &broker, 100, 1000, 4, 100).await;
    measure("nats, one hot key", &broker, 20, 1000, 1, 1).await;
}

/// What order inside a key costs: the client itself, with every message of one key in flight at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn nats_without_order() {
    let server = NatsServer::start().await.unwrap();
    let broker = open(&BrokerConfig::new(server.url()).option("timeout", "30s")).unwrap();
    let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let stream = Config { name: "ORDERS".into(), subjects: vec!["orders.>".into()], ..Config::default() };
    context.create_stream(stream).await.unwrap();
    let began = Instant::now();
    let destination = Destination::new("orders.placed");
    for _ in 0..100 {
        let batch: Vec<Outgoing> = (0..1000).map(|_| outgoing(message(vec![b'x'; 200]), &destination)).collect();
        let results = broker.publish(&batch).await;
        assert!(results.iter().all(|result| matches!(result, Published::Accepted(_))));
    }
    println!("nats, one key without order (keyless): {:.0} messages/s", 100_000.0 / began.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/out.jsonl", folder.path().display());
    let broker = open(&BrokerConfig::new(url)).unwrap();
    measure("file, batches of 1,000", &broker, 300, 1000, 1, 1000).await;
    measure("file, batches of 1", &broker, 1000, 1, 1, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn http() {
    let receiver = HttpReceiver::start().await.unwrap();
    let broker = open(&BrokerConfig::new(receiver.url())).unwrap();
    measure("http, 16 calls of 1 at once", &broker, 32_000, 1, 16, 1).await;
    measure("http, one call of 1,000", &broker, 20, 1000, 1, 1000).await;
    measure("http, one hot key", &broker, 3000, 1, 1, 1).await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let signed = open(&BrokerConfig::new(receiver.url()).option("secret", secret)).unwrap();
    measure("http, signed, 16 calls of 1 at once", &signed, 32_000, 1, 16, 1).await;
}
