//! Messages that do not go at once: tried again, or set aside behind a held one. Each run proves that they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use postrider_bench::drain::drain;
use postrider_bench::load::Load;
use postrider_bench::verdict::Verdict;
use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    DeadFilter, DestinationName, DestinationTemplate, ErrorKind, OnDead, RowState, Store, TopicPattern,
};
use postrider_relay::Relay;
use tokio_util::sync::CancellationToken;

use super::database::Database;

/// Keys of a backlog in which hardly two messages have the same: nothing waits behind another.
pub const KEYS_OF_THEIR_OWN: u32 = 10_000_000;
/// A head that was given up and holds its key, as a relay leaves it.
const HOLD: &str = "\
update postrider_outbox set state = 3, attempts = 10, dead_at = clock_timestamp(), dead_reason = 1
 where id = (select min(id) from postrider_outbox)";

/// Drains a backlog of which each message is refused at its first attempt.
pub async fn tried_again(database: &Database, load: &Load) -> Verdict {
    let again = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&again);
    let broker = MemoryBroker::counting().with_script(move |outgoing, _| {
        if outgoing.attempt.0 <= 1 {
            return Answer::Fail(ErrorKind::Rejected);
        }
        counted.fetch_add(1, Ordering::Relaxed);
        Answer::Accept
    });
    let run = drain(database.store().await, Arc::new(broker), load, |_| {}).await.unwrap();
    assert_eq!(again.load(Ordering::Relaxed), load.messages, "messages that were tried again");
    run.verdict
}

/// Holds the one key of a backlog by its first message.
pub async fn hold(database: &Database) {
    assert_eq!(database.client.execute(HOLD, &[]).await.unwrap(), 1);
}

/// Lets a relay set aside what stands behind the held message, opens the key, and drains it.
pub async fn set_aside_and_drained(database: &Database, load: &Load) -> Verdict {
    let store = database.store().await;
    set_aside(database, &store, load).await;
    let held = DeadFilter { state: Some(RowState::Holding), ..DeadFilter::default() };
    assert_eq!(store.operator().await.unwrap().replay(&held, 1).await.unwrap().len(), 1, "keys that were opened");
    drain(store, Arc::new(MemoryBroker::counting()), load, |_| {}).await.unwrap().verdict
}

/// Ends when every message but the one that holds them stands set aside in the table.
async fn set_aside(database: &Database, store: &Arc<dyn Store>, load: &Load) {
    let broker = Arc::new(MemoryBroker::counting());
    let relay = Relay::builder(Arc::clone(store))
        .name("bench-aside")
        .destination(DestinationName::new("bench"), broker, DestinationTemplate::topic())
        .on_dead(TopicPattern::every(), OnDead::Hold)
        .build()
        .unwrap();
    let (handle, stop) = (relay.handle(), CancellationToken::new());
    let running = tokio::spawn(relay.run(stop.clone()));
    database.has_set_aside(load.messages - 1).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(handle.snapshot().delivered, 0, "nothing behind a held message is delivered");
}
