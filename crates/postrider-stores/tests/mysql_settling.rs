//! Settling beside an application, other relays and deadlocks, on MariaDB.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod mysql;

use std::time::Duration;

use mysql::{Outbox, Relay, ids, insert, until};
use mysql_async::prelude::Queryable as _;
use postrider_core::{DeadReason, ErrorKind, Message, Outcome, Settlement};
use postrider_stores::History;
use postrider_testkit::servers::mariadb::{Mariadb, shared};

const SOON: Duration = Duration::from_secs(10);

fn messages(number: usize) -> Vec<Message> {
    (0..number).map(|n| Message::new("t", n.to_string()).key(format!("k{n}"))).collect()
}

fn delivered(rows: &[postrider_core::Row]) -> Vec<Settlement> {
    rows.iter().map(|row| mysql::settlement(row, Outcome::Delivered)).collect()
}

/// The server tells what it told last for as long as it is asked again within a tenth of a second
/// (<https://bugs.mysql.com/bug.php?id=48883>): whoever asks without a pause waits for ever.
async fn somebody_waits_for_a_lock(outbox: &Outbox<'_>) -> bool {
    tokio::time::sleep(Duration::from_millis(150)).await;
    outbox.sql(outbox.server.family().lock_waits()).await != "0"
}

/// The lane is changing hands while the settle comes: it waits for the decision and obeys it.
#[tokio::test]
async fn a_zombie_waits_for_the_thief_of_its_lane_and_changes_nothing() {
    let outbox = Outbox::fresh().await;
    outbox.enqueue(&messages(20)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    let mut thief = outbox.connection().await;
    thief.query_drop("begin").await.unwrap();
    thief.query_drop("update postrider_lane set owner = uuid(), term = term + 1").await.unwrap();
    let (me, held, batch) = (relay.me, relay.held.clone(), delivered(&rows));
    let zombie = tokio::spawn(async move { relay.settler.settle(me, &held, &batch).await.unwrap() });
    until("the zombie's wait", async || somebody_waits_for_a_lock(&outbox).await).await;
    thief.query_drop("commit").await.unwrap();
    let settled = zombie.await.unwrap();
    assert!(settled.rows.is_empty() && settled.lanes.is_empty(), "{settled:?}");
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "20");
}

