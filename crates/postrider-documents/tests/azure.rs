//! Documents in Azure Blob Storage pass the suite on an emulator.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
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
    server.make_container("documents").unwrap();
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
        &[
            Exclusion {
                case: "what_is_not_prepared_says_what_to_do",
                reason: "a container is made by who pays for it; a missing one is tested apart",
            },
            Exclusion {
                case: "what_was_answered_survives_a_crash",
                reason: "azurite writes its list of blobs every five seconds, and at a stop in good order",
            },
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_azure_pass_the_suite() {
    let Some(server) = azurite("documents in Azure Blob Storage").await else { return };
    run(&format!("azure (azurite {VERSION})"), || Harness::start(&server)).await.expect_success();
}

#[tokio::test]
async fn a_missing_container_is_no_missing_document() {
    let Some(server) = azurite("a missing container").await else { return };
    let store = at(&server.lock().await.endpoint(), "nobody");
    let read = store.load(&key("7")).await.unwrap_err();
    let Err(WriteError::Failed(written)) = store.create(&key("7"), &draft("1")).await else { panic!("it was written") };
    for error in [read, written, store.prepare().await.unwrap_err(), store.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.advice().unwrap().contains("make the bucket or container"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_no_conflict_with_itself() {
    let Some(server) = azurite("answers that are lost").await else { return };
    let server = server.lock().await;
    let (port, endpoint) = (server.port(), server.endpoint());
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), b"").await.unwrap();
    let through = endpoint.replace(&port.to_string(), &proxy.port().to_string());
    let (direct, store) = (at(&endpoint, "documents/lost"), at(&through, "documents/lost"));
    answers::no_write_conflicts_with_itself(&proxy, &*store, &*direct).await;
}

#[tokio::test]
async fn a_wrong_key_says_what_to_do_and_writes_nothing() {
    let Some(server) = azurite("a wrong key").await else { return };
    let endpoint = server.lock().await.endpoint();
    let wrong = KEY.to_lowercase();
    let variables = [("AZURE_STORAGE_ACCOUNT_KEY".to_owned(), wrong.clone())];
    let url = format!("az://documents/wrong?account={ACCOUNT}&endpoint={endpoint}");
    let store = ObjectDocuments::new(ObjectOptions::new(&url, variables).unwrap()).unwrap();
    let Err(WriteError::Failed(written)) = store.create(&key("7"), &draft("1")).await else { panic!("it was written") };
    for error in [written, store.load(&key("7")).await.unwrap_err(), store.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.advice().unwrap().contains("allow these credentials"), "{error}");
        assert!(!format!("{error} {error:?}").contains(&wrong), "{error}");
    }
}
