//! PostgreSQL through PgBouncer in transaction mode: every statement of the suite of stores, while a second client
//! takes turns on the same two server connections.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postgres::harness::Harness;
use postgres::{Relay, client, lanes, payloads};
use postrider_core::{Lane, Level, Message, Outcome, Store};
use postrider_stores::postgres::{Pooling, PostgresOptions, PostgresStore, migrate};
use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::postgres::{Postgres, shared};
use postrider_testkit::suites::store::{LANES, StoreHarness};
use postrider_testkit::{one_order_suite, store_suite};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

static POOLER: OnceCell<PgBouncer> = OnceCell::const_new();

async fn pooler() -> &'static PgBouncer {
    POOLER.get_or_init(async || PgBouncer::start(shared().await.unwrap(), 2).await.unwrap()).await
}

fn options(url: &str) -> PostgresOptions {
    PostgresOptions::new(url).unwrap().pooling(Pooling::Transaction)
}

/// A harness beside which a second client works.
struct Crowded {
    harness: Harness,
    other: JoinHandle<()>,
}

impl Drop for Crowded {
    fn drop(&mut self) {
        self.other.abort();
    }
}

#[async_trait]
impl StoreHarness for Crowded {
    fn store(&self) -> Arc<dyn Store> {
        self.harness.store()
    }

    async fn write(&self, messages: &[Message]) {
        self.harness.write(messages).await;
    }

    async fn write_nonsense(&self) -> Vec<String> {
        self.harness.write_nonsense().await
    }

    async fn pass(&self, time: Duration) {
        self.harness.pass(time).await;
    }

    async fn steal(&self, lane: Lane) {
        self.harness.steal(lane).await;
    }
}

async fn start() -> Crowded {
    of_lanes(LANES).await
}

async fn start_of_one_lane() -> Crowded {
    of_lanes(1).await
}

