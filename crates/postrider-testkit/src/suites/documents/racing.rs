//! Several writers at once, on two clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_core::{DocumentKey, DocumentStore, Version, WriteError};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::Harness;
use super::harness::{absent, counted, key, loaded, number};

const RACERS: usize = 16;

/// Lets everybody write at once and gives the number and the version of the only winner.
async fn only_winner<F>(
    clients: &[Arc<dyn DocumentStore>; 2],
    write: impl Fn(Arc<dyn DocumentStore>, usize) -> F,
) -> (usize, Version)
where
    F: Future<Output = Result<Version, WriteError>> + Send + 'static,
{
    let start = Arc::new(Barrier::new(RACERS));
    let mut racers = JoinSet::new();
    for n in 0..RACERS {
        let (writing, start) = (write(Arc::clone(&clients[n % 2]), n), Arc::clone(&start));
        racers.spawn(async move {
            start.wait().await;
            (n, writing.await)
        });
    }
    let mut winners = Vec::new();
    while let Some(ended) = racers.join_next().await {
        match ended.expect("a racer failed") {
            (n, Ok(version)) => winners.push((n, version)),
            (_, Err(WriteError::Conflict)) => {}
            (n, Err(other)) => panic!("racer {n} neither won nor conflicted: {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "the winners: {winners:?}");
    winners.remove(0)
}

async fn was_written(store: &Arc<dyn DocumentStore>, key: &DocumentKey, (n, version): (usize, Version)) {
    let stored = loaded(store, key).await;
    assert_eq!((counted(&stored), &stored.version), (n, &version), "the winner's write is not what is there");
}

pub(super) async fn of_many_creators_one_wins(harness: Harness) {
    let clients = [harness.client().await, harness.client().await];
    for round in 0..harness.rounds() {
        let key = key(&format!("round {round}"));
        let winner = only_winner(&clients, |store, n| {
            let key = key.clone();
            async move { store.create(&key, &number(n)).await }
        });
        was_written(&clients[0], &key, winner.await).await;
    }
}

pub(super) async fn of_many_writers_over_one_version_one_wins(harness: Harness) {
    let (clients, key) = ([harness.client().await, harness.client().await], key("7"));
    let mut version = clients[0].create(&key, &number(0)).await.expect("the create");
    for _ in 0..harness.rounds() {
        let winner = only_winner(&clients, |store, n| {
            let (key, over) = (key.clone(), version.clone());
            async move { store.replace(&key, &over, &number(n)).await }
        });
        let (n, next) = winner.await;
        was_written(&clients[1], &key, (n, next.clone())).await;
        version = next;
    }
}

pub(super) async fn of_a_delete_and_a_replace_one_wins(harness: Harness) {
    let (one, two) = (harness.client().await, harness.client().await);
    for round in 0..harness.rounds() {
        let key = key(&format!("round {round}"));
        let version = one.create(&key, &number(1)).await.expect("the create");
        let next = number(2);
        let (deleted, replaced) = tokio::join!(one.delete(&key, &version), two.replace(&key, &version, &next));
        match (deleted, replaced) {
            (Ok(()), Err(WriteError::Conflict)) => absent(&two, &key).await,
            (Err(WriteError::Conflict), Ok(next)) => was_written(&one, &key, (2, next)).await,
            other => panic!("expected one of them to win, found {other:?}"),
        }
    }
}

pub(super) async fn counting_at_once_loses_nothing(harness: Harness) {
    const COUNTERS: usize = 8;
    let (clients, key) = ([harness.client().await, harness.client().await], key("7"));
    clients[0].create(&key, &number(0)).await.expect("the create");
    let each = (harness.rounds() / 5).max(4);
    let mut counters = JoinSet::new();
    for n in 0..COUNTERS {
        let (store, key) = (Arc::clone(&clients[n % 2]), key.clone());
        counters.spawn(async move {
            for _ in 0..each {
                loop {
                    let stored = loaded(&store, &key).await;
                    match store.replace(&key, &stored.version, &number(counted(&stored) + 1)).await {
                        Ok(_) => break,
                        Err(WriteError::Conflict) => {}
                        Err(other) => panic!("a replace neither succeeded nor conflicted: {other:?}"),
                    }
                }
            }
        });
    }
    while let Some(ended) = counters.join_next().await {
        ended.expect("a counter failed");
    }
    assert_eq!(counted(&loaded(&clients[0], &key).await), COUNTERS * each);
}

pub(super) async fn a_reader_never_goes_back(harness: Harness) {
    let (writer, reader, key) = (harness.client().await, harness.client().await, key("7"));
    let mut version = writer.create(&key, &number(0)).await.expect("the create");
    let (answered, last) = (Arc::new(AtomicUsize::new(0)), harness.rounds());
    let writing = {
        let (answered, key) = (Arc::clone(&answered), key.clone());
        tokio::spawn(async move {
            for n in 1..=last {
                version = writer.replace(&key, &version, &number(n)).await.expect("a replace without a rival");
                answered.store(n, Ordering::SeqCst);
            }
        })
    };
    let mut seen = 0;
    while seen < last {
        let (ended, least) = (writing.is_finished(), seen.max(answered.load(Ordering::SeqCst)));
        seen = counted(&loaded(&reader, &key).await);
        assert!(seen >= least, "a reader saw {seen} after {least} was answered or read");
        assert!(!ended || seen == last, "the last write was answered and is not read: {seen}");
        // A store in this process answers at once, and the writer may wait for this thread.
        tokio::task::yield_now().await;
    }
    writing.await.expect("the writer failed");
}
