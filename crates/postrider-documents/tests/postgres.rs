//! Documents in PostgreSQL pass the suite, against a real server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod counting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{DocumentStore, ErrorKind, Level, WriteError};
use postrider_documents::open;
use postrider_testkit::proxy::{Passage, Proxy};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::postgres::{PASSWORD, Postgres};
use postrider_testkit::suites::documents::{DocumentHarness, draft, key, run};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

/// A database whose schemas the harnesses of one suite use one after the other.
struct Server {
    postgres: Mutex<Postgres>,
    database: String,
    is_away: AtomicBool,
    places: AtomicUsize,
}

impl Server {
    async fn start(isolation: &str) -> Option<Arc<Self>> {
        let postgres = installed("documents in PostgreSQL", Postgres::start().await)?;
        let database = postgres.create_database().await.unwrap();
        let set = format!("alter database {database} set default_transaction_isolation = '{isolation}'");
        postgres.psql("postgres", &set).await.unwrap();
        let (is_away, places) = (AtomicBool::new(false), AtomicUsize::new(0));
        Some(Arc::new(Self { postgres: Mutex::new(postgres), database, is_away, places }))
    }

    async fn stop(&self) {
        self.postgres.lock().await.stop();
        self.is_away.store(true, Ordering::SeqCst);
    }

    async fn bring_back(&self) {
        if self.is_away.swap(false, Ordering::SeqCst) {
            restart(&mut *self.postgres.lock().await);
        }
    }
}

/// Starts it again, in a place of its own: the future of that goes to no other thread.
fn restart(postgres: &mut Postgres) {
    let until = Instant::now() + Duration::from_secs(60);
    // The orphans of a killed server take their time on a busy machine.
    while let Err(error) = tokio::task::block_in_place(|| Handle::current().block_on(postgres.restart())) {
        assert!(Instant::now() < until, "{error}");
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
        let [prepared, empty] = {
            let postgres = server.postgres.lock().await;
            let schemas = format!("create schema prepared_{place}; create schema empty_{place}");
            postgres.psql(&server.database, &schemas).await.unwrap();
            let url = postgres.url_for(&server.database);
            ["prepared", "empty"].map(|kind| format!("{url}?timeout=3&schema={kind}_{place}"))
        };
        let harness = Self { server, prepared, empty };
        harness.client().await.prepare().await.unwrap();
        harness
    }
}

#[async_trait]
impl DocumentHarness for Harness {
    async fn client(&self) -> Arc<dyn DocumentStore> {
        open(&self.prepared).await.unwrap()
    }

    async fn unprepared(&self) -> Arc<dyn DocumentStore> {
        open(&self.empty).await.unwrap()
    }

    async fn stop(&self) {
        self.server.stop().await;
    }

    async fn start(&self) {
        self.server.bring_back().await;
    }

