//! When the leaseholder asks its store what, how long it waits for an answer, and what it says of it. Time is tokio's own,
//! paused; the store's clock stands still.

use std::sync::Mutex;

use postrider_core::{LaneCount, Start};
use postrider_stores::History;
use postrider_stores::memory::MemoryStore;
use postrider_testkit::troubled::{Trouble, TroubledStore};
use tokio::time::sleep;

use super::*;

const LEASE: Duration = Duration::from_secs(3);

/// A leaseholder over a store in trouble, and what it asked and said, when.
struct Scene {
    store: MemoryStore,
    began: Instant,
    calls: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    orders: mpsc::UnboundedSender<LeaseOrder>,
    signals: mpsc::UnboundedReceiver<Signal>,
}

impl Scene {
    /// The script is told the call and how many of its name were made before it.
    fn new(ttl: Duration, lanes: u16, script: impl Fn(&str, usize) -> Trouble + Send + Sync + 'static) -> Self {
        let store = MemoryStore::new(LaneCount::new(lanes).unwrap(), History::Off);
        Self::over(store, ttl, script)
    }

    fn over(
        store: MemoryStore,
        ttl: Duration,
        script: impl Fn(&str, usize) -> Trouble + Send + Sync + 'static,
    ) -> Self {
        let (began, calls) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
        let made = Arc::clone(&calls);
        let troubled = TroubledStore::wrap(Arc::new(store.clone()), move |name| {
            let mut made = made.lock().unwrap();
            // While it asks without a pause, time would stand still, and the test with it.
            assert!(made.len() < 1_000, "it asks without a pause");
            let before = made.iter().filter(|(call, _)| *call == name).count();
            made.push((name, began.elapsed()));
            script(name, before)
        });
        let (orders, told) = mpsc::unbounded_channel();
        let (tell, signals) = mpsc::unbounded_channel();
        let holder = Leaseholder::new(troubled, "me".to_owned(), ttl, Clock::start(), tell);
        tokio::spawn(holder.keep(told));
        Self { store, began, calls, orders, signals }
    }

    /// The milliseconds since the start at which this call was made.
    fn moments(&self, name: &str) -> Vec<u128> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(call, _)| *call == name).map(|(_, moment)| moment.as_millis()).collect()
    }

    /// What was said since it was last asked, in words.
    fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Ok(Signal::Lease(news)) = self.signals.try_recv() {
            said.push(match news {
                // After every round that the others tell of.
                LeaseNews::Answered => continue,
                LeaseNews::Joined(_) => "joined".to_owned(),
                LeaseNews::Trusted(until) => format!("trusted until {}", until.since_start().as_millis()),
                LeaseNews::Gained(lanes) => format!("gained {}", words(&lanes)),
                LeaseNews::Lost(lanes) => format!("lost {lanes:?}"),
                LeaseNews::Surplus(lanes) => format!("surplus {}", words(&lanes)),
                LeaseNews::Evicted => "evicted".to_owned(),
                LeaseNews::Left => "left".to_owned(),
                LeaseNews::Away(error) => error.kind().to_string(),
            });
        }
        said
    }

    /// Waits for the news that the store is away, and says after how many milliseconds since the start it came.
    async fn away(&mut self) -> u128 {
        let comes = async {
            while !matches!(self.signals.recv().await.unwrap(), Signal::Lease(LeaseNews::Away(_))) {}
            self.began.elapsed().as_millis()
        };
        timeout(LEASE * 10, comes).await.unwrap()
    }

    /// Tells it to leave, and says how many milliseconds later it has.
    async fn leave(&self) -> u128 {
        let (done, left) = oneshot::channel();
        let told = Instant::now();
        self.orders.send(LeaseOrder::Leave(Vec::new(), done)).unwrap();
        timeout(LEASE * 10, left).await.unwrap().unwrap();
        told.elapsed().as_millis()
    }

    async fn members(&self) -> Vec<RelayId> {
        self.store.leases().await.unwrap().members().await.unwrap()
    }
}

