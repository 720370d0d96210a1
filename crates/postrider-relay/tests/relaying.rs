//! A relay over the store and the broker in memory: what it delivers, and when it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Attempts, Broker, DestinationName, DestinationTemplate, ErrorKind, LaneCount, Message, RetryPolicy, Store,
    TopicPattern,
};
use postrider_relay::{Relay, RelayBuilder, RelayState, Summary};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use tokio_util::sync::CancellationToken;

fn store() -> MemoryStore {
    MemoryStore::new(LaneCount::new(8).unwrap(), History::Off)
}

fn relay(store: &MemoryStore, broker: &Arc<MemoryBroker>) -> RelayBuilder {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let broker: Arc<dyn Broker> = Arc::clone(broker) as Arc<dyn Broker>;
    Relay::builder(store).destination(DestinationName::new("out"), broker, DestinationTemplate::topic())
}

fn quick() -> RetryPolicy {
    RetryPolicy {
        initial: Duration::from_millis(10),
        maximum: Duration::from_millis(20),
        attempts: Attempts::AtMost(3),
        ..RetryPolicy::default()
    }
}

async fn until_empty(builder: RelayBuilder) -> Summary {
    let relay = builder.until_empty().patience(Duration::from_secs(2)).build().unwrap();
    tokio::time::timeout(Duration::from_secs(60), relay.run(CancellationToken::new())).await.unwrap().unwrap()
}

fn keyed(count: usize, keys: usize) -> Vec<Message> {
    (0..count).map(|n| Message::new("t", n.to_string()).key(format!("k{}", n % keys))).collect()
}

fn in_order(broker: &MemoryBroker, keys: usize) {
    let mut last = vec![-1_i64; keys];
    for outgoing in broker.messages() {
        let number: i64 = std::str::from_utf8(&outgoing.message.payload).unwrap().parse().unwrap();
        let key = usize::try_from(number).unwrap() % keys;
        if number > last[key] {
            assert!(
                last[key] < 0 || number == last[key] + i64::try_from(keys).unwrap(),
                "{number} came after {}",
                last[key]
            );
            last[key] = number;
        }
    }
}

#[tokio::test]
async fn everything_is_delivered_once_and_in_order_per_key() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording()));
    store.enqueue_committed(&keyed(20_000, 7));
    let summary = until_empty(relay(&store, &broker)).await;
    assert_eq!(summary.delivered, 20_000);
    assert_eq!(broker.accepted(), 20_000);
    assert!(store.rows().is_empty());
    in_order(&broker, 7);
    assert_eq!(broker.closed(), 1);
}

#[tokio::test]
async fn messages_that_come_while_it_runs_are_delivered_and_a_graceful_stop_repeats_nothing() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording().with_delay(Duration::from_millis(1))));
    let stop = CancellationToken::new();
    let running = relay(&store, &broker).build().unwrap();
    let handle = running.handle();
    let task = tokio::spawn(running.run(stop.clone()));
    for chunk in keyed(5_000, 11).chunks(100) {
        store.enqueue_committed(chunk);
        tokio::task::yield_now().await;
    }
    while handle.snapshot().delivered < 1_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    let first = task.await.unwrap().unwrap();
    assert_eq!(first.abandoned, 0);
    assert_eq!(handle.snapshot().state, RelayState::Stopped);
    let second = until_empty(relay(&store, &broker)).await;
    assert_eq!(first.delivered + second.delivered, 5_000);
    assert_eq!(broker.accepted(), 5_000, "a graceful stop repeats nothing");
    in_order(&broker, 11);
}

#[tokio::test]
async fn a_graceful_stop_waits_for_the_answer_to_what_is_in_flight() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording().with_script(|_, _| Answer::Hold)));
    let stop = CancellationToken::new();
    let running = relay(&store, &broker).build().unwrap();
    let handle = running.handle();
    let task = tokio::spawn(running.run(stop.clone()));
    store.enqueue_committed(&keyed(1, 1));
    while broker.sent() < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    while !matches!(handle.snapshot().state, RelayState::Stopping | RelayState::Stopped) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while !task.is_finished() {
        broker.release();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let summary = task.await.unwrap().unwrap();
    assert_eq!((summary.delivered, summary.abandoned), (1, 0));
    assert!(store.rows().is_empty(), "what was in flight is settled");
}

#[tokio::test]
async fn a_message_that_is_refused_is_dead_after_its_attempts_and_the_others_flow() {
    let store = store();
    let broker =
        Arc::new(MemoryBroker::recording().with_script(|outgoing, _| match outgoing.message.payload.as_ref() {
            b"13" => Answer::Fail(ErrorKind::Rejected),
            _ => Answer::Accept,
        }));
    store.enqueue_committed(&keyed(1_000, 5));
    let every = TopicPattern::every();
    let running = relay(&store, &broker).retry(every, quick()).build().unwrap();
    let handle = running.handle();
    let stop = CancellationToken::new();
    let task = tokio::spawn(running.run(stop.clone()));
    while handle.snapshot().dead < 1 || handle.snapshot().delivered < 999 {
        store.advance(Duration::from_millis(5));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stop.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(broker.accepted(), 999);
    assert_eq!(store.rows().len(), 1, "the dead letter stays");
}

#[tokio::test]
async fn a_destination_that_is_down_costs_no_attempt_and_ends_a_run_until_empty() {
    let store = store();
    let broker = Arc::new(MemoryBroker::recording().with_script(|_, _| Answer::Fail(ErrorKind::Unavailable)));
    store.enqueue_committed(&keyed(100, 100));
    let summary = until_empty(relay(&store, &broker)).await;
    assert_eq!((summary.delivered, summary.dead), (0, 0));
    assert_eq!(summary.paused.len(), 1);
    assert_eq!(store.rows().len(), 100);
}

#[tokio::test]
async fn the_next_pages_are_read_while_the_first_is_being_published() {
    let store = store();
    let broker = Arc::new(MemoryBroker::recording().with_script(|_, before| match before {
        0 => Answer::Hold,
        _ => Answer::Accept,
    }));
    // Three pages over three keys, each of which has a message in the call that is held.
    store.enqueue_committed(&keyed(6_000, 3));
    let running = relay(&store, &broker).build().unwrap();
    let handle = running.handle();
    let stop = CancellationToken::new();
    let task = tokio::spawn(running.run(stop.clone()));
    let all_read = async {
        while handle.snapshot().window_rows < 6_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all_read).await.unwrap();
    assert_eq!(broker.accepted(), 0);
    broker.release();
    while handle.snapshot().delivered < 6_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    task.await.unwrap().unwrap();
    in_order(&broker, 3);
}
