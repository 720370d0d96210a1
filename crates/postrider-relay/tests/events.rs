//! What a relay tells the process that it runs in, event by event.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod running;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Attempts, Broker, DestinationName, DestinationTemplate, ErrorKind, Lane, LaneCount, Message, MessageId,
    RetryPolicy, TopicPattern,
};
use postrider_relay::{Relay, RelayBuilder, RelayEvent, RelayEvents, RelayState};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use running::Running;
use tokio::time::timeout;

const LANES: u16 = 8;

fn store() -> MemoryStore {
    MemoryStore::new(LaneCount::new(LANES).unwrap(), History::Off)
}

fn relay(store: &MemoryStore, broker: &Arc<MemoryBroker>) -> RelayBuilder {
    let broker = Arc::clone(broker) as Arc<dyn Broker>;
    let policy = RetryPolicy {
        initial: Duration::from_millis(1),
        maximum: Duration::from_millis(2),
        attempts: Attempts::AtMost(2),
        ..RetryPolicy::default()
    };
    Relay::builder(Arc::new(store.clone()))
        .destination(DestinationName::new("out"), broker, DestinationTemplate::topic())
        .retry(TopicPattern::every(), policy)
}

async fn all(mut events: RelayEvents) -> Vec<RelayEvent> {
    let mut all = Vec::new();
    while let Some(event) = timeout(Duration::from_secs(60), events.next()).await.unwrap() {
        all.push(event);
    }
    all
}

#[tokio::test]
async fn every_message_is_told_once_as_delivered_and_lanes_before_and_after_them() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording()));
    let messages: Vec<Message> = (0..2_000).map(|n| Message::new("t", "x").key(format!("k{}", n % 9))).collect();
    store.enqueue_committed(&messages);
    let relay = relay(&store, &broker).until_empty().build().unwrap();
    let events = relay.handle().events();
    let summary = relay.run(Default::default()).await.unwrap();
    assert_eq!(summary.delivered, 2_000);
    let events = all(events).await;
    let delivered: Vec<MessageId> = events
        .iter()
        .filter_map(|event| if let RelayEvent::Delivered { id, .. } = event { Some(*id) } else { None })
        .collect();
    let expected: HashSet<MessageId> = messages.iter().map(|message| message.id).collect();
    assert_eq!(delivered.len(), 2_000);
    assert_eq!(delivered.into_iter().collect::<HashSet<_>>(), expected);
    let lanes: BTreeSet<Lane> = (0..LANES).map(Lane).collect();
    let gained = |event: &RelayEvent| if let RelayEvent::LaneGained(lane, _) = event { Some(*lane) } else { None };
    let lost = |event: &RelayEvent| if let RelayEvent::LaneLost(lane, _) = event { Some(*lane) } else { None };
    let count = usize::from(LANES);
    assert_eq!(events[..count].iter().filter_map(gained).collect::<BTreeSet<_>>(), lanes, "{:?}", &events[..count]);
    assert_eq!(events[events.len() - count..].iter().filter_map(lost).collect::<BTreeSet<_>>(), lanes);
}

#[tokio::test]
async fn a_message_that_fails_and_is_given_up_is_told_with_what_was_said() {
    let broker = MemoryBroker::recording().with_script(|_, _| Answer::Fail(ErrorKind::Rejected));
    let (store, broker) = (store(), Arc::new(broker));
    let message = Message::new("t", "x").key("k");
    store.enqueue_committed(std::slice::from_ref(&message));
    let relay = relay(&store, &broker).until_empty().build().unwrap();
    let events = relay.handle().events();
    relay.run(Default::default()).await.unwrap();
    let events = all(events).await;
    let failed = events
        .iter()
        .filter(|event| matches!(event, RelayEvent::Failed { id, kind: ErrorKind::Rejected, .. } if *id == message.id));
    assert!(failed.count() >= 2, "{events:?}");
    let dead: Vec<_> =
        events.iter().filter_map(|event| if let RelayEvent::Dead(dead) = event { Some(dead) } else { None }).collect();
    assert!(matches!(dead[..], [dead] if dead.id == Some(message.id) && dead.key == message.key), "{events:?}");
}

/// A listener that never listens: the relay goes on, and the listener is told what it missed.
#[tokio::test]
async fn a_listener_that_does_not_listen_holds_up_nothing() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::counting()));
    let running = Running::start(relay(&store, &broker));
    let mut idle = running.handle.events();
    let messages = vec![Message::new("t", "x"); 1_000];
    for _ in 0..12 {
        store.enqueue_committed(&messages);
    }
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while running.handle.snapshot().delivered < 12_000 {
        assert!(tokio::time::Instant::now() < until, "{:?}", running.handle.snapshot());
        running.handle.hint();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(idle.next().await, Some(RelayEvent::Missed(missed)) if missed > 3_000));
    running.stop().await;
    assert!(all(idle).await.len() > 8_000);
}

#[tokio::test]
async fn a_second_listener_hears_of_the_lanes_that_are_held_already() {
    let running = Running::start(relay(&store(), &Arc::new(MemoryBroker::counting())));
    let expected: BTreeSet<Lane> = (0..LANES).map(Lane).collect();
    let mut listeners = Vec::new();
    for _ in 0..2 {
        let (mut events, mut lanes) = (running.handle.events(), BTreeSet::new());
        while lanes != expected {
            match timeout(Duration::from_secs(60), events.next()).await.unwrap() {
                Some(RelayEvent::LaneGained(lane, _)) => drop(lanes.insert(lane)),
                other => panic!("{other:?} while it has {lanes:?}"),
            }
        }
        // It goes on listening: the second one is not the first after nobody.
        listeners.push(events);
    }
    running.stop().await;
}

#[tokio::test]
async fn listeners_of_a_relay_that_is_dropped_while_it_runs_come_to_their_end() {
    let running = Running::start(relay(&store(), &Arc::new(MemoryBroker::counting())));
    let mut events = running.handle.events();
    assert!(timeout(Duration::from_secs(60), events.next()).await.unwrap().is_some());
    running.task.abort();
    all(events).await;
    assert!(all(running.handle.events()).await.is_empty());
}

#[tokio::test]
async fn listeners_of_a_relay_that_never_runs_come_to_their_end() {
    let build = || relay(&store(), &Arc::new(MemoryBroker::counting())).build().unwrap();
    let (dropped, unpolled) = (build(), build());
    // Who keeps a handle must not keep the listeners waiting.
    let handles = [dropped.handle(), unpolled.handle()];
    let (first, second) = (handles[0].events(), handles[1].events());
    drop(dropped);
    drop(unpolled.run(Default::default()));
    assert!(all(first).await.is_empty() && all(second).await.is_empty());
    assert_eq!(handles.map(|handle| handle.snapshot().state), [RelayState::Stopped; 2]);
}
