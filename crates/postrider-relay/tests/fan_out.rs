//! Several destinations for one message: each is isolated from the others, progress survives a restart, and names that are
//! no longer configured lose nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Broker, DestinationName, DestinationTemplate, ErrorKind, LaneCount, Message, OnDead, RetryPolicy, Store,
    TopicPattern,
};
use postrider_relay::{Relay, RelayBuilder, RelayHandle, Summary};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

fn store() -> MemoryStore {
    MemoryStore::new(LaneCount::new(8).unwrap(), History::Off)
}

fn up() -> Arc<MemoryBroker> {
    Arc::new(MemoryBroker::recording())
}

/// One that is away as long as the switch is on.
fn switched() -> (Arc<MemoryBroker>, Arc<AtomicBool>) {
    let is_down = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_down);
    let broker = MemoryBroker::recording().with_script(move |_, _| match is_down.load(Ordering::SeqCst) {
        true => Answer::Fail(ErrorKind::Unavailable),
        false => Answer::Accept,
    });
    (Arc::new(broker), switch)
}

/// Every topic goes to each of these.
fn relay(store: &MemoryStore, brokers: &[(&str, &Arc<MemoryBroker>)]) -> RelayBuilder {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let builder = Relay::builder(store).max_pause(Duration::from_millis(50));
    brokers.iter().fold(builder, |builder, (name, broker)| {
        let broker: Arc<dyn Broker> = Arc::<MemoryBroker>::clone(broker);
        builder.destination(DestinationName::new(name), broker, DestinationTemplate::topic())
    })
}

struct Running {
    handle: RelayHandle,
    stop: CancellationToken,
    task: JoinHandle<postrider_core::Result<Summary>>,
}

impl Running {
    fn start(builder: RelayBuilder) -> Self {
        let relay = builder.build().unwrap();
        let (handle, stop) = (relay.handle(), CancellationToken::new());
        let task = tokio::spawn(relay.run(stop.clone()));
        Self { handle, stop, task }
    }

    async fn end(self) -> Summary {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap()
    }
}

