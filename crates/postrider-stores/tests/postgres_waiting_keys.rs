//! In large pages only rows of keys that may have exceptional rows look for what stands before them, and no row behind one
//! comes open.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use std::time::Duration;

use postgres::{Outbox, ROOM, Relay, ids, settlement};
use postrider_core::{Closed, DeadReason, HeldLane, Message, Outcome, Room, Row, Store};
use postrider_stores::postgres::PostgresStore;

/// Rows of a page, more than are taken for few.
const PAGE: usize = 400;
/// Every so many rows one is of the key that closes.
const EVERY: usize = 100;
/// What a walk of all lanes and a few looks at most take.
const LITTLE: i64 = 150;

fn retry() -> Outcome {
    Outcome::Retry {
        after: Duration::from_secs(600),
        attempts: 1,
        waiting_for: None,
        progress: [].into(),
        failures: vec![],
    }
}

fn holding() -> Outcome {
    Outcome::Holding { reason: DeadReason::Attempts, attempts: 1, waiting_for: None, failures: vec![] }
}

/// So many pages of rows: every hundredth is of the key `k`, each other one of a key of its own.
async fn outbox_of(pages: usize) -> Outbox {
    let outbox = Outbox::fresh().await;
    let key = |n: usize| if n.is_multiple_of(EVERY) { "k".to_owned() } else { format!("k{n}") };
    let messages: Vec<Message> = (0..pages * PAGE).map(|n| Message::new("t", "x").key(key(n))).collect();
    outbox.enqueue(&messages).await;
    outbox
}

async fn page_of(relay: &mut Relay, rows: usize) -> Vec<Row> {
    relay.source.read(&relay.held, Room { rows, ..ROOM }).await.unwrap().rows
}

async fn full_page(relay: &mut Relay) -> Vec<Row> {
    let page = page_of(relay, PAGE).await;
    assert_eq!(page.len(), PAGE);
    page
}

fn is_of_k(row: &Row) -> bool {
    row.key().unwrap().as_str() == "k"
}

/// Exactly the rows of `k` stand behind something.
fn assert_only_k_waits(page: &[Row]) {
    assert!(page.iter().any(is_of_k));
    for row in page {
        assert_eq!(row.closed, if is_of_k(row) { Closed::ForAll } else { Closed::Open }, "{:?}", row.key());
    }
}

/// A relay that has read two pages, during the second of which all lanes were walked: the first row of `k`.
async fn reading(outbox: &Outbox) -> (Relay, Row) {
    let mut relay = Relay::joined(&outbox.store).await;
    let first = full_page(&mut relay).await;
    assert!(full_page(&mut relay).await.iter().all(|row| row.closed == Closed::Open));
    let head = first.into_iter().find(is_of_k).unwrap();
    (relay, head)
}

/// The settle of this row hangs until the lock is let go, and nobody waits for its answer.
async fn settle_without_an_answer(
    outbox: &Outbox,
    relay: &mut Relay,
    row: &Row,
    outcome: Outcome,
) -> tokio_postgres::Client {
    let client = outbox.client().await;
    let lock = format!("begin; select from postrider_outbox where id = {} for update", row.id.0);
    client.batch_execute(&lock).await.unwrap();
    let batch = [settlement(row, outcome)];
    tokio::select! {
        _ = relay.settler.settle(relay.me, &relay.held, &batch) => panic!("the row is locked"),
        () = outbox.blocked() => {}
    }
    relay.settler = outbox.store.settler().await.unwrap();
    client
}

