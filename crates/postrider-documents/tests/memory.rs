//! Documents in memory: they pass the suite, and stores that are wrong in one thing do not.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod memory_harness;
mod wrong;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_harness::Harness;
use postrider_core::{DocumentStore, Draft, ErrorKind, Timestamp, WriteError};
use postrider_documents::memory::MemoryDocuments;
use postrider_testkit::suites::documents::{draft, key, run};
use postrider_testkit::troubled_documents::{Call, Trouble, TroubledDocuments};
use tokio::time::timeout;
use wrong::{Wrong, WrongDocuments};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_url_opens_it_and_two_openings_share_nothing() {
    let key = key("7");
    let (one, two) =
        (postrider_documents::open("memory:").await.unwrap(), postrider_documents::open("memory:").await.unwrap());
    one.create(&key, &draft("{}")).await.unwrap();
    assert!(one.load(&key).await.unwrap().is_some() && two.load(&key).await.unwrap().is_none());
    let error = postrider_documents::open("memory://host").await.unwrap_err().to_string();
    assert!(error.contains("written memory:"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_memory_pass_the_suite() {
    run("memory", async || Harness::new(MemoryDocuments::new().limit(1 << 20))).await.expect_success();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_wrong_in_one_thing_fails_the_case_of_it() {
    for (wrong, case) in Wrong::ALL {
        let report = run("a wrong one", async || Harness::new(WrongDocuments::new(wrong))).await;
        let failed: Vec<&str> = report.failures().iter().map(|(case, _)| case.as_str()).collect();
        assert!(failed.contains(&case), "{wrong:?} passes {case}; failed: {failed:?}");
        println!("{wrong:?}: caught by {}", failed.join(", "));
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_in_trouble_does_what_its_script_says() {
    let (key, first, second) = (key("7"), draft("1"), draft("2"));
    let inner: Arc<dyn DocumentStore> = Arc::new(MemoryDocuments::new());
    let next = Arc::new(Mutex::new(Trouble::None));
    let asked = Arc::clone(&next);
    let store = TroubledDocuments::new(Arc::clone(&inner), move |call| match call {
        Call::Prepare => Trouble::Hang,
        _ => std::mem::replace(&mut *asked.lock().unwrap(), Trouble::None),
    });
    let suffer = |trouble| *next.lock().unwrap() = trouble;

    suffer(Trouble::FailBefore(ErrorKind::Throttled));
    assert_eq!(failure(store.create(&key, &first).await), ErrorKind::Throttled);
    assert!(inner.load(&key).await.unwrap().is_none());
    suffer(Trouble::FailAfter);
    assert_eq!(failure(store.create(&key, &first).await), ErrorKind::Unknown);
    let version = inner.load(&key).await.unwrap().unwrap().version;

    suffer(Trouble::LoseAnswer);
    assert!(timeout(HOUR, store.replace(&key, &version, &second)).await.is_err());
    let stored = inner.load(&key).await.unwrap().unwrap();
    assert_eq!(stored.json, "2");
    suffer(Trouble::Stale);
    assert_eq!(store.load(&key).await.unwrap().unwrap().json, "1");
    assert_eq!(store.load(&key).await.unwrap().unwrap(), stored);

    for (trouble, has_happened) in [(Trouble::Delay(HOUR), false), (Trouble::Late(HOUR), true)] {
        let version = inner.load(&key).await.unwrap().unwrap().version;
        suffer(trouble);
        assert!(timeout(HOUR / 2, store.replace(&key, &version, &draft("3"))).await.is_err());
        assert_eq!(inner.load(&key).await.unwrap().unwrap().version != version, has_happened, "{trouble:?}");
    }
    assert!(timeout(HOUR, store.prepare()).await.is_err());

    let (now, carts) = (Timestamp(1), key.collection());
    let version = store.load(&key).await.unwrap().unwrap().version;
    let version = store.replace(&key, &version, &Draft { due: Some(now), ..draft("4") }).await.unwrap();
    suffer(Trouble::Stale);
    assert_eq!(store.due(carts, now, None, 9).await.unwrap(), []);
    assert_eq!(store.due(carts, now, None, 9).await.unwrap(), std::slice::from_ref(&key));
    suffer(Trouble::None);
    store.delete(&key, &version).await.unwrap();
    suffer(Trouble::Stale);
    assert_eq!(store.due(carts, now, None, 9).await.unwrap(), std::slice::from_ref(&key));
    assert_eq!(store.due(carts, now, None, 9).await.unwrap(), []);

    suffer(Trouble::Held);
    let mut held = Box::pin(store.create(&key, &first));
    tokio::select! {
        created = &mut held => panic!("it is not held: {created:?}"),
        () = store.held() => assert!(inner.load(&key).await.unwrap().is_none()),
    }
    store.release();
    held.await.unwrap();
    suffer(Trouble::Panic);
    let panicking = Arc::clone(&store);
    assert!(tokio::spawn(async move { panicking.check().await }).await.is_err());
}

fn failure<T: std::fmt::Debug>(written: Result<T, WriteError>) -> ErrorKind {
    match written {
        Err(WriteError::Failed(error)) => error.kind(),
        other => panic!("expected a failure, found {other:?}"),
    }
}