async fn until_empty(builder: RelayBuilder) -> Summary {
    let relay = builder.until_empty().patience(Duration::from_secs(1)).build().unwrap();
    tokio::time::timeout(PATIENCE, relay.run(CancellationToken::new())).await.unwrap().unwrap()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = tokio::time::Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn keyed(count: usize, keys: usize) -> Vec<Message> {
    (0..count).map(|n| Message::new("t", n.to_string()).key(format!("k{}", n % keys))).collect()
}

/// The numbers that a broker accepted: each of them once, and those of a key in order.
fn once_and_in_order(broker: &MemoryBroker, count: usize, keys: usize) {
    let mut last: HashMap<usize, usize> = HashMap::new();
    let messages = broker.messages();
    for outgoing in &messages {
        let number: usize = std::str::from_utf8(&outgoing.message.payload).unwrap().parse().unwrap();
        let expected = last.get(&(number % keys)).map_or(number % keys, |last| last + keys);
        assert_eq!(number, expected, "of key {}", number % keys);
        last.insert(number % keys, number);
    }
    assert_eq!(messages.len(), count);
}

/// Far more than the window holds, so that what waits for the one must wait in the table.
#[tokio::test]
async fn a_broker_that_is_down_holds_only_what_is_its_own() {
    const COUNT: usize = 5_000;
    const KEYS: usize = 20;
    let (store, works, (away, is_down)) = (store(), up(), switched());
    store.enqueue_committed(&keyed(COUNT, KEYS));
    let running = Running::start(relay(&store, &[("works", &works), ("away", &away)]).window(256, 32 << 20));
    until("everything where it can go", || works.accepted() >= COUNT as u64).await;
    let snapshot = running.handle.snapshot();
    assert_eq!((away.accepted(), snapshot.dead, snapshot.delivered), (0, 0, 0));
    is_down.store(false, Ordering::SeqCst);
    until("everything where it was owed", || away.accepted() >= COUNT as u64).await;
    until("an empty outbox", || store.rows().is_empty()).await;
    let summary = running.end().await;
    assert_eq!((summary.delivered, summary.dead), (COUNT as u64, 0));
    once_and_in_order(&works, COUNT, KEYS);
    once_and_in_order(&away, COUNT, KEYS);
}

#[tokio::test]
async fn what_was_accepted_by_one_is_not_sent_there_again_after_a_restart() {
    let (store, works, (away, is_down)) = (store(), up(), switched());
    store.enqueue_committed(&keyed(600, 7));
    let running = Running::start(relay(&store, &[("works", &works), ("away", &away)]));
    until("everything where it can go", || works.accepted() == 600).await;
    running.end().await;
    assert_eq!(store.rows().len(), 600, "each is owed to the other one");
    is_down.store(false, Ordering::SeqCst);
    let summary = until_empty(relay(&store, &[("works", &works), ("away", &away)])).await;
    assert_eq!(summary.delivered, 600);
    once_and_in_order(&works, 600, 7);
    once_and_in_order(&away, 600, 7);
}

/// It ends when the other one has got everything, and says which one pauses.
#[tokio::test]
async fn a_run_until_empty_gives_each_destination_its_own_before_it_ends_for_the_one_that_pauses() {
    let (store, works, (away, is_down)) = (store(), up(), switched());
    let slow = Arc::new(MemoryBroker::recording().with_delay(Duration::from_millis(40)).with_profile(|profile| {
        (profile.max_batch, profile.max_concurrent) = (1, 1);
    }));
    store.enqueue_committed(&keyed(60, 60));
    let brokers = [("works", &works), ("slow", &slow), ("away", &away)];
    let summary = until_empty(relay(&store, &brokers)).await;
    assert_eq!((works.accepted(), slow.accepted(), away.accepted()), (60, 60, 0), "it took more than its patience");
    let paused: Vec<_> = summary.paused.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((paused, summary.left), (vec!["away"], None));
    is_down.store(false, Ordering::SeqCst);
    assert_eq!(until_empty(relay(&store, &brokers)).await.delivered, 60);
    assert_eq!((works.accepted(), slow.accepted(), away.accepted()), (60, 60, 60));
}

#[tokio::test]
async fn a_paused_destination_that_is_owed_nothing_is_no_reason_to_wait() {
    let (store, works, (away, _)) = (store(), up(), switched());
    let pattern = |text: &str| TopicPattern::parse(text).unwrap();
    let builder = || {
        let builder = relay(&store, &[("works", &works), ("away", &away)]);
        let builder = builder.route(pattern("t"), DestinationName::new("works"));
        builder.route(pattern("other"), DestinationName::new("away"))
    };
    store.enqueue_committed(&keyed(10, 2));
    store.enqueue_committed(&[Message::new("other", "x")]);
    assert_eq!(until_empty(builder()).await.paused.len(), 1);
    assert_eq!((works.accepted(), store.rows().len()), (10, 1));
}

#[tokio::test]
async fn every_route_that_matches_applies_and_no_other() {
    let (store, [all, orders, placed]) = (store(), [up(), up(), up()]);
    let route = |topics: &str, name: &str| (TopicPattern::parse(topics).unwrap(), DestinationName::new(name));
    let routes = [
        route("#", "all"),
        route("orders.#", "orders"),
        route("*.placed", "placed"),
        // Two patterns of one destination are no two deliveries.
        route("orders.placed", "placed"),
    ];
    let builder = relay(&store, &[("all", &all), ("orders", &orders), ("placed", &placed)]);
    let builder = routes.into_iter().fold(builder, |builder, (topics, name)| builder.route(topics, name));
    let topics = ["orders", "orders.placed", "orders.paid", "mail.sent", "mail.placed"];
    store.enqueue_committed(&topics.map(|topic| Message::new(topic, "x").key("k")));
    assert_eq!(until_empty(builder).await.delivered, 5);
    let got = |broker: &MemoryBroker| -> Vec<String> {
        broker.messages().iter().map(|outgoing| outgoing.message.topic.to_string()).collect()
    };
    assert_eq!(got(&all), topics);
    assert_eq!(got(&orders), topics[..3]);
    assert_eq!(got(&placed), ["orders.placed", "mail.placed"]);
}

/// A route is renamed while messages wait for it.
#[tokio::test]
async fn what_is_owed_to_a_name_that_is_gone_waits_until_it_is_configured_again() {
    let (store, works, (away, is_down)) = (store(), up(), switched());
    store.enqueue_committed(&keyed(20, 4));
    let running = Running::start(relay(&store, &[("works", &works), ("old", &away)]));
    until("everything where it can go", || works.accepted() == 20).await;
    running.end().await;
    is_down.store(false, Ordering::SeqCst);
    let summary = until_empty(relay(&store, &[("works", &works), ("new", &away)])).await;
    let (count, text) = summary.unroutable.unwrap();
    assert!(count > 0 && text.contains("still owed to \"old\"") && text.contains("name = \"old\""), "{text}");
    assert_eq!((works.accepted(), away.accepted(), store.rows().len()), (20, 0, 20), "nothing is lost or sent twice");
    let running = Running::start(relay(&store, &[("works", &works), ("old", &away)]));
    until("everything where it was owed", || {
        // The next attempt comes by the database's clock.
        store.advance(Duration::from_secs(1));
        away.accepted() == 20
    })
    .await;
    until("an empty outbox", || store.rows().is_empty()).await;
    running.end().await;
    once_and_in_order(&works, 20, 4);
    once_and_in_order(&away, 20, 4);
}

/// A route is added while messages wait: those that begin after that go there too.
#[tokio::test]
async fn a_message_that_was_accepted_nowhere_goes_by_the_routes_of_now_and_another_one_where_it_is_owed() {
    let (store, works, (away, is_down), late) = (store(), up(), switched(), up());
    store.enqueue_committed(&keyed(3, 1));
    let running = Running::start(relay(&store, &[("works", &works), ("away", &away)]));
    until("everything where it can go", || works.accepted() == 3).await;
    running.end().await;
    store.enqueue_committed(&[Message::new("t", "3").key("k0")]);
    is_down.store(false, Ordering::SeqCst);
    until_empty(relay(&store, &[("works", &works), ("away", &away), ("late", &late)])).await;
    once_and_in_order(&works, 4, 1);
    once_and_in_order(&away, 4, 1);
    let payloads: Vec<_> = late.messages().iter().map(|outgoing| outgoing.message.payload.clone()).collect();
    assert_eq!(payloads, ["3"]);
}

/// What one destination refuses for good is a dead letter when the others have it, and forwarded once.
#[tokio::test]
async fn a_message_that_one_destination_refuses_reaches_the_others_and_is_forwarded() {
    let (store, works, letters) = (store(), up(), up());
    let refuses = Arc::new(MemoryBroker::recording().with_script(|outgoing, _| match &outgoing.message.payload[..] {
        b"1" => Answer::Fail(ErrorKind::Rejected),
        _ => Answer::Accept,
    }));
    store.enqueue_committed(&keyed(3, 1));
    let policy = RetryPolicy {
        initial: Duration::from_millis(1),
        maximum: Duration::from_millis(1),
        attempts: postrider_core::Attempts::AtMost(2),
        ..RetryPolicy::default()
    };
    let dead: Arc<dyn Broker> = Arc::<MemoryBroker>::clone(&letters);
    let builder = relay(&store, &[("works", &works), ("refuses", &refuses)])
        .retry(TopicPattern::every(), policy)
        .on_dead(TopicPattern::every(), OnDead::Forward)
        .forward_to(DestinationName::new("letters"), dead, DestinationTemplate::parse("dead.{topic}").unwrap());
    let running = Running::start(builder);
    until("a dead letter, and the others delivered", || {
        store.advance(Duration::from_millis(5));
        letters.accepted() == 1 && running.handle.snapshot().delivered == 2
    })
    .await;
    running.end().await;
    once_and_in_order(&works, 3, 1);
    assert_eq!((refuses.accepted(), letters.accepted(), store.rows().len()), (2, 1, 1));
    assert_eq!(letters.messages()[0].destination.as_str(), "dead.t");
}

#[tokio::test]
async fn a_broker_of_several_destinations_is_closed_once() {
    let (store, broker) = (store(), up());
    let shared: Arc<dyn Broker> = Arc::<MemoryBroker>::clone(&broker);
    let store: Arc<dyn Store> = Arc::new(store);
    let place = |text: &str| DestinationTemplate::parse(text).unwrap();
    let builder = Relay::builder(store)
        .destination(DestinationName::new("a"), Arc::clone(&shared), place("a.{topic}"))
        .destination(DestinationName::new("b"), shared, place("b.{topic}"));
    until_empty(builder).await;
    assert_eq!(broker.closed(), 1);
}