fn words(lanes: &[HeldLane]) -> String {
    let one = |held: &HeldLane| format!("{}/{}", held.lane.0, held.term.0);
    lanes.iter().map(one).collect::<Vec<_>>().join(" ")
}

async fn millis(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

fn works(_: &str, _: usize) -> Trouble {
    Trouble::None
}

/// The call of this name fails or hangs when so many were made before it.
fn once(name: &'static str, nth: usize, trouble: Trouble) -> impl Fn(&str, usize) -> Trouble + Send + Sync + 'static {
    move |call, before| if call == name && before == nth { trouble } else { Trouble::None }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_and_the_lanes_are_looked_up_every_third_of_it_and_the_members_four_times_a_second() {
    let mut scene = Scene::new(LEASE, 2, works);
    millis(3_100).await;
    assert_eq!(scene.moments("join"), [0]);
    assert_eq!(scene.moments("renew"), [1_000, 2_000, 3_000]);
    assert_eq!(scene.moments("owned"), [0, 1_000, 2_000, 3_000]);
    assert_eq!(scene.moments("members"), (0..=12).map(|look| look * 250).collect::<Vec<_>>());
    assert_eq!((scene.moments("acquire"), scene.moments("release")), (vec![0], Vec::new()));
    let said = ["joined", "trusted until 2700", "gained 0/1 1/1"];
    let renewed = ["trusted until 3700", "trusted until 4700", "trusted until 5700"];
    assert_eq!(scene.said(), [said, renewed].concat(), "what does not change is no news");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_failed_is_tried_again_after_a_twelfth_of_the_lease() {
    let fails = |call: &str, before: usize| match call == "renew" && before < 3 {
        true => Trouble::Fail(ErrorKind::Unavailable),
        false => Trouble::None,
    };
    let mut scene = Scene::new(Duration::from_millis(1_200), 1, fails);
    millis(1_150).await;
    assert_eq!(scene.moments("renew"), [400, 500, 600, 700, 1_100]);
    let said = ["joined", "trusted until 1080", "gained 0/1", "unavailable", "unavailable", "unavailable"];
    assert_eq!(scene.said(), [&said[..], &["trusted until 1780", "trusted until 2180"]].concat());
}

#[tokio::test(start_paused = true)]
async fn after_any_statement_that_failed_the_lanes_are_looked_up_and_the_lease_is_not_renewed_before_its_time() {
    let scene = Scene::new(LEASE, 1, once("members", 1, Trouble::Fail(ErrorKind::Unknown)));
    millis(1_100).await;
    assert_eq!(scene.moments("members")[..3], [0, 250, 500]);
    assert_eq!(scene.moments("owned"), [0, 500, 1_000], "lanes may be ours, or not ours any more");
    assert_eq!(scene.moments("renew"), [1_000]);
}

#[tokio::test(start_paused = true)]
async fn who_has_lanes_to_lose_gives_a_connection_that_hangs_up_after_a_third_of_the_lease() {
    let mut scene = Scene::new(LEASE, 1, once("members", 1, Trouble::Hang));
    assert_eq!(scene.away().await, 1_250);
    millis(2_000).await;
    assert_eq!(scene.said(), ["trusted until 4200", "trusted until 5200"]);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_lane_to_lose_waits_longer() {
    let store = MemoryStore::new(LaneCount::ONE, History::Off);
    let (mut leases, first) = (store.leases().await.unwrap(), RelayId(uuid::Uuid::nil()));
    leases.join(first, "first", LEASE).await.unwrap();
    leases.acquire(first, 1).await.unwrap();
    let mut scene = Scene::over(store, LEASE, once("members", 1, Trouble::Hang));
    assert_eq!(scene.away().await, 10_250);
}

/// A right that is missing on one table is a failure of every round, and says no more between two of them.
#[tokio::test(start_paused = true)]
async fn the_store_answers_when_every_statement_of_a_round_did() {
    for (statement, expected) in [("members", 0), ("acquire", 0), ("evict", 0), ("owned", 0), ("none", 4)] {
        let fails = move |call: &str, _: usize| match call == statement {
            true => Trouble::Fail(ErrorKind::Config),
            false => Trouble::None,
        };
        let mut scene = Scene::new(LEASE, 1, fails);
        millis(3_100).await;
        let answered = std::iter::from_fn(|| scene.signals.try_recv().ok())
            .filter(|signal| matches!(signal, Signal::Lease(LeaseNews::Answered)));
        assert_eq!(answered.count(), expected, "{statement}");
    }
}

/// Opening one may take longer than the lease on a busy machine.
#[tokio::test(start_paused = true)]
async fn a_new_connection_is_given_more_than_a_lease_time() {
    let script = |call: &str, before: usize| match (call, before) {
        ("members", 1) => Trouble::Hang,
        ("members", 2) => Trouble::Late(LEASE * 2),
        _ => Trouble::None,
    };
    let mut scene = Scene::new(LEASE, 1, script);
    assert_eq!(scene.away().await, 1_250);
    millis(9_000).await;
    let said = scene.said();
    assert!(said.len() > 2 && said.iter().all(|news| news.starts_with("trusted until")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_was_taken_away_is_lost_at_the_next_renewal_and_taken_again_when_it_is_free() {
    let mut scene = Scene::new(LEASE, 2, works);
    millis(500).await;
    scene.said();
    scene.store.steal(Lane(1));
    millis(600).await;
    assert_eq!(scene.said(), ["trusted until 3700", "lost [Lane(1)]", "gained 1/3"], "the thief is no member");
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_without_an_answer_is_found_by_looking_up() {
    let mut scene = Scene::new(LEASE, 2, once("acquire", 0, Trouble::LoseAnswer));
    scene.away().await;
    millis(300).await;
    assert_eq!(scene.said(), ["trusted until 12950", "gained 0/1 1/1"]);
}

#[tokio::test(start_paused = true)]
async fn a_surplus_lane_is_released_once_when_the_machine_is_done_with_it_and_not_before() {
    let mut scene = Scene::new(LEASE, 2, works);
    millis(100).await;
    scene.said();
    let (mut leases, other) = (scene.store.leases().await.unwrap(), RelayId(uuid::Uuid::max()));
    leases.join(other, "other", LEASE).await.unwrap();
    millis(700).await;
    assert_eq!(scene.said(), ["surplus 1/1"]);
    assert!(scene.moments("release").is_empty(), "its messages are on their way");
    let surplus = HeldLane { lane: Lane(1), term: postrider_core::Term(1), start: Start::Clean };
    scene.orders.send(LeaseOrder::Release(vec![surplus])).unwrap();
    millis(1_000).await;
    assert_eq!(scene.moments("release"), [800]);
    assert_eq!(words(&leases.acquire(other, 2).await.unwrap()), "1/2");
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_leaves_and_joins_under_a_new_id() {
    let mut scene = Scene::new(LEASE, 2, works);
    millis(100).await;
    let before = scene.members().await;
    scene.said();
    scene.orders.send(LeaseOrder::Rejoin).unwrap();
    millis(100).await;
    assert_eq!(scene.said(), ["left", "joined", "trusted until 2800", "gained 0/2 1/2"]);
    let after = scene.members().await;
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_releases_every_lane_at_once() {
    let scene = Scene::new(LEASE, 2, works);
    millis(100).await;
    assert_eq!(scene.leave().await, 0);
    assert!(scene.members().await.is_empty());
    assert_eq!((scene.moments("release"), scene.moments("leave")), (vec![100], vec![100]));
}

#[tokio::test(start_paused = true)]
async fn leaving_is_tried_once_more_on_a_new_connection_and_is_over_within_a_lease_time() {
    let scene = Scene::new(LEASE, 1, once("release", 0, Trouble::Hang));
    millis(100).await;
    assert_eq!(scene.leave().await, 1_500);
    assert!(scene.members().await.is_empty(), "one answer that is lost does not keep the others from the lane");
    let hangs = |call: &str, _: usize| if call == "release" { Trouble::Hang } else { Trouble::None };
    let scene = Scene::new(LEASE, 1, hangs);
    millis(100).await;
    assert_eq!(scene.leave().await, 3_000);
    assert_eq!(scene.moments("release").len(), 2);
}