async fn until_exceptional(outbox: &Outbox, row: &Row) {
    let sql = format!("select state = 3 or next_attempt_at is not null from postrider_outbox where id = {}", row.id.0);
    while outbox.sql(&sql).await != "t" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_key_that_is_settled_to_wait_closes_in_the_next_page_and_no_other_row_looks() {
    for outcome in [retry(), Outcome::SetAside { waiting_for: None }, holding()] {
        let outbox = outbox_of(4).await;
        let (mut relay, head) = reading(&outbox).await;
        assert_eq!(relay.settle(std::slice::from_ref(&head), outcome).await.rows, [head.id]);
        for _ in 0..2 {
            assert_only_k_waits(&full_page(&mut relay).await);
        }
        let scans = outbox.probes(relay).await;
        let first = i64::try_from(PAGE).unwrap();
        assert!((first..first + LITTLE).contains(&scans), "{scans} scans: each row of the first page, and hardly more");
    }
}

#[tokio::test]
async fn every_reader_of_a_store_is_told() {
    let outbox = outbox_of(3).await;
    let (mut relay, head) = reading(&outbox).await;
    let mut other = outbox.store.source().await.unwrap();
    for _ in 0..2 {
        other.read(&relay.held, Room { rows: PAGE, ..ROOM }).await.unwrap();
    }
    relay.settler = outbox.store.clone().settler().await.unwrap();
    relay.settle(&[head], retry()).await;
    assert_only_k_waits(&full_page(&mut relay).await);
    assert_only_k_waits(&other.read(&relay.held, Room { rows: PAGE, ..ROOM }).await.unwrap().rows);
}

#[tokio::test]
async fn behind_a_row_whose_settle_was_never_answered_nothing_comes_open() {
    let outbox = outbox_of(4).await;
    let (mut relay, head) = reading(&outbox).await;
    let lock = settle_without_an_answer(&outbox, &mut relay, &head, retry()).await;
    lock.batch_execute("commit").await.unwrap();
    until_exceptional(&outbox, &head).await;
    assert_only_k_waits(&full_page(&mut relay).await);
}

/// It changes the row after the walk that began when its answer was given up, and the settle that is made instead finds
/// nothing to change.
#[tokio::test]
async fn a_settle_that_is_made_again_tells_the_keys_of_the_one_that_went_before_it() {
    let outbox = outbox_of(4).await;
    let (mut relay, head) = reading(&outbox).await;
    let lock = settle_without_an_answer(&outbox, &mut relay, &head, holding()).await;
    assert!(full_page(&mut relay).await.iter().all(|row| row.closed == Closed::Open));
    lock.batch_execute("commit").await.unwrap();
    until_exceptional(&outbox, &head).await;
    assert!(relay.settle(&[head], holding()).await.rows.is_empty());
    assert_only_k_waits(&full_page(&mut relay).await);
}

/// Of every tenth key five rows are to be tried again: the walk takes four steps.
#[tokio::test]
async fn behind_the_heads_that_an_earlier_relay_left_nothing_comes_open_while_they_are_walked_nor_after() {
    const KEYS: usize = 25_000;
    let outbox = Outbox::fresh().await;
    let heads = format!(
        "insert into postrider_outbox (topic, key, payload, next_attempt_at)
         select 't', 'k' || n, 'x', clock_timestamp() + interval '1 hour'
           from generate_series(0, {KEYS} - 1, 10) n, generate_series(1, 5)"
    );
    outbox.sql(&heads).await;
    let rows = format!(
        "insert into postrider_outbox (topic, key, payload)
         select 't', 'k' || (n * 7) % {KEYS}, 'x' from generate_series(0, {KEYS} - 1) n"
    );
    outbox.sql(&rows).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let (mut seen, mut closed) = (0, 0);
    while seen < KEYS {
        for row in page_of(&mut relay, 1_000).await {
            let number: usize = row.key().unwrap().as_str()[1..].parse().unwrap();
            let waits = number.is_multiple_of(10);
            assert_eq!(row.closed, if waits { Closed::ForAll } else { Closed::Open }, "row {seen} of key {number}");
            closed += usize::from(waits);
            seen += 1;
        }
    }
    assert_eq!(closed, KEYS / 10);
    let scans = outbox.probes(relay).await;
    // Of the rows of the first four pages all look, of the others those that wait, and those twice that do.
    assert!((8_500..10_000).contains(&scans), "{scans} scans");
}

/// They stand in the index behind the last key of their lane: one step passes the lanes without looking at them.
#[tokio::test]
async fn rows_without_a_key_that_are_to_be_tried_again_are_not_walked() {
    let outbox = outbox_of(3).await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, payload, next_attempt_at)
             select 't', 'x', clock_timestamp() + interval '1 hour' from generate_series(1, 20000)",
        )
        .await;
    let (mut relay, head) = reading(&outbox).await;
    relay.settle(&[head], retry()).await;
    assert_only_k_waits(&full_page(&mut relay).await);
    drop(relay);
    outbox.sessions_ended().await;
    let sql =
        "select idx_scan, idx_tup_read from pg_stat_user_indexes where indexrelname = 'postrider_outbox_exceptional'";
    let told = outbox.sql(sql).await;
    let (scans, read) = told.split_once('|').unwrap();
    let (scans, read): (i64, i64) = (scans.parse().unwrap(), read.parse().unwrap());
    assert!(scans < i64::try_from(PAGE).unwrap() + LITTLE, "{scans} scans");
    assert!(read < 1_000, "{read} entries read");
}

