//! A large backlog in PostgreSQL in little memory, with delayed and dead rows beside it, large rows, and a slow broker.
//!
//! The miniature has a fiftieth of the rows; `POSTRIDER_FULL=1` (`cargo xtask show main.5`) has all of them. Rates are
//! only worth reading from a release build.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod relay;

use std::path::Path;
use std::time::Duration;

use postrider_testkit::servers::installed;
use postrider_testkit::servers::nats::NatsServer;
use postrider_testkit::servers::postgres::{Postgres, shared};
use tokio_postgres::{Client, NoTls};

use relay::Measured;

/// 100 MB, and two windows of 32 MiB.
const MOST_MEMORY: u64 = 100_000_000 + 2 * (32 << 20);

fn scaled(full: u64) -> u64 {
    if std::env::var_os("POSTRIDER_FULL").is_some() { full } else { full / 50 }
}

async fn outbox(server: &Postgres) -> (String, Client) {
    let url = server.fresh_database().await.unwrap();
    relay::migrate(&url);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (url, client)
}

async fn server(what: &str) -> Option<&'static Postgres> {
    installed(what, shared().await)
}

/// Rows of `bytes` bytes over 5,000 keys, in transactions of 100,000.
async fn fill(client: &Client, rows: u64, bytes: u64) {
    let mut left = rows;
    while left > 0 {
        let some = left.min(100_000);
        let sql = format!(
            "insert into postrider_outbox (topic, key, payload) \
             select 'orders.placed', 'k' || (g % 5000), convert_to(repeat('x', {bytes}), 'UTF8') \
             from generate_series(1, {some}) g"
        );
        client.batch_execute(&sql).await.unwrap();
        left -= some;
    }
}

async fn add_delayed_and_dead(client: &Client, each: u64) {
    let sql = format!(
        "insert into postrider_outbox (topic, key, payload, deliver_at) \
         select 'later', 'd' || g, 'x', clock_timestamp() + interval '1 day' from generate_series(1, {each}) g; \
         insert into postrider_outbox (topic, key, payload, state, dead_at, dead_reason, attempts) \
         select 'gone', 'e' || g, 'x', 1, clock_timestamp(), 1, 10 from generate_series(1, {each}) g"
    );
    client.batch_execute(&sql).await.unwrap();
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

const DUE: &str = "select count(*) from postrider_outbox where state in (0, 2) and deliver_at is null";

fn report(what: &str, rows: u64, measured: &Measured) {
    let rate = f64::from(u32::try_from(rows).unwrap()) / measured.took.as_secs_f64();
    let memory = measured.most_memory;
    println!(
        "backlog, {what}: {rows} rows in {:.1?}, {rate:.0} rows/s, resident memory at most {} MB",
        measured.took,
        memory / 1_000_000
    );
    assert!(memory < MOST_MEMORY, "{what}: {memory} bytes of resident memory, {MOST_MEMORY} are allowed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_beside_delayed_and_dead_rows_costs_little_memory_while_the_broker_is_slow_and_when_it_is_fast() {
    let Some(server) = server("backlog over PostgreSQL").await else { return };
    let (store, client) = outbox(server).await;
    let (rows, beside) = (scaled(5_000_000), scaled(1_000_000));
    add_delayed_and_dead(&client, beside).await;
    fill(&client, rows, 200).await;
    // Four calls of a thousand messages at once, 40 s each: 100 messages a second.
    let slow = "[broker.out]\nurl = \"memory:\"\ndelay = \"40s\"\n";
    let slow = relay::run_for(&store, slow, Duration::from_secs(scaled(300).max(6)));
    let left = u64::try_from(count(&client, DUE).await).unwrap();
    report("broker slowed to 100/s", rows - left, &slow);
    let measured = relay::drain(&store, "[broker.out]\nurl = \"memory:\"\n");
    report("memory broker, fast again", left, &measured);
    assert_eq!(count(&client, DUE).await, 0);
    let beside = i64::try_from(beside).unwrap();
    assert_eq!(count(&client, "select count(*) from postrider_outbox where state = 1").await, beside);
    assert_eq!(count(&client, "select count(*) from postrider_outbox where state = 0").await, beside);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_rows_travel_within_the_windows_bytes() {
    let Some(server) = server("large rows over PostgreSQL").await else { return };
    let (store, client) = outbox(server).await;
    let rows = scaled(2_000).max(80);
    fill(&client, rows, 1 << 20).await;
    let measured = relay::drain(&store, "[broker.out]\nurl = \"memory:\"\n");
    report("rows of 1 MiB", rows, &measured);
    assert_eq!(count(&client, DUE).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_drains_to_jetstream() {
    let Some(server) = server("backlog to NATS").await else { return };
    let Some(nats) = installed("backlog to NATS", NatsServer::start().await) else { return };
    let (store, client) = outbox(server).await;
    let rows = scaled(1_000_000);
    fill(&client, rows, 200).await;
    let jetstream = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    let config = async_nats::jetstream::stream::Config {
        name: "orders".to_owned(),
        subjects: vec!["orders.>".to_owned()],
        ..Default::default()
    };
    let mut stream = jetstream.create_stream(config).await.unwrap();
    let measured = relay::drain(&store, &format!("[broker.out]\nurl = \"{}\"\n", nats.url()));
    report("NATS JetStream, file storage", rows, &measured);
    assert_eq!(count(&client, DUE).await, 0);
    assert_eq!(stream.info().await.unwrap().state.messages, rows);
}

fn config(folder: &Path, store: &str, broker: &str) -> std::path::PathBuf {
    let path = folder.join("postrider.toml");
    let text = format!("[outbox]\nstore = \"{store}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n{broker}");
    std::fs::write(&path, text).unwrap();
    path
}
