//! What a replication slot would cost, and a standby that does not answer.

use postrider_core::Outcome;
use postrider_stores::postgres::{PostgresOptions, PostgresStore, migrate};
use postrider_testkit::servers::postgres::Postgres;

use super::number;
use super::postgres::{Relay, client, insert, lanes, payloads};

/// A commit that waits for a standby is in the log and not yet visible.
#[tokio::test]
async fn finding_04_a_commit_that_waits_for_a_standby_is_read_when_it_is_visible_and_once() {
    let server = Postgres::start().await.unwrap();
    migrate(&PostgresOptions::new(&server.url()).unwrap(), lanes(8)).await.unwrap();
    let store = PostgresStore::open(PostgresOptions::new(&server.url()).unwrap()).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    assert!(relay.read_all().await.is_empty());
    server.psql("postgres", "alter system set synchronous_standby_names = 'nobody'").await.unwrap();
    server.psql("postgres", "select pg_reload_conf()").await.unwrap();
    while server.psql("postgres", "show synchronous_standby_names").await.unwrap() != "nobody" {}
    let writer = client(&server.url()).await;
    let writing = tokio::spawn(async move { insert(&writer, "a", "1").await });
    let waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    while server.psql("postgres", waits).await.unwrap() != "1" {}
    assert!(relay.read_all().await.is_empty(), "it may still be lost by a failover");
    server.psql("postgres", "alter system reset synchronous_standby_names").await.unwrap();
    server.psql("postgres", "select pg_reload_conf()").await.unwrap();
    writing.await.unwrap();
    let rows = relay.read_all().await;
    assert_eq!(payloads(&rows), ["1"]);
    assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows, [rows[0].id]);
    assert!(relay.read_all().await.is_empty());
}

/// Why a relay does not begin with a slot: it would wait for every open writer, and polling does not.
#[tokio::test]
async fn finding_05_a_slot_waits_for_an_open_writer_and_polling_goes_on() {
    let server = Postgres::start().await.unwrap();
    migrate(&PostgresOptions::new(&server.url()).unwrap(), lanes(8)).await.unwrap();
    let store = PostgresStore::open(PostgresOptions::new(&server.url()).unwrap()).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let idle = client(&server.url()).await;
    idle.batch_execute("begin").await.unwrap();
    insert(&idle, "a", "open").await;
    let slot = client(&server.url()).await;
    let making = tokio::spawn(async move {
        slot.batch_execute("select pg_create_logical_replication_slot('s', 'pgoutput', true)").await.unwrap();
    });
    let waits = "select count(*) from pg_stat_activity where wait_event = 'transactionid'";
    while server.psql("postgres", waits).await.unwrap() != "1" {}
    let writer = client(&server.url()).await;
    for n in 0..10 {
        insert(&writer, "b", &n.to_string()).await;
        assert_eq!(payloads(&relay.read_all().await), [n.to_string()]);
    }
    assert!(!making.is_finished(), "the reproduction: the slot waits");
    idle.batch_execute("commit").await.unwrap();
    making.await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["open"]);
}

/// Why a slot is dropped above a bound: an open writer holds the log behind it, however fast it is read.
#[tokio::test]
async fn finding_06_an_open_writer_holds_the_log_of_a_slot_that_is_read_to_its_end() {
    let server = Postgres::start().await.unwrap();
    let (reader, idle, writer) =
        (client(&server.url()).await, client(&server.url()).await, client(&server.url()).await);
    writer
        .batch_execute("create table other (n int, filler text); create publication p for table other")
        .await
        .unwrap();
    reader.batch_execute("select pg_create_logical_replication_slot('s', 'pgoutput', true)").await.unwrap();
    idle.batch_execute("begin; insert into other values (1, 'x')").await.unwrap();
    let fill = "insert into other select n, repeat('x', 500) from generate_series(1, 20000) n";
    writer.batch_execute(fill).await.unwrap();
    let consume = "select count(*) from pg_logical_slot_get_binary_changes('s', null, null, 'proto_version', '1', 'publication_names', 'p')";
    let retained =
        "select (pg_current_wal_lsn() - restart_lsn)::bigint from pg_replication_slots where slot_name = 's'";
    // A record of the running transactions lets the slot move on, if anything does.
    let tell = "select pg_log_standby_snapshot()";
    let held = {
        assert!(number(&reader, consume).await > 0);
        writer.batch_execute("checkpoint").await.unwrap();
        number(&reader, consume).await;
        number(&reader, retained).await
    };
    assert!(held > 8 << 20, "{held} bytes are held: the reproduction");
    idle.batch_execute("commit").await.unwrap();
    let mut left = held;
    for _ in 0..20 {
        let _ = writer.batch_execute(tell).await;
        writer.batch_execute("insert into other values (2, 'x'); checkpoint").await.unwrap();
        number(&reader, consume).await;
        left = number(&reader, retained).await;
        if left < 1 << 20 {
            break;
        }
    }
    assert!(left < 1 << 20, "{left} bytes are still held");
}
