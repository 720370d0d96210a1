//! The folder broker passes the suite that Postrider publishes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{Broker, Destination, Message};
use postrider_testkit::suites::broker::{BrokerHarness, Deduplication, Received, message, run};
use sample_broker::{FolderBroker, MAX_PAYLOAD};
use serde_json::Value;
use tempfile::TempDir;

struct Harness {
    home: TempDir,
    broker: Arc<FolderBroker>,
}

impl Harness {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir_all(root.join("orders")).unwrap();
        Self { broker: Arc::new(FolderBroker::new(root)), home }
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }
}

#[async_trait]
impl BrokerHarness for Harness {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker) as Arc<dyn Broker>
    }

    fn destination(&self) -> Destination {
        Destination::new("orders")
    }

    async fn received(&self) -> Vec<Received> {
        let entries = fs::read_dir(self.root().join("orders")).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
        paths.sort();
        let received = paths.iter().map(|path| {
            let about: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let headers = about["headers"].as_object().unwrap().iter();
            Received {
                headers: headers.map(|(name, value)| (name.to_lowercase(), value.as_str().unwrap().into())).collect(),
                content_type: about["content_type"].as_str().map(str::to_owned),
                payload: fs::read(path.with_extension("payload")).unwrap().into(),
            }
        });
        received.collect()
    }

    fn deduplication(&self) -> Deduplication {
        Deduplication::None
    }

    fn oversize(&self) -> Message {
        message(vec![7; MAX_PAYLOAD + 1])
    }

    async fn refused(&self, mut message: Message) -> Message {
        let mut payload = message.payload.to_vec();
        payload.resize(MAX_PAYLOAD + 1, b' ');
        message.payload = payload.into();
        message
    }

    async fn missing(&self) -> (Arc<dyn Broker>, Destination) {
        (self.broker(), Destination::new("nowhere"))
    }

    async fn stop(&self) {
        fs::rename(self.root(), self.home.path().join("unmounted")).unwrap();
    }

    async fn start(&self) {
        fs::rename(self.home.path().join("unmounted"), self.root()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_folder_broker_passes_the_suite() {
    run("folder (out of tree)", || async { Harness::new() }).await.expect_success();
}
