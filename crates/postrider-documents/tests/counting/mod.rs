//! Counting in one document while answers are lost and connections cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::{DocumentStore, ErrorKind, WriteError};
use postrider_documents::open;
use postrider_testkit::proxy::Proxy;
use postrider_testkit::suites::documents::{draft, key};

/// Every worker counts on until its own marks are in, and until an answer to a write was lost: after a write without an
/// answer it looks whether it was its own.
pub async fn is_exact(proxy: &Proxy, direct: &str, behind: &str) {
    const WORKERS: usize = 4;
    const LEAST: usize = 25;
    let direct = open(direct).await.unwrap();
    direct.prepare().await.unwrap();
    direct.create(&key("7"), &draft("[]")).await.unwrap();
    let lost = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let (store, lost) = (open(behind).await.unwrap(), Arc::clone(&lost));
        workers.spawn(async move {
            let mut marked = 0;
            while marked < LEAST || lost.load(Ordering::SeqCst) == 0 {
                mark(&store, &format!("{worker}-{marked}"), &lost).await;
                marked += 1;
            }
            marked
        });
    }
    let (mut troubles, mut expected) = (0, 0);
    while !workers.is_empty() {
        tokio::select! {
            ended = workers.join_next() => expected += ended.unwrap().unwrap(),
            () = tokio::time::sleep(Duration::from_millis(40)) => {
                troubles += 1;
                if troubles % 3 == 0 { proxy.cut() } else { proxy.lose_answer() }
            }
        }
    }
    let stored = direct.load(&key("7")).await.unwrap().unwrap();
    let mut marks: Vec<String> = serde_json::from_slice(&stored.json).unwrap();
    let all = marks.len();
    marks.sort();
    marks.dedup();
    assert_eq!((marks.len(), all), (expected, expected), "a mark is lost or there twice");
    println!("{troubles} troubles, {} writes without an answer", lost.load(Ordering::SeqCst));
    assert!(expected >= WORKERS * LEAST && lost.load(Ordering::SeqCst) > 0, "no answer was lost");
}

async fn mark(store: &Arc<dyn DocumentStore>, mark: &str, lost: &AtomicUsize) {
    loop {
        let Ok(stored) = store.load(&key("7")).await else { continue };
        let stored = stored.unwrap();
        let mut marks: Vec<String> = serde_json::from_slice(&stored.json).unwrap();
        if marks.iter().any(|known| known == mark) {
            return;
        }
        marks.push(mark.to_owned());
        match store.replace(&key("7"), &stored.version, &draft(serde_json::to_vec(&marks).unwrap())).await {
            Ok(_) => return,
            Err(WriteError::Failed(error)) if error.kind() == ErrorKind::Unknown => {
                lost.fetch_add(1, Ordering::SeqCst);
            }
            Err(_) => {}
        }
    }
}
