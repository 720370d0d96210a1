//! One order of all messages, and none at all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Attempt, Attempts, Broker, DestinationName, DestinationTemplate, ErrorKind, LaneCount, Message, OnDead, Outcome,
    Outgoing, RelayId, RetryPolicy, Room, Settlement, Store, TopicPattern,
};
use postrider_relay::{Ordering, Relay, RelayBuilder};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use tokio_util::sync::CancellationToken;

const COUNT: usize = 1_000;

fn builder(store: MemoryStore, broker: Arc<dyn Broker>) -> RelayBuilder {
    let policy = RetryPolicy {
        initial: Duration::from_millis(10),
        maximum: Duration::from_millis(20),
        attempts: Attempts::AtMost(3),
        ..RetryPolicy::default()
    };
    Relay::builder(Arc::new(store))
        .destination(DestinationName::new("out"), broker, DestinationTemplate::topic())
        .retry(TopicPattern::every(), policy)
        .until_empty()
}

async fn run(builder: RelayBuilder) {
    let running = builder.build().unwrap().run(CancellationToken::new());
    tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap();
}

/// An outbox of one lane with messages of five keys and of none.
fn outbox() -> MemoryStore {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let message = |n: usize| {
        let message = Message::new("t", n.to_string());
        if n % 6 == 5 { message } else { message.key(format!("k{}", n % 6)) }
    };
    store.enqueue_committed(&(0..COUNT).map(message).collect::<Vec<_>>());
    store
}

fn delivered(broker: &MemoryBroker) -> Vec<usize> {
    let number = |outgoing: &Outgoing| std::str::from_utf8(&outgoing.message.payload).unwrap().parse().unwrap();
    broker.messages().iter().map(number).collect()
}

fn refusing(number: &'static str) -> Arc<MemoryBroker> {
    let script = move |outgoing: &Outgoing, _| match outgoing.message.payload == number {
        true => Answer::Fail(ErrorKind::Rejected),
        false => Answer::Accept,
    };
    Arc::new(MemoryBroker::recording().with_script(script))
}

#[tokio::test]
async fn one_lane_is_one_order_and_a_message_given_up_lets_it_go_on() {
    let broker = refusing("500");
    run(builder(outbox(), Arc::clone(&broker) as _)).await;
    assert_eq!(delivered(&broker), (0..COUNT).filter(|n| *n != 500).collect::<Vec<_>>());
}

#[tokio::test]
async fn without_ordering_one_lane_is_nothing_but_one_relay_at_a_time() {
    let broker = refusing("500");
    run(builder(outbox(), Arc::clone(&broker) as _).ordering(Ordering::None)).await;
    assert_eq!(delivered(&broker).into_iter().collect::<BTreeSet<_>>().len(), COUNT - 1);
}

/// Sets aside what a relay that kept one order had set aside when it ended, with a key and without.
async fn set_aside(store: &MemoryStore) {
    let me = RelayId(uuid::Uuid::from_u128(1));
    let (mut leases, mut source) = (store.leases().await.unwrap(), store.source().await.unwrap());
    leases.join(me, "before", Duration::from_secs(60)).await.unwrap();
    let lanes = leases.acquire(me, u16::MAX).await.unwrap();
    let rows = source.read(&lanes, Room { rows: COUNT / 2, bytes: 1 << 20 }).await.unwrap().rows;
    let outcome = Outcome::SetAside { waiting_for: None };
    let batch: Vec<_> = rows
        .iter()
        .map(|row| Settlement {
            row: row.id,
            message: row.message_id(),
            lane: row.lane,
            outcome: outcome.clone(),
            attempt: Attempt(1),
            suspicion: 0,
        })
        .collect();
    store.settler().await.unwrap().settle(me, &lanes, &batch).await.unwrap();
    leases.release(me, &lanes).await.unwrap();
    leases.leave(me).await.unwrap();
}

#[tokio::test]
async fn what_one_order_set_aside_is_found_by_a_relay_of_either_ordering() {
    for ordering in [Ordering::Key, Ordering::None] {
        let (store, broker) = (outbox(), refusing("-"));
        set_aside(&store).await;
        run(builder(store, Arc::clone(&broker) as _).ordering(ordering)).await;
        let delivered = delivered(&broker);
        assert_eq!(delivered.iter().collect::<BTreeSet<_>>().len(), COUNT, "{ordering:?}");
        if ordering == Ordering::Key {
            assert_eq!(delivered, (0..COUNT).collect::<Vec<_>>());
        }
    }
}

#[test]
fn one_order_of_everything_needs_one_lane() {
    let store = MemoryStore::new(LaneCount::new(2).unwrap(), History::Off);
    let relay = builder(store, refusing("-")).ordering(Ordering::Everything);
    assert_eq!(relay.build().unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_key_cannot_be_held_where_keys_have_no_order_of_their_own() {
    let held = |store, ordering| {
        let broker = Arc::new(MemoryBroker::recording());
        builder(store, broker).ordering(ordering).on_dead(TopicPattern::every(), OnDead::Hold).build()
    };
    let several = MemoryStore::new(LaneCount::new(8).unwrap(), History::Off);
    for (store, ordering) in [(outbox(), Ordering::Key), (several, Ordering::None)] {
        let error = held(store, ordering).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("cannot be held"), "{error}");
    }
}
