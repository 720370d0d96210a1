//! They pass the suite: asked directly, and through a proxy and the wrapper for faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::DocumentStore;
use postrider_documents::open;
use postrider_testkit::proxy::{Passage, Proxy};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::redis::{PASSWORD, Redis};
use postrider_testkit::suites::documents::{DocumentHarness, run};
use postrider_testkit::troubled_documents::{Trouble, TroubledDocuments};
use tokio::sync::Mutex;

/// A server whose prefixes the harnesses of one suite use one after the other.
struct Server {
    redis: Mutex<Redis>,
    is_away: AtomicBool,
    places: AtomicUsize,
    /// What its clients ask through; none: they ask directly.
    proxy: Option<Proxy>,
}

impl Server {
    async fn start(what: &str) -> Option<Self> {
        let redis = Mutex::new(installed(what, Redis::start().await)?);
        Some(Self { redis, is_away: AtomicBool::new(false), places: AtomicUsize::new(0), proxy: None })
    }

    async fn bring_back(&self) {
        if self.is_away.swap(false, Ordering::SeqCst) {
            self.redis.lock().await.restart().await.unwrap();
        }
    }
}

struct Harness {
    server: Arc<Server>,
    prepared: String,
    empty: String,
}

impl Harness {
    async fn start(server: Arc<Server>) -> Self {
        server.bring_back().await;
        let place = server.places.fetch_add(1, Ordering::SeqCst);
        let (mut url, port) = {
            let redis = server.redis.lock().await;
            (redis.url(), redis.port())
        };
        if let Some(proxy) = &server.proxy {
            url = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
        }
        let [prepared, empty] = ["prepared", "empty"].map(|kind| format!("{url}?timeout=3&prefix={kind}:{place}"));
        let harness = Self { server, prepared, empty };
        harness.client().await.prepare().await.unwrap();
        harness
    }

    async fn open(&self, url: &str) -> Arc<dyn DocumentStore> {
        let store = open(url).await.unwrap();
        match self.server.proxy {
            Some(_) => TroubledDocuments::wrap(store, |_| Trouble::None),
            None => store,
        }
    }
}

#[async_trait]
impl DocumentHarness for Harness {
    async fn client(&self) -> Arc<dyn DocumentStore> {
        self.open(&self.prepared).await
    }

    async fn unprepared(&self) -> Arc<dyn DocumentStore> {
        self.open(&self.empty).await
    }

    async fn stop(&self) {
        self.server.redis.lock().await.stop();
        self.server.is_away.store(true, Ordering::SeqCst);
    }

    async fn start(&self) {
        self.server.bring_back().await;
    }

    async fn crash(&self) {
        let mut redis = self.server.redis.lock().await;
        redis.kill9();
        redis.restart().await.unwrap();
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn rounds(&self) -> usize {
        30
    }

    fn secret(&self) -> Option<String> {
        Some(PASSWORD.to_owned())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_redis_pass_the_suite() {
    let Some(server) = Server::start("documents in Redis").await else { return };
    let server = Arc::new(server);
    let version = server.redis.lock().await.version().unwrap();
    run(&format!("redis {version}"), async || Harness::start(Arc::clone(&server)).await).await.expect_success();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_in_redis_pass_the_suite_behind_a_slow_proxy() {
    let Some(mut server) = Server::start("documents in Redis behind a proxy").await else { return };
    let port = server.redis.get_mut().port();
    let proxy = Proxy::start(([127, 0, 0, 1], port).into(), b"").await.unwrap();
    proxy.pass(Passage::Slow(Duration::from_millis(1)));
    server.proxy = Some(proxy);
    let server = Arc::new(server);
    run("redis, behind a proxy", async || Harness::start(Arc::clone(&server)).await).await.expect_success();
}
