//! Awkward transactions on PostgreSQL under the real relay: against their id order, held open, rolled back, with
//! savepoints, prepared, and very large; beside an unrelated long transaction, which nothing waits for.
//!
//! `POSTRIDER_FULL=1` (`cargo xtask show main.4`) holds the open ones for ten seconds and writes a million rows in one
//! transaction; the miniature two seconds and fifty thousand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deliveries;

use postrider_testkit::command::command;
use postrider_testkit::servers::installed;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::servers::postgres::shared;
use tokio_postgres::{Client, NoTls};

use deliveries::Deliveries;

/// Single messages whose way is timed.
const PROBES: usize = 200;
/// What an unrelated transaction may add to the time that 99 of 100 messages need.
const MOST_ADDED: Duration = Duration::from_millis(100);

fn full() -> bool {
    std::env::var_os("POSTRIDER_FULL").is_some()
}

/// The real relay, ended with the test.
struct Relay(Child);

impl Relay {
    fn start(store: &str, file: &std::path::Path) -> Self {
        let migrate = command(env!("CARGO_BIN_EXE_postrider")).args(["migrate", "--store", store]).output();
        assert!(migrate.unwrap().status.success());
        let broker = format!("file://{}", file.display());
        let mut relay = command(env!("CARGO_BIN_EXE_postrider"));
        relay.args(["relay", "--store", store, "--broker", &broker, "--admin-listen", "127.0.0.1:0"]);
        Self(relay.args(["--log-level", "warn"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn enqueue(client: &Client, key: &str, payload: &str) {
    let sql = "select postrider_enqueue('t', $1, convert_to($2, 'UTF8'))";
    client.query_one(sql, &[&key, &payload]).await.unwrap();
}

/// The time from each commit to its line in the broker's file, for single messages; the 99th of 100.
async fn slowest_way(client: &Client, deliveries: &Deliveries, round: &str) -> Duration {
    let mut times = Vec::new();
    for number in 0..PROBES {
        let payload = format!("{round}-{number}");
        enqueue(client, round, &payload).await;
        let committed = Instant::now();
        deliveries.wait_for(&payload).await;
        times.push(committed.elapsed());
    }
    times.sort();
    times[PROBES * 99 / 100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn awkward_transactions_are_delivered_and_nothing_waits_for_an_unrelated_one() {
    let Some(server) = installed("awkward transactions over PostgreSQL", shared().await) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.jsonl");
    let store = server.fresh_database().await.unwrap();
    let relay = Relay::start(&store, &file);
    let deliveries = Deliveries::follow(file);
    let client = connect(&store).await;
    let quiet = slowest_way(&client, &deliveries, "quiet").await;

    // Unrelated, in another database of the same cluster, with a transaction id of its own, open to the end.
    let elsewhere = connect(&server.fresh_database().await.unwrap()).await;
    elsewhere.batch_execute("begin; create table unrelated (n int); insert into unrelated values (1)").await.unwrap();

    // The lower id commits last, after it was held open.
    let (mut early, mut late) = (connect(&store).await, connect(&store).await);
    let held = early.transaction().await.unwrap();
    held.batch_execute("select postrider_enqueue('t', 'early', 'held'::bytea)").await.unwrap();
    let quick = late.transaction().await.unwrap();
    quick.batch_execute("select postrider_enqueue('t', 'late', 'quick'::bytea)").await.unwrap();
    quick.commit().await.unwrap();
    let opened = Instant::now();
    deliveries.wait_for("quick").await;

    let busy = slowest_way(&client, &deliveries, "busy").await;
    savepoints_and_ends(&client, &deliveries).await;
    prepared(&client, &deliveries).await;
    assert!(!deliveries.has("held"), "a message was delivered before its transaction committed");
    let hold = Duration::from_secs(if full() { 10 } else { 2 });
    tokio::time::sleep_until((opened + hold).into()).await;
    held.commit().await.unwrap();
    deliveries.wait_for("held").await;

    let rows = if full() { 1_000_000 } else { 50_000 };
    let started = Instant::now();
    bulk(&client, rows).await;
    deliveries.wait_for(&format!("bulk-{rows}")).await;
    deliveries.wait_for_count("bulk-", rows).await;
    let took = started.elapsed();
    deliveries.numbers_rise_by_key("bulk-");
    for payload in ["rolled back", "undone", "prepared and rolled back"] {
        assert!(!deliveries.has(payload), "{payload:?} was delivered");
    }
    assert_eq!(deliveries.repeats(), 0, "repeats in quiet running");
    let count = "select count(*) from postrider_outbox";
    while client.query_one(count, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(started.elapsed() < Duration::from_secs(600), "what was delivered is not settled");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "transactions: p99 from commit to broker {quiet:.1?} quiet, {busy:.1?} beside open transactions; \
         {rows} rows of one transaction delivered in {took:.1?}, all settled"
    );
    assert!(busy < quiet + MOST_ADDED, "open transactions added {:?}", busy.saturating_sub(quiet));
    elsewhere.batch_execute("rollback").await.unwrap();
    drop(relay);
}

async fn savepoints_and_ends(client: &Client, deliveries: &Deliveries) {
    client.batch_execute("begin; select postrider_enqueue('t', 's', 'rolled back'::bytea); rollback").await.unwrap();
    let sql = "begin; select postrider_enqueue('t', 's', 'before'::bytea); savepoint one; \
               select postrider_enqueue('t', 's', 'undone'::bytea); rollback to one; savepoint two; \
               select postrider_enqueue('t', 's', 'after'::bytea); release two; commit";
    client.batch_execute(sql).await.unwrap();
    deliveries.wait_for("before").await;
    deliveries.wait_for("after").await;
}

async fn prepared(client: &Client, deliveries: &Deliveries) {
    let sql = "begin; select postrider_enqueue('t', 'p', 'prepared'::bytea); prepare transaction 'one'";
    client.batch_execute(sql).await.unwrap();
    let sql = "begin; select postrider_enqueue('t', 'p', 'prepared and rolled back'::bytea); prepare transaction 'two'";
    client.batch_execute(sql).await.unwrap();
    enqueue(client, "q", "after the prepared").await;
    deliveries.wait_for("after the prepared").await;
    assert!(!deliveries.has("prepared"));
    client.batch_execute("rollback prepared 'two'").await.unwrap();
    client.batch_execute("commit prepared 'one'").await.unwrap();
    deliveries.wait_for("prepared").await;
}

/// One transaction of many rows over a hundred keys; the payload numbers them.
async fn bulk(client: &Client, rows: usize) {
    let sql = format!(
        "insert into postrider_outbox (topic, key, payload) \
         select 't', 'b' || (g % 100), convert_to('bulk-' || g, 'UTF8') from generate_series(1, {rows}) g"
    );
    client.batch_execute(&sql).await.unwrap();
}