/// What the column cannot take would be refused with all that is settled together with it, for ever.
#[tokio::test]
async fn more_attempts_than_the_column_takes_are_recorded_as_the_most_that_it_does() {
    let outbox = Outbox::fresh().await;
    outbox.enqueue(&messages(1)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    let reason = DeadReason::Attempts;
    let dead = Outcome::Dead { reason, attempts: u32::MAX, waiting_for: None, failures: Vec::new() };
    assert_eq!(relay.settle(&rows, dead).await.rows, ids(&rows));
    assert_eq!(outbox.sql("select attempts from postrider_outbox").await, i32::MAX.to_string());
}

/// A walk through the table would meet the row that is being written, and wait for it.
#[tokio::test]
async fn a_settle_waits_for_no_transaction_of_the_application() {
    for history in [History::Off, History::Kept] {
        let outbox = Outbox::on(shared().await.unwrap(), 8, |options| options.history(history)).await;
        for number in [1, 3, 700] {
            outbox.enqueue(&messages(number)).await;
            let mut open = outbox.connection().await;
            open.query_drop("begin").await.unwrap();
            insert(&mut open, "k0", "open").await;
            let mut relay = Relay::joined(&outbox.store).await;
            let rows = relay.read_all().await;
            let (some, rest) = rows.split_at(rows.len() / 2);
            let aside = Outcome::SetAside { waiting_for: None };
            let settling = async {
                assert_eq!(relay.settle(some, aside.clone()).await.rows, ids(some));
                assert_eq!(relay.settle(some, Outcome::Delivered).await.rows, ids(some));
                assert_eq!(relay.settle(rest, Outcome::Delivered).await.rows, ids(rest));
            };
            tokio::time::timeout(SOON, settling).await.expect("it waits for the application");
            relay.leases.leave(relay.me).await.unwrap();
            open.query_drop("rollback").await.unwrap();
        }
    }
}

/// Two wait for each other, and the settle is the one that the server gives up.
#[tokio::test]
async fn a_settle_that_met_a_deadlock_is_done_again() {
    let server = Mariadb::start().await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    outbox.sql("create table heavy (n int) engine = InnoDB").await;
    outbox.enqueue(&messages(2)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    let mut other = outbox.connection().await;
    other.query_drop("begin").await.unwrap();
    // What has changed most is not given up.
    let heavy: Vec<String> = (0..500).map(|n| format!("({n})")).collect();
    other.query_drop(format!("insert into heavy values {}", heavy.join(", "))).await.unwrap();
    let lock = |row: usize| format!("select id from postrider_outbox where id = {} for update", rows[row].id.0);
    other.query_drop(lock(1)).await.unwrap();
    let (me, held, batch) = (relay.me, relay.held.clone(), delivered(&rows));
    let settle = tokio::spawn(async move { relay.settler.settle(me, &held, &batch).await });
    until("the settle's wait", async || somebody_waits_for_a_lock(&outbox).await).await;
    other.query_drop(lock(0)).await.unwrap();
    let deadlocks = outbox.sql(server.family().deadlocks()).await;
    assert_eq!(deadlocks, "1", "the settle was given up once");
    other.query_drop("rollback").await.unwrap();
    let settled = settle.await.unwrap().unwrap();
    assert_eq!(settled.rows, ids(&rows));
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "0");
}

#[tokio::test]
async fn a_lock_that_is_waited_for_in_vain_is_unavailable_and_nothing_was_done() {
    let short = |options: postrider_stores::mysql::MysqlOptions| options.lock_wait(Duration::from_secs(1));
    let outbox = Outbox::on(shared().await.unwrap(), 8, short).await;
    outbox.enqueue(&messages(2)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    let mut other = outbox.connection().await;
    other.query_drop("begin").await.unwrap();
    let lock = format!("select id from postrider_outbox where id = {} for update", rows[1].id.0);
    other.query_drop(lock).await.unwrap();
    let held = relay.held.clone();
    let error = relay.settler.settle(relay.me, &held, &delivered(&rows)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let connection: u64 = other.query_first("select connection_id()").await.unwrap().unwrap();
    let (story, advice) = (error.story(), error.advice().unwrap_or_default().to_owned());
    assert!(story.contains(&format!("connection {connection} (user root")), "{story}");
    assert!(advice.contains(&format!("`kill {connection}`")), "{advice}");
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "2");
    other.query_drop("commit").await.unwrap();
    assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows, ids(&rows));
}

#[tokio::test]
async fn a_batch_of_which_a_row_is_gone_settles_the_others_and_says_which() {
    let outbox = Outbox::fresh().await;
    outbox.enqueue(&messages(1_200)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    outbox.sql(&format!("delete from postrider_outbox where id = {}", rows[777].id.0)).await;
    let settled = relay.settle(&rows, Outcome::Delivered).await;
    let mut expected = ids(&rows);
    expected.remove(777);
    assert_eq!(settled.rows, expected);
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "0");
}

#[tokio::test]
async fn an_acquire_beside_a_settle_takes_only_what_is_free() {
    let outbox = Outbox::fresh().await;
    let mut one = Relay::joined(&outbox.store).await;
    let free = one.held.split_off(5);
    one.leases.release(one.me, &free).await.unwrap();
    let mut open = outbox.connection().await;
    open.query_drop("set session transaction isolation level read committed").await.unwrap();
    open.query_drop("begin").await.unwrap();
    let some: Vec<String> = one.held.iter().map(|held| held.lane.0.to_string()).collect();
    let fence = format!(
        "select lane from postrider_lane force index (primary) where lane in ({}) lock in share mode",
        some.join(", ")
    );
    open.query_drop(fence).await.unwrap();
    let acquiring = Relay::joined(&outbox.store);
    let two = tokio::time::timeout(SOON, acquiring).await.expect("it waits for a lane that is not free");
    assert_eq!(two.held.len(), free.len());
    assert!(two.held.iter().all(|held| free.iter().any(|free| free.lane == held.lane && free.term < held.term)));
}
