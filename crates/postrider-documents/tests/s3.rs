//! Documents in S3 pass the suite on an emulator, and what only a proxy or another service can show.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Collection, DocumentStore, ErrorKind, Timestamp, WriteError};
use postrider_documents::objects::{ObjectDocuments, ObjectOptions};
use postrider_testkit::proxy::{Passage, Proxy};
use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::moto::{Moto, VERSION};
use postrider_testkit::suites::documents::{DocumentHarness, Exclusion, draft, key, run};

const SECRET: &str = "the-secret-of-the-tests";

fn at(endpoint: &str, place: &str) -> Arc<dyn DocumentStore> {
    opened(&format!("s3://{place}?region=us-east-1&timeout=3&endpoint={endpoint}"))
}

fn opened(url: &str) -> Arc<dyn DocumentStore> {
    let variables = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Arc::new(ObjectDocuments::new(ObjectOptions::new(url, variables).unwrap()).unwrap())
}

struct Harness {
    moto: Arc<Moto>,
    place: String,
}

impl Harness {
    async fn start(moto: &Arc<Moto>) -> Self {
        // A case may have left it closed.
        moto.come_back().await.unwrap();
        let place = format!("documents/{}", uuid::Uuid::new_v4());
        Self { moto: Arc::clone(moto), place }
    }
}

async fn moto(what: &str) -> Option<Arc<Moto>> {
    let moto = Arc::new(installed(what, Moto::start().await)?);
    moto.make_bucket("documents").await.unwrap();
    Some(moto)
}

#[async_trait]
impl DocumentHarness for Harness {
    async fn client(&self) -> Arc<dyn DocumentStore> {
        at(&self.moto.endpoint(), &self.place)
    }

    async fn unprepared(&self) -> Arc<dyn DocumentStore> {
        at(&self.moto.endpoint(), &format!("{}-empty", self.place))
    }

    async fn stop(&self) {
        self.moto.leave().await.unwrap();
    }

    async fn start(&self) {
        self.moto.come_back().await.unwrap();
    }

    async fn crash(&self) {}

    fn rounds(&self) -> usize {
        10
    }

    fn secret(&self) -> Option<String> {
        Some(SECRET.to_owned())
    }

    fn exclusions(&self) -> &'static [Exclusion] {
        &[
            Exclusion {
                case: "what_is_not_prepared_says_what_to_do",
                reason: "a bucket is made by who pays for it; a missing one is tested apart",
            },
            Exclusion { case: "what_was_answered_survives_a_crash", reason: "moto keeps everything in memory" },
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_s3_pass_the_suite() {
    let Some(moto) = moto("documents in S3").await else { return };
    run(&format!("s3 (moto {VERSION})"), || Harness::start(&moto)).await.expect_success();
}

#[tokio::test]
async fn a_missing_bucket_is_no_missing_document() {
    let Some(moto) = moto("a missing bucket").await else { return };
    let store = at(&moto.endpoint(), "nobody");
    let read = store.load(&key("7")).await.unwrap_err();
    let Err(WriteError::Failed(written)) = store.create(&key("7"), &draft("1")).await else { panic!("it was written") };
    let listed = store.due(&Collection::new("carts").unwrap(), Timestamp(0), None, 1).await.unwrap_err();
    for error in [read, written, listed, store.prepare().await.unwrap_err(), store.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.advice().unwrap().contains("make the bucket"), "{error}");
    }
}

#[tokio::test]
async fn what_a_gateway_does_not_find_is_no_missing_document() {
    let gateway = HttpReceiver::start().await.unwrap();
    let store = at(&gateway.url(), "documents/behind");
    for said in ["404 page not found", "<Code>NoSuchAccessPoint</Code>", ""] {
        gateway.script(move |_, _| Answer::Full(404, Vec::new(), said.as_bytes().to_vec()));
        assert_eq!(store.load(&key("7")).await.unwrap_err().kind(), ErrorKind::Unavailable, "{said:?}");
        let Err(WriteError::Failed(error)) = store.create(&key("7"), &draft("1")).await else { panic!("{said:?}") };
        assert!([ErrorKind::Unavailable, ErrorKind::Unknown].contains(&error.kind()), "{error:?}");
    }
    gateway.script(|_, _| Answer::Full(404, Vec::new(), b"<Error><Code>NoSuchKey</Code></Error>".to_vec()));
    assert!(store.load(&key("7")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_no_conflict_with_itself() {
    let Some(moto) = moto("answers that are lost").await else { return };
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, moto.port())), b"").await.unwrap();
    let (direct, store) =
        (at(&moto.endpoint(), "documents/lost"), at(&format!("http://127.0.0.1:{}", proxy.port()), "documents/lost"));
    answers::no_write_conflicts_with_itself(&proxy, &*store, &*direct).await;
    // What stands there may have been written over what this writer made: nobody can tell.
    proxy.lose_answer();
    let Err(WriteError::Failed(error)) = store.create(&key("7"), &draft("3")).await else { panic!("it is known") };
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let again = store.create(&key("7"), &draft("3")).await.unwrap();
    assert_eq!(direct.load(&key("7")).await.unwrap().unwrap().version, again);

    proxy.pass(Passage::HeldToClient);
    let Err(WriteError::Failed(error)) = store.replace(&key("7"), &again, &draft("4")).await else {
        panic!("no failure")
    };
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let error = tokio::time::timeout(Duration::from_secs(10), store.load(&key("7"))).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_tombstone_has_the_tag_that_was_asked_for() {
    let Some(moto) = moto("tombstones with a tag").await else { return };
    let url = format!("s3://documents/tagged?region=us-east-1&tombstones=tagged&endpoint={}", moto.endpoint());
    let store = opened(&url);
    let version = store.create(&key("7"), &draft("1")).await.unwrap();
    store.delete(&key("7"), &version).await.unwrap();
    let tags = moto.ask("GET", "/documents/tagged/carts/7?tagging").await.unwrap();
    assert!(tags.contains("<Key>postrider</Key><Value>tombstone</Value>"), "{tags}");
    // It is no document, and what is written over it has no tag.
    assert!(store.load(&key("7")).await.unwrap().is_none());
    store.create(&key("7"), &draft("2")).await.unwrap();
    let tags = moto.ask("GET", "/documents/tagged/carts/7?tagging").await.unwrap();
    assert!(!tags.contains("tombstone"), "{tags}");
}

#[tokio::test]
async fn check_leaves_nothing_of_what_it_tried() {
    let Some(moto) = moto("check").await else { return };
    let findings = at(&moto.endpoint(), "documents/checked").check().await.unwrap();
    assert!(
        findings.iter().any(|finding| finding.subject == "tombstones" && !finding.advice.is_empty()),
        "{findings:?}"
    );
    let left = moto.ask("GET", "/documents?prefix=checked").await.unwrap();
    assert!(!left.contains("probe"), "what was tried is left: {left}");
}
