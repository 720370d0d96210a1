//! The HTTP broker passes the suite, against a real receiver.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::{BrokerConfig, open};
use postrider_core::{Broker, Destination, Message};
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver, Request};
use postrider_testkit::suites::broker::{BrokerHarness, Deduplication, Exclusion, Received, message, run};

const LIMIT: usize = 2 << 20;

struct Harness {
    receiver: HttpReceiver,
    broker: Arc<dyn Broker>,
    refused: Arc<Mutex<HashSet<String>>>,
    accepted: Arc<Mutex<Vec<Request>>>,
}

fn config(url: String) -> BrokerConfig {
    BrokerConfig::new(url).option("timeout", "5s").option("token", "hidden-token")
}

impl Harness {
    async fn start() -> Self {
        let receiver = HttpReceiver::start().await.unwrap();
        let broker = open(&config(format!("{}/hooks", receiver.url()))).unwrap();
        let (refused, accepted) = (Arc::<Mutex<HashSet<String>>>::default(), Arc::<Mutex<Vec<Request>>>::default());
        let (is_refused, keep) = (Arc::clone(&refused), Arc::clone(&accepted));
        receiver.script(move |request, _| {
            if request.header("authorization") != Some("Bearer hidden-token") {
                return Answer::Status(401);
            }
            if request.path != "/hooks" {
                return Answer::Status(404);
            }
            if request.body.len() > LIMIT {
                return Answer::Status(413);
            }
            if is_refused.lock().unwrap().contains(request.header("webhook-id").unwrap()) {
                return Answer::Full(
                    422,
                    Vec::new(),
                    request.header("x-secret").map(|_| b"no".to_vec()).unwrap_or_default(),
                );
            }
            keep.lock().unwrap().push(request.clone());
            Answer::Status(204)
        });
        Self { receiver, broker, refused, accepted }
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
        let requests = self.accepted.lock().unwrap();
        let received = requests.iter().map(|request| {
            assert_eq!(request.header("webhook-id"), request.header("postrider-id"));
            Received {
                headers: request.headers.clone(),
                content_type: request.header("content-type").map(str::to_owned),
                payload: request.body.clone(),
            }
        });
        received.collect()
    }

    fn deduplication(&self) -> Deduplication {
        Deduplication::None
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn secret(&self) -> Option<String> {
        Some("hidden-token".to_owned())
    }

    fn oversize(&self) -> Message {
        message(vec![7; LIMIT + 1])
    }

    async fn refused(&self, message: Message) -> Message {
        self.refused.lock().unwrap().insert(message.id.to_string());
        message
    }

    async fn missing(&self) -> (Arc<dyn Broker>, Destination) {
        let broker = open(&config(format!("{}/no-such-path", self.receiver.url()))).unwrap();
        (broker, Destination::new(""))
    }

    async fn stop(&self) {
        self.receiver.stop().await;
    }

    async fn start(&self) {
        self.receiver.restart().await.unwrap();
    }

    fn exclusions(&self) -> &'static [Exclusion] {
        &[Exclusion {
            case: "check_finds_a_missing_destination",
            reason: "only a request would tell, and check sends none",
        }]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_http_broker_passes_the_suite() {
    run("http", Harness::start).await.expect_success();
}
