//! Documents in Azure Blob Storage pass the suite on an emulator.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use object_store::ObjectStoreExt;
use postrider_core::{DocumentStore, ErrorKind, WriteError};
use postrider_documents::objects::{ObjectDocuments, ObjectOptions};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::azurite::{ACCOUNT, Azurite, KEY, VERSION};
use postrider_testkit::servers::installed;
use postrider_testkit::suites::documents::{DocumentHarness, Exclusion, draft, key, run};
use tokio::sync::Mutex;

fn at(endpoint: &str, place: &str) -> Arc<dyn DocumentStore> {
    let variables = [("AZURE_STORAGE_ACCOUNT_KEY".to_owned(), KEY.to_owned())];
    let url = format!("az://{place}?account={ACCOUNT}&timeout=3&endpoint={endpoint}");
    Arc::new(ObjectDocuments::new(ObjectOptions::new(&url, variables).unwrap()).unwrap())
}

struct Harness {
    server: Arc<Mutex<Azurite>>,
    endpoint: String,
    place: String,
}

impl Harness {
    async fn start(server: &Arc<Mutex<Azurite>>) -> Self {
        let place = format!("documents/{}", uuid::Uuid::new_v4());
        let mut running = server.lock().await;
        // A case may have left it stopped.
        if !running.running() {
            running.restart().await.unwrap();
        }
        Self { server: Arc::clone(server), endpoint: running.endpoint(), place }
    }
}

async fn azurite(what: &str) -> Option<Arc<Mutex<Azurite>>> {
    let server = installed(what, Azurite::start().await)?;
    server.make_container("documents").await.unwrap();
    Some(Arc::new(Mutex::new(server)))
}

#[async_trait]
impl DocumentHarness for Harness {
    async fn client(&self) -> Arc<dyn DocumentStore> {
        at(&self.endpoint, &self.place)
    }

    async fn unprepared(&self) -> Arc<dyn DocumentStore> {
        at(&self.endpoint, &format!("{}-empty", self.place))
    }

    async fn stop(&self) {
        self.server.lock().await.stop();
    }

    async fn start(&self) {
        self.server.lock().await.restart().await.unwrap();
    }

    async fn crash(&self) {
        let mut server = self.server.lock().await;
        server.kill9();
        server.restart().await.unwrap();
    }

    fn rounds(&self) -> usize {
        10
    }

    fn secret(&self) -> Option<String> {
        Some(KEY.to_owned())
    }

    fn exclusions(&self) -> &'static [Exclusion] {
        &[Exclusion {
            case: "what_is_not_prepared_says_what_to_do",
            reason: "a container is made by who pays for it; a missing one is tested apart",
        }]
    }
}
