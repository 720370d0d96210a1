//! What is due is found among many, in both ways.

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider_core::{DocumentKey, DocumentStore, Draft, Timestamp};
use postrider_documents::open;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::redis::Redis;
use postrider_testkit::suites::documents::{draft, key};
use tokio::task::JoinSet;

const ALL: usize = 3500;

/// The n-th is due at n.
async fn fill(store: &Arc<dyn DocumentStore>) {
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = Arc::clone(store);
        writers.spawn(async move {
            for n in (writer..ALL).step_by(8) {
                let due = Some(Timestamp(i64::try_from(n).unwrap()));
                store.create(&named(n), &Draft { due, ..draft("1") }).await.unwrap();
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
}

/// Names in another order than their numbers.
fn named(n: usize) -> DocumentKey {
    key(&format!("{:05}", n * 7919 % 100_000))
}

async fn pages(store: &Arc<dyn DocumentStore>, by: i64, at_most: usize) -> Vec<DocumentKey> {
    let mut all: Vec<DocumentKey> = Vec::new();
    loop {
        let page = store.due(key("7").collection(), Timestamp(by), all.last(), at_most).await.unwrap();
        let is_last = page.len() < at_most;
        all.extend(page);
        if is_last {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_found_whether_few_or_most_are_due() {
    let started = Redis::start_with(&["appendfsync no"]).await;
    let Some(server) = installed("a backlog in Redis", started).map(Arc::new) else { return };
    let store = open(&server.url()).await.unwrap();
    store.prepare().await.unwrap();
    fill(&store).await;
    for (due, at_most) in [(10, 3), (1200, 100), (1200, 5000), (2500, 100), (2500, 1001), (ALL, 500), (ALL, 10_000)] {
        let expected: BTreeSet<DocumentKey> = (0..due).map(named).collect();
        let found = pages(&store, i64::try_from(due).unwrap() - 1, at_most).await;
        assert!(found.iter().eq(&expected), "{due} of {ALL}, {at_most} a page: {} found", found.len());
    }
}
