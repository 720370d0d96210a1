//! The limit through the seams delivers everything once and leaves nothing, or it would be none.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails ends with a panic")]

use std::sync::Arc;

use postrider_bench::limit::limit;
use postrider_bench::load::Load;
use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{ErrorKind, Store};
use postrider_stores::{MigrateOptions, StoreOptions, migrate, open};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::postgres::Postgres;

fn load() -> Load {
    Load { messages: 10_000, keys: 100, payload: 200, writers: 1, topic: "bench.orders".into() }
}

async fn filled(server: &Postgres, load: &Load) -> Arc<dyn Store> {
    let url = server.fresh_database().await.unwrap();
    migrate(&url, &MigrateOptions::default()).await.unwrap();
    let store = open(&url, &StoreOptions::default()).await.unwrap();
    let messages: Vec<_> = (0..load.messages).map(|number| load.message(number)).collect();
    let mut operator = store.operator().await.unwrap();
    for batch in messages.chunks(1_000) {
        operator.enqueue(batch).await.unwrap();
    }
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_delivers_everything_once_and_tries_nothing_again() {
    let Some(server) = installed("the limit over PostgreSQL", Postgres::start().await) else { return };
    let load = load();
    let store = filled(&server, &load).await;
    let run = limit(Arc::clone(&store), Arc::new(MemoryBroker::counting()), &load).await.unwrap();
    assert!(run.verdict.holds() && run.verdict.repeats == 0 && run.verdict.order.is_none(), "{}", run.verdict);
    let status = store.operator().await.unwrap().status(1).await.unwrap();
    assert_eq!(status.pending.value(), 0, "nothing is left");

    let store = filled(&server, &load).await;
    let refusing = MemoryBroker::counting().with_script(|_, before| match before {
        5_000 => Answer::Fail(ErrorKind::Rejected),
        _ => Answer::Accept,
    });
    let refused = limit(store, Arc::new(refusing), &load).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused:?}");
}
