//! A processor over each store, in each of its ways to remember: the table of `cargo xtask show receiving.1`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::{Answer, MemoryBroker};
use postrider::{Processed, documents};
use postrider_core::{DocumentStore, ErrorKind};
use postrider_testkit::troubled_documents::Trouble;

use crate::faults::at_any_call;
use crate::meeting::{deliver, settled};
use crate::once::many_at_once;
use crate::scene::{DAY, MODES, Mode, Scene};

/// Those that a real store can be brought into without waiting for long.
const TROUBLES: [Trouble; 3] = [Trouble::FailBefore(ErrorKind::Unavailable), Trouble::FailAfter, Trouble::LoseAnswer];

type Running = Pin<Box<dyn Future<Output = ()>>>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        const CASES: &[(&str, fn(Mode, Arc<dyn DocumentStore>) -> Running)] =
            &[$((stringify!($name), |mode, store| Box::pin($name(mode, store)))),*];
    };
}

cases![
    a_repeat_has_no_effect,
    trouble_at_any_call_costs_another_delivery,
    many_at_once_have_one_effect_each,
    what_nobody_delivers_again_is_finished,
    what_is_forgotten_is_refused_or_without_a_token,
];

async fn a_repeat_has_no_effect(mode: Mode, store: Arc<dyn DocumentStore>) {
    let scene = Scene::over(mode, store, MemoryBroker::recording());
    let (book, pen) = (scene.delivery("book").await, scene.delivery("pen").await);
    for delivery in [&book, &pen] {
        assert!(matches!(scene.processor().process(delivery).await, Processed::Applied));
    }
    for delivery in [&pen, &book] {
        assert!(matches!(scene.processor().process(delivery).await, Processed::Repeat));
    }
    settled(&scene, &["book", "pen"], "repeats").await;
}

async fn trouble_at_any_call_costs_another_delivery(mode: Mode, store: Arc<dyn DocumentStore>) {
    at_any_call(mode, &store, &TROUBLES, Duration::from_millis(500)).await;
}

async fn many_at_once_have_one_effect_each(mode: Mode, store: Arc<dyn DocumentStore>) {
    many_at_once(Scene::over(mode, store, MemoryBroker::recording())).await;
}

async fn what_nobody_delivers_again_is_finished(mode: Mode, store: Arc<dyn DocumentStore>) {
    let broker = MemoryBroker::recording().with_script(|_, nth| match nth {
        0 => Answer::Fail(ErrorKind::Unavailable),
        _ => Answer::Accept,
    });
    let scene = Scene::over(mode, store, broker);
    assert!(!scene.processor().process(&scene.delivery("book").await).await.is_over());
    scene.passes(Duration::from_secs(31));
    let kept = scene.processor().keep_up().await.unwrap();
    assert_eq!((kept.finished, kept.stuck.len(), scene.left().await), (1, 0, 0), "{kept:?}");
}

async fn what_is_forgotten_is_refused_or_without_a_token(mode: Mode, store: Arc<dyn DocumentStore>) {
    let scene = Scene::over(mode, store, MemoryBroker::recording());
    let book = scene.delivery("book").await;
    deliver(&scene, &book).await;
    scene.passes(8 * DAY);
    scene.processor().keep_up().await.unwrap();
    deliver(&scene, &scene.delivery("pen").await).await;
    let processed = scene.processor().process(&book).await;
    match mode {
        Mode::InDocument | Mode::KnownIds => assert!(matches!(processed, Processed::TooOld), "{processed}"),
        Mode::Tokens => assert!(matches!(processed, Processed::Repeat), "{processed}"),
    }
    assert_eq!(scene.items().await, ["book", "pen"]);
}

/// Runs every case in every mode, and prints what passed.
async fn passes(name: &str, store: Arc<dyn DocumentStore>) {
    store.prepare().await.unwrap();
    for mode in MODES {
        for (case, run) in CASES {
            // A step that fails says where.
            println!("{name}: {mode:?}: {case}");
            run(mode, Arc::clone(&store)).await;
        }
        println!("processor over {name}, {mode:?}: {} cases passed, each call of the store failing once", CASES.len());
    }
}

async fn open(url: &str) -> Arc<dyn DocumentStore> {
    documents::open(url).await.unwrap()
}

#[tokio::test]
async fn over_memory() {
    passes("memory", open("memory:").await).await;
}

#[cfg(feature = "documents-sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    passes("SQLite", open(&format!("sqlite://{}/documents.db", folder.path().display())).await).await;
}

#[cfg(feature = "documents-postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_postgresql() {
    use postrider_testkit::servers::{installed, postgres::Postgres};
    let Some(server) = installed("processors over PostgreSQL", Postgres::start().await) else { return };
    passes("PostgreSQL", open(&server.url_for(&server.create_database().await.unwrap())).await).await;
}

#[cfg(feature = "documents-redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_redis() {
    use postrider_testkit::servers::{installed, redis::Redis};
    let Some(server) = installed("processors over Redis", Redis::start().await) else { return };
    passes("Redis", open(&server.url()).await).await;
}

/// An object store, with these variables instead of the environment's.
#[cfg(feature = "documents-objects")]
fn objects<const N: usize>(url: &str, variables: [(&str, &str); N]) -> Arc<dyn DocumentStore> {
    use postrider::documents::objects::{ObjectDocuments, ObjectOptions};
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Arc::new(ObjectDocuments::new(ObjectOptions::new(url, variables).unwrap()).unwrap())
}

#[cfg(feature = "documents-objects")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_s3() {
    use postrider_testkit::servers::{installed, moto::Moto};
    let Some(moto) = installed("processors over S3", Moto::start().await) else { return };
    moto.make_bucket("documents").await.unwrap();
    let url = format!("s3://documents/processors?region=us-east-1&endpoint={}", moto.endpoint());
    let variables = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];
    passes("S3 (moto)", objects(&url, variables)).await;
}

#[cfg(feature = "documents-dynamodb")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_dynamodb() {
    use postrider::documents::dynamodb::{DynamoDocuments, DynamoOptions};
    use postrider_testkit::servers::{installed, moto::Moto};
    let Some(moto) = installed("processors over DynamoDB", Moto::start().await) else { return };
    let url = format!("dynamodb://processors?region=us-east-1&endpoint={}", moto.endpoint());
    let variables = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    passes("DynamoDB (moto)", Arc::new(DynamoDocuments::new(DynamoOptions::new(&url, variables).unwrap()).unwrap()))
        .await;
}

#[cfg(feature = "documents-objects")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_azure() {
    use postrider_testkit::servers::azurite::{ACCOUNT, Azurite, KEY};
    use postrider_testkit::servers::installed;
    let Some(azurite) = installed("processors over Azure", Azurite::start().await) else { return };
    azurite.make_container("documents").unwrap();
    let url = format!("az://documents/processors?account={ACCOUNT}&endpoint={}", azurite.endpoint());
    passes("Azure (azurite)", objects(&url, [("AZURE_STORAGE_ACCOUNT_KEY", KEY)])).await;
}
