//! Outages under load: the destination is away, or refuses everybody, while the application goes on writing.
//!
//! No attempt is counted, nothing dies, the application does not notice, `status` names the cause and exits 1; after
//! the repair the backlog drains in order. And one message that makes the broker drop the connection: it alone dies.
//!
//! The outages last 7 s each; with `POSTRIDER_FULL=1`, as `cargo xtask show main.6` sets it, 60 s.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod application;
#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../cli/harness.rs"]
mod harness;
mod http;
mod nats;
mod poison;
mod scene;
#[allow(dead_code, reason = "these tests use a part of it")]
mod stream;

use std::time::{Duration, Instant};

use application::{Application, Phase};
use harness::Run;
use nats::{Nats, Tap};
use postrider_testkit::servers::installed;
use postrider_testkit::verdict::judge;
use scene::Scene;
use tokio::sync::Mutex;

/// Loads that are measured don't run beside each other.
static ALONE: Mutex<()> = Mutex::const_new(());

/// How often `status` is asked.
const BETWEEN_LOOKS: Duration = Duration::from_millis(800);

/// How long the application is measured in quiet, and how long an outage lasts.
fn durations() -> (Duration, Duration) {
    let full = std::env::var("POSTRIDER_FULL").is_ok_and(|text| text == "1");
    let (quiet, outage) = if full { (20, 60) } else { (4, 7) };
    (Duration::from_secs(quiet), Duration::from_secs(outage))
}

/// What is not run where a server is not installed.
const WHAT: &str = "an outage under load";

/// A load, and what happens to it.
struct Outage {
    name: &'static str,
    scene: Scene,
    application: Application,
}

impl Outage {
    /// Begins the load and measures it in quiet.
    async fn prepare(name: &'static str, scene: Scene) -> Self {
        let application = Application::start(&scene.url);
        let (quiet, _) = durations();
        tokio::time::sleep(quiet).await;
        let seen = scene.status();
        assert_eq!(seen.code, 0, "before the outage: {}{}", seen.out, seen.err);
        application.enters(Phase::During);
        Self { name, scene, application }
    }

    /// Lets the outage last, and demands that `status` stays at what it should say.
    async fn lasts(&self, cause: &str) {
        let (began, (_, long)) = (Instant::now(), durations());
        let named = |run: &Run| run.code == 1 && run.out.contains("destination ") && run.out.contains(cause);
        let mut first = None;
        let mut last = None;
        while began.elapsed() < long || last.is_none() {
            let run = self.scene.status();
            if named(&run) {
                first = first.or_else(|| Some(began.elapsed()));
            } else {
                let verdict = &run.out;
                assert!(first.is_none(), "status forgot the cause, {:?} on: {verdict}{}", began.elapsed(), run.err);
                assert!(began.elapsed() < long, "status never named {cause:?}: {verdict}{}", run.err);
            }
            last = named(&run).then_some(run);
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let last = last.map(|run| run.out).unwrap_or_default();
        let verdict: Vec<_> =
            last.lines().filter(|line| line.starts_with("verdict") || line.starts_with("next")).collect();
        println!(
            "{}: status named the cause after {:?}, exit code 1:\n  {}",
            self.name,
            first.unwrap(),
            verdict.join("\n  ")
        );
        let left = self.scene.left().await;
        assert!(left.pending > 0, "no backlog: the outage did not hit");
        println!("{}: backlog at the end of the outage {}, dead {}", self.name, left.pending, left.dead);
    }

    /// After the repair: the backlog drains, and everything is judged.
    async fn ends(mut self, received: impl AsyncFnOnce() -> Vec<String>) {
        self.application.enters(Phase::After);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let record = self.application.stop();
        let drained = self.scene.comes_to(|left| left.pending == 0).await;
        let left = self.scene.left().await;
        self.scene.ends_well();
        let received = received().await;
        let verdict = judge(&record.committed, received.iter().map(String::as_str));
        let charged = self.scene.charged().await;
        let name = self.name;
        println!(
            "{name}: committed {}, rolled back {}, received {}, {verdict}; attempts counted {}, dead {}; drained in \
             {drained:?} after the load",
            record.committed.len(),
            record.rolled_back,
            received.len(),
            charged.len(),
            left.dead,
        );
        let at = |phase, percent| record.latency(phase, percent);
        println!(
            "{name}: the application's transactions: before the outage p50 {:?} p99 {:?} ({}), during it p50 {:?} p99 \
             {:?} ({})",
            at(Phase::Before, 50),
            at(Phase::Before, 99),
            record.transactions(Phase::Before),
            at(Phase::During, 50),
            at(Phase::During, 99),
            record.transactions(Phase::During),
        );
        assert!(charged.is_empty(), "an outage was charged: {:?}", &charged[..charged.len().min(5)]);
        assert_eq!(left.dead, 0);
        assert!(verdict.holds(), "{verdict}");
        let allowed = at(Phase::Before, 99) * 3 + Duration::from_millis(20);
        assert!(at(Phase::During, 99) <= allowed, "the application waited: more than {allowed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_stopped_costs_nothing_and_the_backlog_drains_in_order() {
    let _alone = ALONE.lock().await;
    let Some(mut nats) = installed(WHAT, Nats::start().await) else { return };
    let Some(scene) = installed(WHAT, Scene::set(&Nats::broker(nats.server.port())).await) else { return };
    let outage = Outage::prepare("broker stopped", scene).await;
    nats.server.stop();
    outage.lasts("refused").await;
    nats.server.restart().await.unwrap();
    outage.ends(async || nats.ids().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_deleted_costs_nothing_and_the_backlog_drains_in_order() {
    let _alone = ALONE.lock().await;
    let Some(nats) = installed(WHAT, Nats::start().await) else { return };
    let tap = Tap::open(&nats.observer).await;
    let Some(scene) = installed(WHAT, Scene::set(&Nats::broker(nats.server.port())).await) else { return };
    let outage = Outage::prepare("stream deleted", scene).await;
    nats.delete_stream().await;
    let mut received = tap.close().await;
    outage.lasts("no JetStream stream").await;
    stream::create(&nats.observer).await;
    outage
        .ends(async || {
            received.extend(nats.ids().await);
            received
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_revoked_cost_nothing_and_the_backlog_drains_in_order() {
    let _alone = ALONE.lock().await;
    let Some(mut nats) = installed(WHAT, Nats::start().await) else { return };
    let Some(scene) = installed(WHAT, Scene::set(&Nats::broker(nats.server.port())).await) else { return };
    let outage = Outage::prepare("credentials revoked", scene).await;
    nats.revoke();
    outage.lasts("authorization violation").await;
    nats.restore();
    outage.ends(async || nats.ids().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_only_500_costs_nothing_and_the_backlog_drains_in_order() {
    let _alone = ALONE.lock().await;
    let endpoint = http::Endpoint::start().await;
    let Some(scene) = installed(WHAT, Scene::set(&endpoint.broker()).await) else { return };
    let outage = Outage::prepare("endpoint answering 500", scene).await;
    endpoint.answers_500();
    outage.lasts("500").await;
    endpoint.answers_204();
    outage.ends(async || endpoint.ids()).await;
}
