//! What a relay does when its store, its broker or its lease fails it. Time is tokio's own, paused: it runs on when
//! nobody has anything to do, so that minutes of trouble take no time; the store's clock stands still.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod running;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::memory::{Answer, MemoryBroker};
use postrider_core::{
    Broker, BrokerProfile, Destination, DestinationName, DestinationTemplate, Error, ErrorKind, Finding, Lane,
    LaneCount, Message, Outgoing, Published, Result, Retention, Store,
};
use postrider_relay::{Relay, RelayBuilder, RelayState};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use postrider_testkit::troubled::{Trouble, TroubledStore};
use running::Running;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const LEASE: Duration = Duration::from_secs(1);

/// Which calls of the store are in trouble now, and how often each was made.
#[derive(Debug, Clone)]
struct Switch {
    now: Arc<Mutex<Vec<(&'static str, Trouble)>>>,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Switch {
    fn new(troubles: &[(&'static str, Trouble)]) -> Self {
        Self { now: Arc::new(Mutex::new(troubles.to_vec())), calls: Arc::default() }
    }

    fn set(&self, troubles: &[(&'static str, Trouble)]) {
        *self.now.lock().unwrap() = troubles.to_vec();
    }

    fn called(&self, name: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| **call == name).count()
    }

    /// Each trouble lasts until it is switched off, but what happens by itself only once.
    fn wrap(&self, store: &MemoryStore) -> Arc<dyn Store> {
        let switch = self.clone();
        TroubledStore::wrap(Arc::new(store.clone()), move |name| {
            switch.calls.lock().unwrap().push(name);
            let mut now = switch.now.lock().unwrap();
            let Some(place) = now.iter().position(|(call, _)| *call == name || *call == "*") else {
                return Trouble::None;
            };
            let (_, trouble) = now[place];
            if matches!(trouble, Trouble::LoseAnswer | Trouble::Discontinue) {
                now.remove(place);
            }
            trouble
        })
    }
}

fn store(lanes: u16) -> MemoryStore {
    MemoryStore::new(LaneCount::new(lanes).unwrap(), History::Off)
}

fn holding() -> Arc<MemoryBroker> {
    Arc::new(MemoryBroker::recording().with_script(|_, _| Answer::Hold))
}

fn accepting() -> Arc<MemoryBroker> {
    Arc::new(MemoryBroker::recording())
}

fn relay<B: Broker + 'static>(store: Arc<dyn Store>, broker: &Arc<B>) -> RelayBuilder {
    let broker: Arc<dyn Broker> = Arc::<B>::clone(broker);
    Relay::builder(store)
        .destination(DestinationName::new("out"), broker, DestinationTemplate::topic())
        .lease(LEASE)
        .stop_deadline(Duration::from_secs(2))
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..300_000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came to this: {what}");
}

fn message(text: &str) -> Message {
    Message::new("t", text.to_owned()).key("k")
}

async fn members(store: &MemoryStore) -> Vec<uuid::Uuid> {
    let status = store.operator().await.unwrap().status(100).await.unwrap();
    status.members.iter().map(|member| member.id).collect()
}

#[tokio::test(start_paused = true)]
async fn short_outages_that_each_meet_a_renewal_do_not_end_the_lease() {
    let store = store(2);
    let renewals = Arc::new(Mutex::new(Vec::new()));
    let script = Arc::clone(&renewals);
    let troubled = TroubledStore::wrap(Arc::new(store.clone()), move |name| {
        let mut renewals = script.lock().unwrap();
        if name == "renew" {
            renewals.push(Instant::now());
        }
        // Three of four: the outage lasts for a quarter of the lease each time.
        let away = name == "renew" && renewals.len() % 4 > 0;
        if away { Trouble::Fail(ErrorKind::Unavailable) } else { Trouble::None }
    });
    let running = Running::start(relay(troubled, &accepting()));
    until("it has every lane", || running.handle.snapshot().lanes.len() == 2).await;
    let members_before = members(&store).await;
    until("it renewed ten times", || renewals.lock().unwrap().len() == 40).await;
    assert_eq!(members(&store).await, members_before, "it never had to join again");
    assert_eq!(running.handle.snapshot().lanes.len(), 2);
    let renewals = renewals.lock().unwrap().clone();
    for tries in renewals.chunks(4) {
        let waits: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waits.iter().all(|wait| *wait <= LEASE / 12 + Duration::from_millis(2)), "{waits:?}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_past_the_trusted_time_while_the_lease_store_hangs() {
    let (store, broker, switch) = (store(2), accepting(), Switch::new(&[]));
    let running = Running::start(relay(switch.wrap(&store), &broker));
    store.enqueue_committed(&[message("1")]);
    until("the first is delivered", || running.handle.snapshot().delivered == 1).await;
    switch.set(&[("renew", Trouble::Hang), ("evict", Trouble::Hang), ("acquire", Trouble::Hang)]);
    sleep(LEASE).await;
    store.enqueue_committed(&[message("2")]);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(broker.sent(), 1, "the lease may be somebody else's by now");
    assert!(running.handle.snapshot().lanes.is_empty(), "nor is a lane shown as held");
    assert_eq!(running.handle.snapshot().state, RelayState::StoreAway);
    switch.set(&[]);
    until("the second is delivered", || running.handle.snapshot().delivered == 2).await;
    assert_eq!(running.stop().await.abandoned, 0);
}

/// The lease began when the database took it in, whenever the answer came.
#[tokio::test(start_paused = true)]
async fn trust_is_measured_from_when_the_lease_was_asked_for() {
    let (store, broker) = (store(2), accepting());
    let switch = Switch::new(&[("join", Trouble::Late(LEASE * 8 / 10)), ("renew", Trouble::Hang)]);
    let asked = Instant::now();
    let running = Running::start(relay(switch.wrap(&store), &broker));
    store.enqueue_committed(&[message("1")]);
    until("the first is delivered", || broker.sent() == 1).await;
    assert!(asked.elapsed() < LEASE * 9 / 10, "a tenth of the lease is left when the answer comes");
    sleep(LEASE * 2 / 10).await;
    store.enqueue_committed(&[message("2")]);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(broker.sent(), 1, "the lease may be somebody else's by now");
    switch.set(&[]);
    until("the second is delivered", || broker.sent() == 2).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_evicted_relay_drops_everything_and_joins_under_a_new_id() {
    let (store, broker) = (store(2), holding());
    let running = Running::start(relay(Arc::new(store.clone()), &broker));
    store.enqueue_committed(&[message("1")]);
    until("it is on its way", || broker.sent() == 1).await;
    let before = members(&store).await;
    store.advance(LEASE * 2);
    assert_eq!(store.leases().await.unwrap().evict().await.unwrap(), 2, "another relay evicts it");
    until("it is sent under the new membership", || broker.sent() == 2).await;
    let after = members(&store).await;
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    broker.release();
    until("it is settled", || store.rows().is_empty()).await;
    let mut terms: Vec<_> = broker.messages().iter().map(|outgoing| outgoing.term.0).collect();
    terms.sort_unstable();
    assert_eq!(terms, [1, 2]);
    assert_eq!(running.stop().await.delivered, 1);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_relay_that_cannot_join_again_publishes_nothing_although_trust_would_last() {
    let (store, broker, switch) = (store(2), accepting(), Switch::new(&[]));
    let long = Duration::from_secs(60);
    let running = Running::start(relay(switch.wrap(&store), &broker).lease(long));
    until("lanes", || running.handle.snapshot().lanes.len() == 2).await;
    switch.set(&[("join", Trouble::Hang)]);
    store.advance(long * 2);
    store.leases().await.unwrap().evict().await.unwrap();
    until("it tries to join", || switch.called("join") > 1).await;
    store.enqueue_committed(&[message("1")]);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(broker.sent(), 0);
    switch.set(&[]);
    until("it is delivered", || running.handle.snapshot().delivered == 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_whose_lanes_were_taken_settles_nothing() {
    let (store, broker) = (store(1), holding());
    let running = Running::start(relay(Arc::new(store.clone()), &broker));
    store.enqueue_committed(&[message("1"), message("2")]);
    until("it is on its way", || broker.sent() == 1 && !running.handle.snapshot().lanes.is_empty()).await;
    store.steal(Lane(0));
    broker.release();
    until("the second one is on its way", || broker.sent() == 2).await;
    broker.release();
    // The thief is no member and is evicted in its turn: the lane comes back, under a later term.
    until("they are sent anew", || broker.sent() == 3).await;
    assert_eq!((broker.accepted(), store.rows().len()), (2, 2), "what was accepted before decides nothing");
    assert_eq!(running.handle.snapshot().delivered, 0);
    broker.release();
    until("the second one is sent anew", || broker.sent() == 4).await;
    broker.release();
    until("they are settled", || store.rows().is_empty()).await;
    assert_eq!(running.stop().await.delivered, 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_stops_new_publishing_and_loses_and_repeats_nothing() {
    let (store, broker, switch) = (store(1), accepting(), Switch::new(&[]));
    switch.set(&[("settle", Trouble::Fail(ErrorKind::Unavailable))]);
    let running = Running::start(relay(switch.wrap(&store), &broker));
    store.enqueue_committed(&[message("1")]);
    until("a settle failed", || switch.called("settle") > 0).await;
    store.enqueue_committed(&[message("2"), message("3")]);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(broker.sent(), 1, "what could not be recorded would be repeated");
    switch.set(&[("*", Trouble::Fail(ErrorKind::Unavailable))]);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(running.handle.snapshot().state, RelayState::StoreAway);
    switch.set(&[]);
    until("all is settled", || store.rows().is_empty()).await;
    assert_eq!(broker.accepted(), 3);
    assert_eq!(running.stop().await.delivered, 3);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_any_lease_statement_costs_time_only() {
    for call in ["join", "evict", "acquire", "renew", "release"] {
        let (store, broker) = (store(2), accepting());
        let switch = Switch::new(&[(call, Trouble::LoseAnswer), ("acquire", Trouble::LoseAnswer)]);
        let running = Running::start(relay(switch.wrap(&store), &broker));
        until("both lanes are held", || running.handle.snapshot().lanes.len() == 2).await;
        store.enqueue_committed(&[message("1")]);
        until("it is delivered", || running.handle.snapshot().delivered == 1).await;
        if call != "release" {
            until(call, || switch.called(call) > 0).await;
        }
        assert_eq!(running.stop().await.delivered, 1);
        assert!(switch.called(call) > 0, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_not_the_one_it_was_is_joined_and_read_anew() {
    let (store, broker, switch) = (store(2), holding(), Switch::new(&[]));
    let running = Running::start(relay(switch.wrap(&store), &broker));
    store.enqueue_committed(&[message("1")]);
    until("it is on its way", || broker.sent() == 1).await;
    let before = members(&store).await;
    switch.set(&[("discontinued?", Trouble::Discontinue)]);
    until("it is sent again", || broker.sent() == 2).await;
    let after = members(&store).await;
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    broker.release();
    until("it is settled", || store.rows().is_empty()).await;
    assert_eq!(running.stop().await.delivered, 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_store_ends_the_relay_with_an_error_and_never_in_silence() {
    for (call, name) in [("read", "reader"), ("settle", "settler"), ("renew", "leaseholder"), ("status", "housekeeper")]
    {
        let (store, switch) = (store(2), Switch::new(&[(call, Trouble::Panic)]));
        let running = Running::start(relay(switch.wrap(&store), &accepting()));
        store.enqueue_committed(&[message("1")]);
        let ended = timeout(Duration::from_secs(60), running.task).await;
        let error = ended.unwrap_or_else(|_| panic!("{call}: it hangs")).unwrap().unwrap_err();
        assert!(error.to_string().contains(name), "{call}: {error}");
        assert_eq!(running.handle.snapshot().state, RelayState::Stopped);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_publish_is_an_unknown_outcome() {
    let panics = AtomicUsize::new(2);
    let broker = Arc::new(MemoryBroker::recording().with_script(move |_, _| {
        let left = panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "the broker's client panics, as scripted");
        Answer::Accept
    }));
    let store = store(2);
    store.enqueue_committed(&[message("1")]);
    let running = Running::start(relay(Arc::new(store.clone()), &broker));
    until("it is delivered", || running.handle.snapshot().delivered == 1).await;
    assert_eq!((broker.sent(), broker.accepted()), (3, 1));
    let summary = running.stop().await;
    assert_eq!((summary.dead, summary.retried), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_check_does_not_leave_its_destination_paused_for_ever() {
    let broker = Arc::new(Fragile { inner: accepting(), checks: AtomicUsize::new(0) });
    let store = store(2);
    let running = Running::start(relay(Arc::new(store.clone()), &broker));
    until("the second check panicked", || broker.checks.load(Ordering::SeqCst) >= 2).await;
    store.enqueue_committed(&[message("1")]);
    until("it is delivered", || running.handle.snapshot().delivered == 1).await;
    running.task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_calls_the_relay_fenced_does_not_strand_the_lane() {
    let broker = Arc::new(MemoryBroker::recording().with_script(|_, nth| match nth {
        0 => Answer::Fail(ErrorKind::Fenced),
        _ => Answer::Accept,
    }));
    let store = store(1);
    store.enqueue_committed(&[message("1")]);
    let running = Running::start(relay(Arc::new(store.clone()), &broker));
    until("it is delivered", || running.handle.snapshot().delivered == 1).await;
    assert_eq!(broker.messages()[0].term.0, 2, "under a new term");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_although_the_store_hangs_and_the_broker_does_not_close() {
    let (store, switch) = (store(2), Switch::new(&[]));
    let broker = Arc::new(Fragile { inner: holding(), checks: AtomicUsize::new(2) });
    let running = Running::start(relay(switch.wrap(&store), &broker));
    store.enqueue_committed(&[message("1")]);
    until("it is on its way", || broker.inner.sent() == 1).await;
    switch.set(&[("*", Trouble::Hang)]);
    let asked = Instant::now();
    assert_eq!(running.stop().await.abandoned, 1);
    assert!(asked.elapsed() <= Duration::from_secs(2) + LEASE * 2 + LEASE / 2, "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_nothing_where_nothing_is_on_its_way() {
    let (store, broker) = (store(2), accepting());
    store.enqueue_committed(&[message("1")]);
    let running = Running::start(relay(Arc::new(store.clone()), &broker));
    until("it is settled", || running.handle.snapshot().delivered == 1).await;
    let asked = Instant::now();
    assert_eq!(running.stop().await.abandoned, 0);
    assert!(asked.elapsed() < Duration::from_millis(10), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_under_way_at_the_deadline_of_a_stop_is_abandoned_and_not_waited_for() {
    let broker = Arc::new(MemoryBroker::recording().with_delay(Duration::from_secs(5)));
    let store = store(2);
    store.enqueue_committed(&[message("1")]);
    let running = Running::start(relay(Arc::new(store.clone()), &broker).lease(Duration::from_secs(60)));
    until("a call is under way", || broker.calls() == 1).await;
    let asked = Instant::now();
    assert_eq!(running.stop().await.abandoned, 1);
    assert!(asked.elapsed() < Duration::from_millis(2_010), "{:?}", asked.elapsed());
    assert_eq!((broker.accepted(), broker.closed()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_relay_whose_future_is_dropped_publishes_no_more() {
    let broker = Arc::new(MemoryBroker::recording().with_delay(Duration::from_secs(1)));
    let store = store(2);
    store.enqueue_committed(&[message("1")]);
    let relay = relay(Arc::new(store.clone()), &broker).build().unwrap();
    let handle = relay.handle();
    tokio::select! {
        _ = relay.run(CancellationToken::new()) => panic!("it has not been stopped"),
        () = until("a call is under way", || broker.calls() == 1) => {}
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!((broker.calls(), broker.accepted()), (1, 0), "its successor may be publishing by now");
    assert_eq!(handle.snapshot().state, RelayState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_the_first_lane_prunes_and_nobody_else() {
    let retention = Retention { delivered: Some(Duration::from_secs(1)), dead: None };
    let (store, owner, other) = (store(2), Switch::new(&[]), Switch::new(&[]));
    let first = Running::start(relay(owner.wrap(&store), &accepting()).retention(retention));
    until("lanes", || first.handle.snapshot().lanes.len() == 2).await;
    let second = Running::start(relay(other.wrap(&store), &accepting()).retention(retention));
    until("they share", || second.handle.snapshot().lanes == [Lane(1)]).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(first.handle.snapshot().lanes, [Lane(0)], "a newcomer leaves the first lane where it is");
    assert!(owner.called("prune") > 3);
    assert_eq!(other.called("prune"), 0, "relaying is not enough");
    first.stop().await;
    until("the other one takes over", || other.called("prune") > 0).await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_comes_to_the_first_lane_counts_the_outbox_at_once_and_then_every_ten_seconds() {
    let (store, owner, other) = (store(1), Switch::new(&[]), Switch::new(&[]));
    let first = Running::start(relay(owner.wrap(&store), &accepting()));
    until("the lane is held", || first.handle.snapshot().lanes.len() == 1).await;
    let second = Running::start(relay(other.wrap(&store), &accepting()));
    sleep(Duration::from_millis(60_500)).await;
    assert_eq!((owner.called("status"), other.called("status")), (7, 0));
    sleep(Duration::from_secs(5)).await;
    first.stop().await;
    until("the other one takes over", || second.handle.snapshot().lanes.len() == 1).await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(other.called("status"), 1);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_prune_that_hangs_does_not_keep_a_relay_from_seeing_that_the_outbox_is_empty() {
    let (store, broker, switch) = (store(2), holding(), Switch::new(&[("prune", Trouble::Hang)]));
    store.enqueue_committed(&[message("1")]);
    let retention = Retention { delivered: Some(Duration::from_secs(1)), dead: None };
    let running = Running::start(relay(switch.wrap(&store), &broker).retention(retention).until_empty());
    until("a prune hangs", || switch.called("prune") > 0).await;
    broker.release();
    let ended = timeout(Duration::from_secs(120), running.task).await.unwrap().unwrap();
    assert_eq!(ended.unwrap().delivered, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hint_makes_the_relay_look_at_once() {
    let (store, broker) = (store(2), accepting());
    let running = Running::start(relay(Arc::new(store.clone()), &broker).max_poll_interval(Duration::from_secs(3_600)));
    sleep(Duration::from_secs(6_000)).await;
    store.enqueue_committed(&[message("1")]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(broker.accepted(), 0, "it sleeps");
    running.handle.hint();
    let asked = Instant::now();
    until("it is accepted", || broker.accepted() == 1).await;
    assert!(asked.elapsed() < Duration::from_millis(20), "{:?}", asked.elapsed());
    running.stop().await;
}

/// A broker whose first check fails, whose second one panics, and which never closes.
#[derive(Debug)]
struct Fragile {
    inner: Arc<MemoryBroker>,
    checks: AtomicUsize,
}

#[async_trait]
impl Broker for Fragile {
    fn profile(&self) -> BrokerProfile {
        self.inner.profile()
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        self.inner.publish(batch).await
    }

    async fn check(&self, _: &[Destination]) -> Result<Vec<Finding>> {
        match self.checks.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Error::new(ErrorKind::Unavailable, "scripted")),
            1 => panic!("the broker's client panics, as scripted"),
            _ => Ok(Vec::new()),
        }
    }

    async fn close(&self) {
        std::future::pending().await
    }
}