#[tokio::test]
async fn keys_that_healed_are_looked_at_no_more_after_another_walk() {
    const ROWS: i64 = 12_000;
    let outbox = Outbox::fresh().await;
    let insert = |state: i64, rows: i64| {
        format!(
            "insert into postrider_outbox (topic, key, payload, state)
             select 't', 'k' || n % 200, 'x', {state} from generate_series(1, {rows}) n"
        )
    };
    outbox.sql(&insert(2, 200)).await;
    outbox.sql(&insert(0, ROWS)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    for _ in 0..2 {
        assert!(page_of(&mut relay, 500).await.iter().all(|row| row.closed == Closed::ForAll));
    }
    outbox.sql("delete from postrider_outbox where state = 2").await;
    for _ in 2..24 {
        let page = page_of(&mut relay, 500).await;
        assert!(page.len() == 500 && page.iter().all(|row| row.closed == Closed::Open));
    }
    let scans = outbox.probes(relay).await;
    // 1,000 rows look twice, and the next 4,500 once.
    assert!((6_000..7_500).contains(&scans), "{scans} scans");
}

#[tokio::test]
async fn what_another_relay_did_while_it_had_a_lane_is_walked_when_the_lane_comes_back() {
    let outbox = outbox_of(6).await;
    let (mut relay, head) = reading(&outbox).await;
    let (lent, kept): (Vec<HeldLane>, Vec<HeldLane>) = relay.held.iter().partition(|held| held.lane == head.lane);
    relay.held = kept;
    assert_eq!(relay.leases.release(relay.me, &lent).await.unwrap(), [head.lane]);
    let mut other = Relay::joined(&PostgresStore::open(outbox.options()).await.unwrap()).await;
    assert_eq!(other.held.len(), 1);
    let mut rows = other.read_all().await;
    rows.retain(is_of_k);
    assert_eq!(other.settle(&rows[..1], retry()).await.rows, ids(&rows[..1]));
    other.leases.release(other.me, &other.held).await.unwrap();
    relay.held.extend(relay.leases.acquire(relay.me, 1).await.unwrap());
    relay.held.sort_by_key(|held| held.lane);
    let mut of_k = 0;
    for row in relay.read_all().await {
        assert_eq!(row.closed, if is_of_k(&row) { Closed::ForAll } else { Closed::Open });
        of_k += usize::from(is_of_k(&row));
    }
    assert_eq!(of_k, 6 * PAGE / EVERY - 1);
}

#[tokio::test]
async fn a_replayed_row_closes_its_key_from_when_it_comes_as_due() {
    let outbox = outbox_of(4).await;
    let (mut relay, head) = reading(&outbox).await;
    let dead = "update postrider_outbox set state = 1, dead_reason = 1, dead_at = clock_timestamp() where id =";
    outbox.sql(&format!("{dead} {}", head.id.0)).await;
    assert!(full_page(&mut relay).await.iter().all(|row| row.closed == Closed::Open));
    assert_eq!(outbox.operator().await.replay(&Default::default(), 1).await.unwrap().len(), 1);
    assert_eq!(ids(&relay.source.due(&relay.held, ROOM, &[]).await.unwrap().rows), [head.id]);
    assert_only_k_waits(&full_page(&mut relay).await);
}
