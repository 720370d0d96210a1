//! Messages that do not go at once: tried again, or set aside behind a held one. Each run shows that they were.

use std::sync::Arc;

use postrider_bench::drain::drain;
use postrider_bench::load::{Load, number_of};
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

/// Drains a backlog of which every other message is refused at its first attempt. Were all of them refused, that would
/// speak against the broker, and nothing would be written down.
pub async fn tried_again(database: &Database, load: &Load) -> Verdict {
    let broker = MemoryBroker::counting().with_script(|outgoing, _| {
        let refused = number_of(&outgoing.message.payload).is_some_and(|number| number.is_multiple_of(2));
        if refused && outgoing.attempt.0 <= 1 { Answer::Fail(ErrorKind::Rejected) } else { Answer::Accept }
    });
    drain(database.store().await, Arc::new(broker), load, |_| {}).await.unwrap().verdict
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