    async fn crash(&self) {
        let mut postgres = self.server.postgres.lock().await;
        postgres.kill9();
        restart(&mut postgres);
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
async fn documents_in_postgres_pass_the_suite() {
    for isolation in ["read committed", "serializable"] {
        let Some(server) = Server::start(isolation).await else { return };
        let suite = format!("postgres, {isolation}");
        run(&suite, async || Harness::start(Arc::clone(&server)).await).await.expect_success();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused() {
    let Some(primary) = installed("documents on a replica", Postgres::start().await) else { return };
    open(&primary.url()).await.unwrap().prepare().await.unwrap();
    let standby = primary.standby().await.unwrap();
    let replica = open(&standby.url()).await.unwrap();
    let read = replica.load(&key("7")).await.unwrap_err();
    let checked = replica.check().await.unwrap_err();
    for error in [read, checked] {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("give the URL of the primary"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_unknown_and_what_it_was_about_is_there() {
    let Some(server) = installed("documents behind a proxy", Postgres::start().await) else { return };
    let direct = open(&server.url()).await.unwrap();
    direct.prepare().await.unwrap();
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into(), b"").await.unwrap();
    let url = server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let store = open(&format!("{url}?timeout=1&connections=1")).await.unwrap();
    let (key, first, second) = (key("7"), draft("{\"n\": 1}"), draft("{\"n\": 2}"));

    store.load(&key).await.unwrap();
    proxy.lose_answer();
    unknown(store.create(&key, &first).await);
    let stored = store.load(&key).await.unwrap().unwrap();
    assert_eq!(stored.version.0, first.revision.0.to_string());

    // It hangs until the time is over, and may still be done.
    proxy.pass(Passage::HeldToServer);
    unknown(store.replace(&key, &stored.version, &second).await);
    assert_eq!(store.load(&key).await.unwrap_err().kind(), ErrorKind::Unavailable);
    proxy.pass(Passage::Open);
    store.load(&key).await.unwrap().unwrap();
}

fn unknown<T: std::fmt::Debug>(written: Result<T, WriteError>) {
    match written {
        Err(WriteError::Failed(error)) => assert_eq!(error.kind(), ErrorKind::Unknown, "{error}"),
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_finds_what_weakens_an_answer_and_a_right_that_is_missing() {
    let Some(server) = installed("a doctor of documents", Postgres::start().await) else { return };
    let database = server.create_database().await.unwrap();
    let sql = |text: String| {
        let (server, database) = (&server, &database);
        async move { server.psql(database, &text).await.unwrap() }
    };
    sql("create schema shop".to_owned()).await;
    open(&format!("{}?schema=shop", server.url_for(&database))).await.unwrap().prepare().await.unwrap();
    sql("create role clerk login password 'secret' in role pg_monitor".to_owned()).await;
    sql("grant usage on schema shop to clerk; grant select, insert on shop.postrider_document to clerk".to_owned())
        .await;
    sql("alter role clerk set synchronous_commit = off".to_owned()).await;
    let url = format!("{}?schema=shop", server.url_as("clerk", "secret", &database));
    let clerk = open(&url).await.unwrap();
    // It may not make a table, and need not.
    clerk.prepare().await.unwrap();
    let findings = clerk.check().await.unwrap();
    let level = |subject: &str| findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.level);
    assert_eq!((level("durability"), level("rights")), (Some(Level::Warning), Some(Level::Failure)), "{findings:?}");
    let version = clerk.create(&key("7"), &draft("{}")).await.unwrap();
    match clerk.delete(&key("7"), &version).await {
        Err(WriteError::Failed(error)) => assert!(error.to_string().contains("grant"), "{error}"),
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_connections_wait_for_their_turn() {
    let Some(server) = installed("documents over one connection", Postgres::start().await) else { return };
    let store = open(&format!("{}?connections=1", server.url())).await.unwrap();
    store.prepare().await.unwrap();
    let writes = (0..40).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.create(&key(&format!("{n}")), &draft("{}")).await.unwrap() })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.unwrap();
    }
    let open = "select count(*) from pg_stat_activity where application_name = 'postrider'";
    assert_eq!(server.psql("postgres", open).await.unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_may_stand_between() {
    let Some(server) = installed("documents behind PgBouncer", Postgres::start().await) else { return };
    let Some(pooler) = installed("documents behind PgBouncer", PgBouncer::start(&server, 1).await) else { return };
    let (one, two) =
        (open(&pooler.url_for("postgres")).await.unwrap(), open(&pooler.url_for("postgres")).await.unwrap());
    one.prepare().await.unwrap();
    assert!(two.check().await.unwrap().iter().all(|finding| finding.level == Level::Good));
    for n in 0..20 {
        let key = key(&format!("{n}"));
        let version = one.create(&key, &draft("{}")).await.unwrap();
        let changed = two.replace(&key, &version, &draft("[]")).await.unwrap();
        assert!(matches!(one.replace(&key, &version, &draft("1")).await, Err(WriteError::Conflict)));
        assert_eq!(one.load(&key).await.unwrap().unwrap().version, changed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counting_is_exact_while_answers_are_lost_and_connections_cut() {
    let Some(server) = installed("documents behind a proxy that loses answers", Postgres::start().await) else {
        return;
    };
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into(), b"").await.unwrap();
    let url = server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    counting::is_exact(&proxy, &server.url(), &format!("{url}?timeout=5&connections=2")).await;
}
