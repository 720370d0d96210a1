//! What a server loses in a crash, and what comes of another server's numbers.

use std::time::Duration;

use postrider_core::{DeadReason, Level, Outcome};
use postrider_stores::postgres::{Pooling, PostgresOptions, PostgresStore, migrate};
use postrider_testkit::servers::pgbouncer::PgBouncer;
use postrider_testkit::servers::postgres::Postgres;
use postrider_testkit::servers::process::{Signal, signal};
use tokio_postgres::Client;

use super::number;
use super::postgres::{Outbox, ROOM, Relay, client, insert, lanes, payloads};

/// The end of one server process, as the kernel's memory killer would bring it: the others end and recover.
async fn crash(server: &Postgres, database: &str) -> Client {
    let (victim, witness) = (client(&server.url_for(database)).await, client(&server.url_for(database)).await);
    let pid: i32 = victim.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    signal(u32::try_from(pid).unwrap(), Signal::Kill).unwrap();
    while witness.simple_query("select 1").await.is_ok() {}
    for _ in 0..1_000 {
        let connected = tokio_postgres::connect(&server.url_for(database), tokio_postgres::NoTls).await;
        if let Ok((client, connection)) = connected {
            tokio::spawn(connection);
            if client.simple_query("select 1").await.is_ok() {
                return client;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server did not come back");
}

/// An abort forces nothing to disk: without the writers of the background the log ends before it.
const LAZY: [&str; 4] = ["wal_writer_delay=10s", "bgwriter_delay=10s", "autovacuum=off", "checkpoint_timeout=1d"];

async fn abort(writer: &Client, times: usize) {
    for _ in 0..times {
        writer.batch_execute("begin").await.unwrap();
        insert(writer, "a", "ghost").await;
        writer.batch_execute("rollback").await.unwrap();
    }
}

/// What a relay reads after a crash that gave transaction ids again, so that five committed rows lie below what it had
/// read up to; none when the log happened to be written just before the crash, and no id was given again.
async fn read_after_a_crash(pooled: bool) -> Option<Vec<String>> {
    let server = Postgres::start_with(&LAZY).await.unwrap();
    let pooler = PgBouncer::start(&server, 2).await.unwrap();
    let database = server.create_database().await.unwrap();
    let direct = PostgresOptions::new(&server.url_for(&database)).unwrap();
    migrate(&direct, lanes(8)).await.unwrap();
    let options = if pooled {
        PostgresOptions::new(&pooler.url_for(&database)).unwrap().pooling(Pooling::Transaction)
    } else {
        direct
    };
    let store = PostgresStore::open(options).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let writer = client(&server.url_for(&database)).await;
    writer.batch_execute("checkpoint").await.unwrap();
    abort(&writer, 60).await;
    assert!(relay.read_all().await.is_empty());
    let read_up_to = number(&writer, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await;
    let writer = crash(&server, &database).await;
    for n in 0..5 {
        insert(&writer, "a", &n.to_string()).await;
    }
    let given = number(&writer, "select max(xid::text::bigint) from postrider_outbox").await;
    if given >= read_up_to {
        return None;
    }
    // Now no comparison of snapshots tells that time went back.
    abort(&writer, 100).await;
    assert!(number(&writer, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await > read_up_to);
    let mut found = Vec::new();
    for _ in 0..100 {
        match relay.source.read(&relay.held, ROOM).await {
            Ok(page) => found.extend(page.rows),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        if found.len() >= 5 {
            break;
        }
    }
    Some(payloads(&found))
}

/// Without a pooler the lost connection tells of the crash; with one only the boot id does.
#[tokio::test]
async fn finding_01_rows_under_transaction_ids_that_a_crash_gave_again_are_read() {
    for pooled in [false, true] {
        let mut found = None;
        for _ in 0..5 {
            found = read_after_a_crash(pooled).await;
            if found.is_some() {
                break;
            }
        }
        let found = found.expect("no crash gave a transaction id again");
        assert_eq!(found, ["0", "1", "2", "3", "4"], "pooled: {pooled}");
    }
}

/// Rows from the future are of another cluster; rows from the past and of a running transaction's number come too.
#[tokio::test]
async fn finding_10_restored_rows_come_once_whatever_their_transaction_ids() {
    let outbox = Outbox::fresh().await;
    let open = outbox.client().await;
    open.batch_execute("begin").await.unwrap();
    insert(&open, "a", "open").await;
    let running = number(&open, "select pg_current_xact_id()::text::bigint").await;
    for (xid, text) in [("1000000000".to_owned(), "future"), ("3".to_owned(), "past"), (running.to_string(), "running")]
    {
        let sql = format!("insert into postrider_outbox (topic, payload, xid) values ('t', '{text}', '{xid}')");
        outbox.sql(&sql).await;
    }
    let mut relay = Relay::joined(&outbox.store).await;
    let mut found = payloads(&relay.read_all().await);
    open.batch_execute("commit").await.unwrap();
    found.extend(payloads(&relay.read_all().await));
    found.sort();
    assert_eq!(found, ["future", "open", "past", "running"]);
    assert_eq!(
        outbox.sql("select count(*) from postrider_outbox where xid >= pg_snapshot_xmax(pg_current_snapshot())").await,
        "0"
    );
}

/// A server that flushes for commits that wait only, with an outbox and a relay.
async fn lazy() -> (Postgres, String, Relay, Client) {
    let server = Postgres::start_with(&LAZY).await.unwrap();
    let database = server.create_database().await.unwrap();
    let options = PostgresOptions::new(&server.url_for(&database)).unwrap();
    migrate(&options, lanes(8)).await.unwrap();
    let relay = Relay::joined(&PostgresStore::open(options).await.unwrap()).await;
    let writer = client(&server.url_for(&database)).await;
    (server, database, relay, writer)
}

async fn left(client: &Client) -> Vec<(String, i16)> {
    let rows = client.query("select payload, state from postrider_outbox order by id", &[]).await.unwrap();
    rows.iter().map(|row| (String::from_utf8(row.get(0)).unwrap(), row.get(1))).collect()
}

#[tokio::test]
async fn what_was_delivered_just_before_a_crash_is_there_again() {
    let (server, database, mut relay, writer) = lazy().await;
    // The server's own writer may come between a settle and the look.
    for _ in 0..20 {
        insert(&writer, "a", "just before").await;
        let rows = relay.read_all().await;
        relay.settle(&rows, Outcome::Delivered).await;
        let unwritten = "select (pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn())::integer::bigint";
        if number(&writer, unwritten).await == 1 {
            let writer = crash(&server, &database).await;
            assert_eq!(left(&writer).await, [("just before".to_owned(), 0)]);
            return;
        }
    }
    panic!("every settle of delivered messages waited for the disk");
}

/// What people are told of waits for the disk, and takes along what was delivered before.
#[tokio::test]
async fn what_was_given_up_just_before_a_crash_stays_given_up() {
    let (server, database, mut relay, writer) = lazy().await;
    insert(&writer, "a", "delivered").await;
    insert(&writer, "b", "given up").await;
    let rows = relay.read_all().await;
    let dead = Outcome::Dead { reason: DeadReason::Attempts, attempts: 9, waiting_for: None, failures: vec![] };
    relay.settle(&rows[..1], Outcome::Delivered).await;
    relay.settle(&rows[1..], dead).await;
    let writer = crash(&server, &database).await;
    assert_eq!(left(&writer).await, [("given up".to_owned(), 1)]);
}

/// A subscription writes rows whose transaction ids are another cluster's: nobody may relay from its target.
#[tokio::test]
async fn finding_10_an_outbox_that_is_the_target_of_a_subscription_fails_the_doctor() {
    let (publisher, outbox) = (Outbox::fresh().await, Outbox::fresh().await);
    publisher.sql("create publication outgoing for table postrider_outbox").await;
    outbox
        .sql(&format!(
            "create subscription incoming connection '{}' publication outgoing
               with (create_slot = false, enabled = false, copy_data = false)",
            publisher.server.url_for(&publisher.database)
        ))
        .await;
    let findings = outbox.operator().await.check().await.unwrap();
    let subscribed = findings.iter().find(|finding| finding.subject == "logical replication").unwrap();
    assert_eq!(subscribed.level, Level::Failure);
    assert!(subscribed.advice.contains("publication"), "{subscribed:?}");
    assert!(publisher.operator().await.check().await.unwrap().iter().all(|f| f.subject != "logical replication"));
}
