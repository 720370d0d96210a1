//! One event, two services: a broker, and an HTTP endpoint that is away for a while. The broker gets every message once and
//! in order, as fast as before; the endpoint gets what it is owed, in order, when it is back.
//!
//! The endpoint is away for 5 s here, and for two minutes with `POSTRIDER_FULL=1`, as `cargo xtask show mysql-kafka.3` sets
//! it. Rates are only worth reading from a release build.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod application;
mod endpoint;
#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../cli/harness.rs"]
mod harness;
#[cfg(feature = "kafka")]
mod kafka;
mod scene;
#[allow(dead_code, reason = "these tests use a part of it")]
#[path = "../outage/stream.rs"]
mod stream;
mod timeline;

use endpoint::Absence;
use postrider_testkit::servers::installed;
#[cfg(all(feature = "kafka", feature = "mysql"))]
use postrider_testkit::servers::mariadb;
use postrider_testkit::servers::nats::NatsServer;
use scene::{Scene, sizes};
use timeline::Arrival;
use tokio::sync::Mutex;

/// Loads that are measured don't run beside each other.
static ALONE: Mutex<()> = Mutex::const_new(());

/// What is not run where a server is not installed.
const WHAT: &str = "one event for two services";

/// Everything in the stream, in its order.
async fn arrivals(observer: &async_nats::Client) -> Vec<Arrival> {
    let received = stream::read(observer).await;
    received.iter().map(|message| Arrival { id: message.id().to_owned(), at: message.stored_at }).collect()
}

async fn nats_beside(absence: Absence, relay: &str) {
    let _alone = ALONE.lock().await;
    let Some(nats) = installed(WHAT, NatsServer::start().await) else { return };
    let observer = async_nats::connect(nats.url()).await.unwrap();
    stream::create(&observer).await;
    let events = format!("url = \"{}\"", nats.url());
    let Some(mut scene) = installed(WHAT, Scene::set(&events, relay).await) else { return };
    let outcome = scene.play(sizes(), absence).await;
    outcome.judge("NATS", &arrivals(&observer).await, sizes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_gets_everything_once_while_http_is_away_and_http_catches_up_in_order() {
    nats_beside(Absence::Closed, "").await;
}

/// The window is full long before the first request is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_gets_everything_once_while_http_answers_nothing_and_http_catches_up_in_order() {
    nats_beside(Absence::Silent, "window_rows = 200").await;
}

/// The whole way that the example goes.
#[cfg(all(feature = "kafka", feature = "mysql"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_mariadb_writes_goes_on_to_kafka_while_http_is_away_and_http_catches_up_in_order() {
    let _alone = ALONE.lock().await;
    let Some(kafka) = installed(WHAT, kafka::Kafka::start().await) else { return };
    let Some(server) = installed(WHAT, mariadb::shared().await) else { return };
    let url = server.url_for(&server.create_database().await.unwrap());
    let mut scene = Scene::on(url, &kafka.broker(), "").await;
    let outcome = scene.play(sizes(), Absence::Closed).await;
    outcome.judge("Kafka", &kafka.arrivals().await, sizes());
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_is_as_fast_as_before_while_http_is_away_and_http_catches_up_in_order() {
    let _alone = ALONE.lock().await;
    let Some(kafka) = installed(WHAT, kafka::Kafka::start().await) else { return };
    let Some(mut scene) = installed(WHAT, Scene::set(&kafka.broker(), "").await) else { return };
    let outcome = scene.play(sizes(), Absence::Closed).await;
    outcome.judge("Kafka", &kafka.arrivals().await, sizes());
}