async fn of_lanes(lanes: u16) -> Crowded {
    let (server, pooler) = (shared().await.unwrap(), pooler().await);
    let harness = Harness::fresh(server, lanes, async |database| options(&pooler.url_for(database))).await;
    let mut operator = harness.store.operator().await.unwrap();
    let other = tokio::spawn(async move {
        loop {
            operator.status(3).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    Crowded { harness, other }
}

store_suite!(start);
one_order_suite!(start_of_one_lane);

#[tokio::test]
async fn a_session_does_not_survive_between_two_statements_here() {
    let server = shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    let (one, two) =
        (client(&pooler().await.url_for(&database)).await, client(&pooler().await.url_for(&database)).await);
    one.batch_execute("set application_name = 'one'").await.unwrap();
    one.batch_execute("begin").await.unwrap();
    let mut names = Vec::new();
    two.batch_execute("set application_name = 'two'").await.unwrap();
    one.batch_execute("commit").await.unwrap();
    for _ in 0..2 {
        two.batch_execute("begin").await.unwrap();
        let shown = one.simple_query("show application_name").await.unwrap();
        names.push(format!("{shown:?}"));
        two.batch_execute("commit").await.unwrap();
    }
    let pids = server
        .psql(&database, &format!("select count(*) <= 3 from pg_stat_activity where datname = '{database}'"))
        .await
        .unwrap();
    assert_eq!(pids, "t", "the pooler shares its connections");
}

#[tokio::test]
async fn without_planner_settings_the_backlog_is_read_in_spans_and_the_doctor_says_so() {
    let server = shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    migrate(&options(&server.url_for(&database)), lanes(8)).await.unwrap();
    let gap = "select setval('postrider_outbox_id_seq', 1000000); insert into postrider_outbox (topic, payload) values ('t', 'far')";
    server.psql(&database, "insert into postrider_outbox (topic, payload) values ('t', 'near')").await.unwrap();
    server.psql(&database, gap).await.unwrap();
    let store = PostgresStore::open(options(&pooler().await.url_for(&database))).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    assert_eq!(payloads(&relay.read_all().await), ["far", "near"]);
    let sql = "insert into postrider_outbox (topic, payload) select 't', 'x' from generate_series(1, 3000)";
    server.psql(&database, sql).await.unwrap();
    assert_eq!(relay.read_all().await.len(), 3000);
    let findings = store.operator().await.unwrap().check().await.unwrap();
    let planner = findings.iter().find(|finding| finding.subject == "planner settings").unwrap();
    assert_eq!(planner.level, Level::Warning);
    let limit = findings.iter().find(|finding| finding.subject == "statement timeout").unwrap();
    assert_eq!(limit.level, Level::Warning);
}

/// The pooler may ask another server, or the same one after a crash, between the snapshot and the rows.
#[tokio::test]
async fn rows_of_another_life_than_their_snapshot_are_not_believed() {
    let server = shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    migrate(&options(&server.url_for(&database)), lanes(8)).await.unwrap();
    let store = PostgresStore::open(options(&pooler().await.url_for(&database))).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    assert!(relay.read_all().await.is_empty());
    store.operator().await.unwrap().enqueue(&[Message::new("t", "late")]).await.unwrap();
    let holder = client(&server.url_for(&database)).await;
    holder.batch_execute("begin; lock table postrider_outbox in access exclusive mode").await.unwrap();
    let reading = tokio::spawn(async move {
        let page = relay.read().await;
        (relay, page)
    });
    let waits = "select count(*) from pg_locks where relation = 'postrider_outbox'::regclass and not granted";
    while server.psql(&database, waits).await.unwrap() != "1" {}
    server.psql(&database, "truncate postrider_boot").await.unwrap();
    holder.batch_execute("commit").await.unwrap();
    let (mut relay, page) = reading.await.unwrap();
    assert!(page.discontinued && page.rows.is_empty(), "{page:?}");
    assert_eq!(payloads(&relay.read_all().await), ["late"]);
}

/// A walk over every number that was ever given would take 156,250 statements, also behind a dead letter of long ago.
#[tokio::test]
async fn a_walk_passes_numbers_that_are_gone_in_one_step() {
    let server = shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    migrate(&options(&server.url_for(&database)), lanes(8)).await.unwrap();
    let old = "insert into postrider_outbox (topic, payload) values ('t', 'given up');
               update postrider_outbox set state = 1, dead_at = now();
               select setval('postrider_outbox_id_seq', 10000000000);
               insert into postrider_outbox (topic, payload) select 't', 'x' from generate_series(1, 3000)";
    server.psql(&database, old).await.unwrap();
    let store = PostgresStore::open(options(&pooler().await.url_for(&database))).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let rows = tokio::time::timeout(Duration::from_secs(10), relay.read_all()).await.unwrap();
    assert_eq!(rows.len(), 3000);
}

/// What one client prepared there, a statement of the next one would run.
#[tokio::test]
async fn a_pooler_that_swallows_the_settings_gets_nothing_prepared() {
    let server = shared().await.unwrap();
    let pooler = PgBouncer::start_with(server, 1, "ignore_startup_parameters = options").await.unwrap();
    let database = server.create_database().await.unwrap();
    migrate(&options(&server.url_for(&database)), lanes(8)).await.unwrap();
    let direct = PostgresOptions::new(&pooler.url_for(&database)).unwrap();
    let store = PostgresStore::open(direct).await.unwrap();
    let (mut relay, mut standby) = (Relay::joined(&store).await, Relay::joined(&store).await);
    for round in 0..3 {
        store.operator().await.unwrap().enqueue(&[Message::new("t", round.to_string())]).await.unwrap();
        let rows = relay.read_all().await;
        assert_eq!(payloads(&rows), [round.to_string()]);
        assert!(standby.read_all().await.is_empty());
        assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows, postgres::ids(&rows));
    }
    let shared = client(&pooler.url_for(&database)).await;
    let prepared = shared.simple_query("select name from pg_prepared_statements where name <> ''").await.unwrap();
    let rows = prepared.iter().filter(|answer| matches!(answer, tokio_postgres::SimpleQueryMessage::Row(_)));
    assert_eq!(rows.count(), 0);
}

#[tokio::test]
async fn a_crash_that_the_pooler_hides_is_noticed_by_the_boot_id() {
    let mut server = Postgres::start().await.unwrap();
    let pooler = PgBouncer::start(&server, 2).await.unwrap();
    let database = server.create_database().await.unwrap();
    migrate(&options(&server.url_for(&database)), lanes(8)).await.unwrap();
    let store = PostgresStore::open(options(&pooler.url_for(&database))).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    store.operator().await.unwrap().enqueue(&[Message::new("t", "before")]).await.unwrap();
    let rows = relay.read_all().await;
    relay.settle(&rows, Outcome::Delivered).await;
    assert!(relay.read_all().await.is_empty());
    server.kill9();
    server.restart().await.unwrap();
    let mut discontinued = false;
    let mut found = Vec::new();
    store.operator().await.unwrap().enqueue(&[Message::new("t", "after")]).await.unwrap_or_default();
    for _ in 0..100 {
        match relay.source.read(&relay.held, postgres::ROOM).await {
            Ok(page) => {
                discontinued |= page.discontinued;
                found.extend(page.rows);
                if discontinued && !page.discontinued && !page.more {
                    break;
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    assert!(discontinued, "the relay was not told");
    // The removal of the first may be lost with the server: then it comes once more.
    let found = payloads(&found);
    let times = |payload: &str| found.iter().filter(|one| *one == payload).count();
    assert!(times("before") <= 1 && times("after") <= 1 && found.len() <= 2, "{found:?}");
}
