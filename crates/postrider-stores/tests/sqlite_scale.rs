//! What must stay cheap however much there is. The figures are printed; the limits are wide enough for a busy machine.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by a panic")]

mod sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postrider_core::{Key, Lane, Outcome, Room, Row, Settlement};
use postrider_stores::History;
use postrider_testkit::suites::store::StoreHarness;
use postrider_testkit::suites::store::bench::{Bench, keyed, settlement};
use rusqlite::Connection;
use sqlite::{Sqlite, start};

/// Rows written in bulk: `columns` and `values` beside topic, payload and a key of one in `keys`.
fn fill(connection: &Connection, rows: u32, keys: u32, columns: &str, values: &str) {
    let sql = format!(
        "insert into postrider_outbox (topic, payload, key{columns})
         with recursive n (i) as (select 0 union all select i + 1 from n where i + 1 < {rows})
         select 't', randomblob(200), 'key ' || (i % {keys}){values} from n"
    );
    connection.execute(&sql, []).unwrap();
}

async fn walk(outbox: &Sqlite) -> (usize, Duration) {
    let mut bench = Bench::new(outbox).await;
    let begun = Instant::now();
    let rows = bench.read_of(&bench.lanes.clone(), Room { rows: 1_000, bytes: 16 << 20 }).await;
    (rows.len(), begun.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_poll_costs_next_to_nothing_whatever_lies_in_the_table() {
    let outbox = start().await;
    fill(&outbox.application(), 100_000, 1_000, ", state, dead_at, dead_reason", ", 1, 0, 1");
    let mut bench = Bench::new(&outbox).await;
    assert!(bench.read().await.is_empty());
    let begun = Instant::now();
    for _ in 0..1_000 {
        assert!(bench.source.read(&bench.lanes, Room { rows: 1_000, bytes: 1 << 20 }).await.unwrap().rows.is_empty());
    }
    let each = begun.elapsed() / 1_000;
    println!("an empty poll: {each:?}");
    assert!(each < Duration::from_millis(2), "{each:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walking_past_dead_rows_takes_time_in_proportion_to_them() {
    let mut times = Vec::new();
    for rows in [20_000, 160_000] {
        let outbox = start().await;
        fill(&outbox.application(), rows, 1_000, ", state, dead_at, dead_reason", ", 1, 0, 1");
        outbox.write(&[keyed("alive")]).await;
        let (found, time) = walk(&outbox).await;
        assert_eq!(found, 1);
        println!("past {rows} dead rows: {time:?}");
        times.push(time);
    }
    assert!(times[1] < times[0] * 24 + Duration::from_millis(50), "eight times the rows: {times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_behind_many_set_aside_rows_takes_time_in_proportion_to_them() {
    let mut times = Vec::new();
    for rows in [2_000, 16_000] {
        let outbox = start().await;
        fill(&outbox.application(), rows, 2, ", state", ", 2");
        fill(&outbox.application(), rows, 2, "", "");
        let (found, time) = walk(&outbox).await;
        assert_eq!(found, rows as usize, "all closed, all read");
        println!("{rows} rows behind {rows} set aside: {time:?}");
        times.push(time);
    }
    assert!(times[1] < times[0] * 24 + Duration::from_millis(50), "eight times the rows: {times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_over_keys_does_not_depend_on_how_many_rows_a_key_has() {
    let outbox = start().await;
    fill(&outbox.application(), 100_000, 10, ", state", ", 2");
    let mut bench = Bench::new(&outbox).await;
    let begun = Instant::now();
    let mut keys = 0;
    for lane in 0..4 {
        keys += bench.source.exceptional_keys(Lane(lane), None, 100).await.unwrap().len();
    }
    let time = begun.elapsed();
    println!("four walks over 10 keys of 100,000 rows: {time:?}");
    assert_eq!(keys, 10);
    assert!(time < Duration::from_millis(100), "{time:?}");
}

/// By the primary key they would be found behind the whole backlog.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_one_order_the_exceptional_rows_are_found_without_walking_the_backlog() {
    let outbox = Sqlite::new(1, History::Off).await;
    fill(&outbox.application(), 300_000, 1_000, "", "");
    fill(&outbox.application(), 3, 3, ", state", ", 2");
    let mut bench = Bench::new(&outbox).await;
    let (mut each, application) = (Vec::new(), outbox.application());
    for _ in 0..20 {
        let begun = Instant::now();
        let page =
            bench.source.key(bench.lanes[0], &Key::everything(), Room { rows: 10, bytes: 1 << 20 }).await.unwrap();
        each.push(begun.elapsed());
        assert_eq!(page.rows.len(), 3);
    }
    let begun = Instant::now();
    let walked: i64 =
        application.query_row("select count(*) from postrider_outbox where state <> 1", [], |row| row.get(0)).unwrap();
    let walk = begun.elapsed();
    assert_eq!(walked, 300_003);
    each.sort();
    println!("three exceptional rows behind 300,000 ordinary ones: median {:?}; a walk over all: {walk:?}", each[10]);
    assert!(each[10] < walk / 4, "{each:?}, {walk:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_rows_of_other_lanes_do_not_hide_those_of_mine() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    // More than one read looks at, of a single key and so of a single lane.
    fill(&outbox.application(), 45_000, 1, ", deliver_at", ", 1000 + i");
    fill(&outbox.application(), 40, 40, ", deliver_at", ", 1000000");
    let crowded = postrider_core::lane_of("key 0", postrider_core::LaneCount::new(4).unwrap());
    bench.lanes.retain(|held| held.lane != crowded);
    let mut found = 0;
    for _ in 0..10 {
        let lanes = bench.lanes.clone();
        let page = bench.due_of(&lanes).await;
        found += page.rows.len();
        if !page.more {
            break;
        }
    }
    assert!(found > 10 && found < 40, "{found}");
}

/// P8: what an application that wants to write meets while a large batch is settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_relay_leaves_the_write_lock_free_in_between() {
    let outbox = Sqlite::new(4, History::Kept).await;
    let mut bench = Bench::new(&outbox).await;
    fill(&outbox.application(), 30_000, 1_000, "", "");
    let rows: Vec<Row> = bench.read_of(&bench.lanes.clone(), Room { rows: 10_000, bytes: 64 << 20 }).await;
    assert_eq!(rows.len(), 30_000);
    let batch: Vec<Settlement> = rows.iter().map(|row| settlement(row, Outcome::Delivered)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (stop, connection) = (Arc::clone(&stop), outbox.application());
        connection.busy_timeout(Duration::ZERO).unwrap();
        std::thread::spawn(move || {
            let (mut longest, mut got, mut busy_since) = (Duration::ZERO, 0, None);
            while !stop.load(Ordering::Relaxed) {
                if connection.execute_batch("begin immediate; rollback").is_ok() {
                    let since: Option<Instant> = busy_since.take();
                    longest = longest.max(since.map_or(Duration::ZERO, |since| since.elapsed()));
                    got += 1;
                } else {
                    busy_since.get_or_insert_with(Instant::now);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            (longest, got)
        })
    };
    let begun = Instant::now();
    assert_eq!(bench.settle(&batch).await.rows.len(), 30_000);
    let time = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let (longest, got) = watcher.join().unwrap();
    println!("30,000 settled in {time:?}; the lock was taken {got} times, away at most {longest:?}");
    assert!(got > 5, "it was free {got} times in {time:?}");
    assert!(longest < Duration::from_millis(150), "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_never_pauses_does_not_starve_the_lease() {
    let outbox = start().await;
    let (done, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (path, asked, written) = (outbox.path(), Arc::clone(&stop), Arc::clone(&done));
    let writer = std::thread::spawn(move || {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        while !asked.load(Ordering::Relaxed) {
            fill(&connection, 2_000, 5, "", "");
            written.store(true, Ordering::Relaxed);
        }
    });
    while !done.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    let mut leases = outbox.store().leases().await.unwrap();
    let me = postrider_core::RelayId(uuid::Uuid::from_u128(1));
    leases.join(me, "starving", Duration::from_secs(60)).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..50 {
        // Spread over many of the writer's transactions.
        tokio::time::sleep(Duration::from_millis(3)).await;
        let begun = Instant::now();
        leases.renew(me, Duration::from_secs(60)).await.unwrap();
        times.push(begun.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    times.sort();
    println!("renewals beside a writer that never pauses: median {:?}, longest {:?}", times[25], times[49]);
    assert!(times[49] < Duration::from_secs(1), "{times:?}");
}
