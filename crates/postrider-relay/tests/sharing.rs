//! Several relays over one outbox: each comes to its fair share of the lanes, and no message pays for it. Time is
//! tokio's own, paused; the store's clock stands still, so that no lease runs out by itself.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod running;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Broker, DestinationName, DestinationTemplate, ErrorKind, Lane, LaneCount, Message, Store, lane_of,
};
use postrider_relay::{Relay, RelayBuilder, RelayState};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use postrider_testkit::troubled::{Trouble, TroubledStore};
use running::Running;
use tokio::time::{Instant, sleep};

const LEASE: Duration = Duration::from_secs(3);
/// A lease is renewed every third of it.
const HEARTBEAT: Duration = Duration::from_secs(1);
const LANES: u16 = 8;

fn store() -> MemoryStore {
    MemoryStore::new(LaneCount::new(LANES).unwrap(), History::Off)
}

fn relay(store: Arc<dyn Store>, broker: &Arc<MemoryBroker>) -> RelayBuilder {
    let broker: Arc<dyn Broker> = Arc::<MemoryBroker>::clone(broker);
    Relay::builder(store)
        .destination(DestinationName::new("out"), broker, DestinationTemplate::topic())
        .lease(LEASE)
        .stop_deadline(Duration::from_secs(20))
}

/// A relay over a store that works.
fn over(store: &MemoryStore, broker: &Arc<MemoryBroker>) -> Running {
    Running::start(relay(Arc::new(store.clone()), broker))
}

fn lanes_of(relay: &Running) -> Vec<Lane> {
    relay.handle.snapshot().lanes
}

async fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    for _ in 0..100_000 {
        if holds() {
            return since.elapsed();
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came to this: {what}");
}

/// How many lanes each has, the most first, when all are held by one relay each.
fn shares(relays: &[&Running]) -> Option<Vec<usize>> {
    let lanes: Vec<Vec<Lane>> = relays.iter().map(|relay| lanes_of(relay)).collect();
    let distinct: BTreeSet<Lane> = lanes.iter().flatten().copied().collect();
    let mut counts: Vec<usize> = lanes.iter().map(Vec::len).collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    (distinct.len() == usize::from(LANES) && counts.iter().sum::<usize>() == usize::from(LANES)).then_some(counts)
}

/// A key of each lane, in the order of the lanes.
fn keys() -> Vec<String> {
    let count = LaneCount::new(LANES).unwrap();
    let key = |lane: Lane| (0..).map(|n| format!("k{n}")).find(|key| lane_of(key, count) == lane).unwrap();
    count.all().map(key).collect()
}

/// So many messages of each lane, in turn.
fn messages(each: usize) -> Vec<Message> {
    let keys = keys();
    (0..each).flat_map(|n| keys.iter().map(move |key| Message::new("t", n.to_string()).key(key))).collect()
}

/// Every message once, and those of a key in their order.
fn exactly_once_and_in_order(broker: &MemoryBroker, each: usize) {
    let mut next: BTreeMap<String, usize> = BTreeMap::new();
    for outgoing in broker.messages() {
        let key = outgoing.message.key.as_ref().unwrap().to_string();
        let number: usize = std::str::from_utf8(&outgoing.message.payload).unwrap().parse().unwrap();
        let expected = next.entry(key.clone()).or_insert(0);
        assert_eq!(number, *expected, "of key {key}");
        *expected += 1;
    }
    assert_eq!(next.len(), usize::from(LANES));
    assert!(next.values().all(|count| *count == each), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn members_that_join_and_leave_come_to_even_shares_within_two_heartbeats() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording()));
    let first = over(&store, &broker);
    until("the first has every lane", || shares(&[&first]) == Some(vec![8])).await;
    let second = over(&store, &broker);
    let took = until("two share", || shares(&[&first, &second]) == Some(vec![4, 4])).await;
    assert!(took <= HEARTBEAT * 2, "{took:?}");
    let third = over(&store, &broker);
    let took = until("three share", || shares(&[&first, &second, &third]) == Some(vec![3, 3, 2])).await;
    assert!(took <= HEARTBEAT * 2, "{took:?}");
    first.stop().await;
    let took = until("two are left", || shares(&[&second, &third]) == Some(vec![4, 4])).await;
    assert!(took <= HEARTBEAT, "{took:?}");
    second.stop().await;
    third.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lanes_that_change_hands_under_load_repeat_nothing_and_keep_the_order() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording().with_delay(Duration::from_millis(3))));
    let mut relays = vec![over(&store, &broker)];
    let all = messages(600);
    let mut chunks = all.chunks(40);
    for round in 0..120 {
        if let Some(chunk) = chunks.next() {
            store.enqueue_committed(chunk);
        }
        match round {
            10 | 20 | 30 | 70 => relays.push(over(&store, &broker)),
            50 | 60 | 90 => assert_eq!(relays.remove(0).stop().await.abandoned, 0),
            _ => {}
        }
        sleep(Duration::from_millis(100)).await;
    }
    until("all is delivered", || store.rows().is_empty()).await;
    exactly_once_and_in_order(&broker, 600);
    for relay in relays {
        relay.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lane_is_handed_back_when_what_is_in_flight_is_answered_and_settled_and_not_before() {
    let store = store();
    let held = keys()[7].clone();
    let broker = MemoryBroker::recording().with_script(move |outgoing, _| {
        let is_held = outgoing.message.key.as_ref().is_some_and(|key| key.as_str() == held);
        if is_held && outgoing.message.payload == "0" { Answer::Hold } else { Answer::Accept }
    });
    // A call of its own for each message, so that the one which is held holds no other.
    let broker = Arc::new(broker.with_profile(|profile| (profile.max_batch, profile.max_concurrent) = (1, 16)));
    let first = over(&store, &broker);
    until("the first has every lane", || lanes_of(&first).len() == 8).await;
    store.enqueue_committed(&messages(3));
    until("all but one key is delivered", || store.rows().len() == 3).await;
    let second = over(&store, &broker);
    until("all other surplus lanes go over", || lanes_of(&second).len() == 3 && lanes_of(&first).len() == 5).await;
    sleep(HEARTBEAT * 4).await;
    assert!(lanes_of(&first).contains(&Lane(7)), "its message is still on its way");
    store.enqueue_committed(&[Message::new("t", "0").key(keys()[0].clone())]);
    until("the other lanes go on", || store.rows().len() == 3).await;
    broker.release();
    until("the lane goes over", || lanes_of(&second).contains(&Lane(7))).await;
    until("its messages are delivered", || store.rows().is_empty()).await;
    assert_eq!(broker.accepted(), 25, "nothing twice");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_is_not_handed_back_while_its_settle_cannot_be_carried_out() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording()));
    let away = Arc::new(Mutex::new(false));
    let script = Arc::clone(&away);
    let troubled = TroubledStore::wrap(Arc::new(store.clone()), move |call| {
        if call == "settle" && *script.lock().unwrap() { Trouble::Fail(ErrorKind::Unavailable) } else { Trouble::None }
    });
    let first = Running::start(relay(troubled, &broker));
    until("the first has every lane", || lanes_of(&first).len() == 8).await;
    *away.lock().unwrap() = true;
    store.enqueue_committed(&messages(1));
    until("all was accepted", || broker.accepted() == 8).await;
    let second = over(&store, &broker);
    sleep(HEARTBEAT * 5).await;
    assert_eq!((lanes_of(&second).len(), broker.accepted()), (0, 8), "it would send again what is not recorded");
    *away.lock().unwrap() = false;
    until("they share", || shares(&[&first, &second]) == Some(vec![4, 4])).await;
    until("all is settled", || store.rows().is_empty()).await;
    assert_eq!(broker.accepted(), 8, "nothing twice");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_destination_keeps_no_lane_from_its_new_owner() {
    let store = store();
    let down = Arc::new(Mutex::new(true));
    let script = Arc::clone(&down);
    let broker = Arc::new(MemoryBroker::recording().with_script(move |_, _| {
        if *script.lock().unwrap() { Answer::Fail(ErrorKind::Unavailable) } else { Answer::Accept }
    }));
    let first = over(&store, &broker);
    store.enqueue_committed(&messages(5));
    let paused = |relay: &Running| relay.handle.snapshot().destinations.iter().any(|found| found.paused.is_some());
    until("the destination pauses", || paused(&first) && lanes_of(&first).len() == 8).await;
    let second = over(&store, &broker);
    let took = until("they share", || shares(&[&first, &second]) == Some(vec![4, 4])).await;
    assert!(took <= HEARTBEAT * 2, "{took:?}");
    assert!(paused(&first) && store.rows().len() == 40);
    *down.lock().unwrap() = false;
    until("all is delivered", || store.rows().is_empty()).await;
    exactly_once_and_in_order(&broker, 5);
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_graceful_stop_the_lanes_are_read_again_within_a_second_and_nothing_is_repeated() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording().with_delay(Duration::from_millis(5))));
    let (first, second) = (over(&store, &broker), over(&store, &broker));
    until("they share", || shares(&[&first, &second]) == Some(vec![4, 4])).await;
    store.enqueue_committed(&messages(200));
    until("it is under way", || broker.accepted() > 100).await;
    assert_eq!(first.stop().await.abandoned, 0);
    let stopped = Instant::now();
    store.enqueue_committed(&keys().iter().map(|key| Message::new("t", "200").key(key)).collect::<Vec<_>>());
    until("all is delivered", || store.rows().is_empty()).await;
    assert!(stopped.elapsed() < Duration::from_secs(1), "{:?}", stopped.elapsed());
    exactly_once_and_in_order(&broker, 201);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_of_the_only_lane_takes_over_and_a_newcomer_does_not() {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let broker = Arc::new(MemoryBroker::recording());
    let first = over(&store, &broker);
    until("the first has the lane", || lanes_of(&first).len() == 1).await;
    sleep(Duration::from_millis(5)).await;
    let second = over(&store, &broker);
    sleep(HEARTBEAT * 5).await;
    assert_eq!((lanes_of(&first).len(), second.handle.snapshot().state), (1, RelayState::Standby));
    first.stop().await;
    let took = until("the other one takes over", || lanes_of(&second).len() == 1).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_or_an_acquisition_without_an_answer_strands_no_lane() {
    for call in ["release", "acquire", "owned", "members", "evict"] {
        for trouble in [Trouble::LoseAnswer, Trouble::Fail(ErrorKind::Unknown), Trouble::Hang] {
            let (store, broker) = (store(), Arc::new(MemoryBroker::recording()));
            let left = Arc::new(Mutex::new(2_u32));
            let script = Arc::clone(&left);
            let troubled = TroubledStore::wrap(Arc::new(store.clone()), move |name| {
                let mut left = script.lock().unwrap();
                if name != call || *left == 0 {
                    return Trouble::None;
                }
                *left -= 1;
                trouble
            });
            let first = Running::start(relay(troubled, &broker));
            until("the first has every lane", || lanes_of(&first).len() == 8).await;
            store.enqueue_committed(&messages(10));
            let second = over(&store, &broker);
            until("they share", || shares(&[&first, &second]) == Some(vec![4, 4])).await;
            until("all is delivered", || store.rows().is_empty()).await;
            assert_eq!(first.stop().await.abandoned, 0, "{call} {trouble:?}");
            until("the other one has every lane", || lanes_of(&second).len() == 8).await;
            exactly_once_and_in_order(&broker, 10);
            second.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_joins_anew_again_and_again_under_load_loses_nothing_and_keeps_the_order() {
    let (store, broker) = (store(), Arc::new(MemoryBroker::recording().with_delay(Duration::from_millis(2))));
    let reads = Arc::new(Mutex::new(0_u32));
    let troubled = TroubledStore::wrap(Arc::new(store.clone()), move |name| {
        let mut reads = reads.lock().unwrap();
        *reads += u32::from(name == "discontinued?");
        // Two right after each other: the second one is seen while the first is still being answered.
        match (name, *reads % 60) {
            ("discontinued?", 20 | 21) if *reads < 1_000 => Trouble::Discontinue,
            _ => Trouble::None,
        }
    });
    let first = Running::start(relay(troubled, &broker));
    let second = over(&store, &broker);
    let all = messages(300);
    for chunk in all.chunks(20) {
        store.enqueue_committed(chunk);
        sleep(Duration::from_millis(40)).await;
    }
    until("all is delivered", || store.rows().is_empty()).await;
    let mut seen: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for outgoing in broker.messages() {
        let number: usize = std::str::from_utf8(&outgoing.message.payload).unwrap().parse().unwrap();
        let seen = seen.entry(outgoing.message.key.as_ref().unwrap().to_string()).or_default();
        assert!(number <= seen.len(), "{number} overtook another of its key");
        seen.insert(number);
    }
    assert!(seen.len() == 8 && seen.values().all(|seen| seen.len() == 300));
    until("they share", || shares(&[&first, &second]) == Some(vec![4, 4])).await;
    let members = store.operator().await.unwrap().status(10).await.unwrap().members.len();
    assert_eq!(members, 2, "every membership that was given up was left");
    first.stop().await;
    second.stop().await;
}
