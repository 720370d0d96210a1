//! Reading while transactions commit late, out of order or never, on MariaDB or MySQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod mysql;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql::{Outbox, ROOM, Relay, ids, insert, payload, payloads};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use postrider_core::{Closed, Key, Message, Outcome, Pruned, Retention, Room, Row};
use postrider_stores::History;
use postrider_testkit::servers::mariadb::Mariadb;
use postrider_testkit::suites::store::bench::dead;

/// A number of the server's own counting.
async fn counted(outbox: &Outbox<'_>, name: &str) -> i64 {
    let line = outbox.sql(&format!("show global status like '{name}'")).await;
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Rows and entries of indexes that were read on the way to others.
async fn rows_read(outbox: &Outbox<'_>) -> i64 {
    counted(outbox, "Handler_read_next").await + counted(outbox, "Handler_read_rnd_next").await
}

#[tokio::test]
async fn a_row_that_commits_late_is_found_at_once_and_before_what_follows_it() {
    let outbox = Outbox::fresh().await;
    let (mut late, mut quick) = (outbox.connection().await, outbox.connection().await);
    let mut relay = Relay::joined(&outbox.store).await;
    late.query_drop("begin").await.unwrap();
    insert(&mut late, "k", "early").await;
    insert(&mut quick, "other", "quick").await;
    assert_eq!(payloads(&relay.read_all().await), ["quick"], "nobody waits for an open transaction");
    assert!(relay.read_all().await.is_empty());
    late.query_drop("commit").await.unwrap();
    insert(&mut quick, "k", "later").await;
    assert_eq!(payloads(&relay.read_all().await), ["early", "later"]);
    assert!(relay.read_all().await.is_empty());
}

#[tokio::test]
async fn a_backlog_is_read_while_a_transaction_from_before_it_is_open() {
    let outbox = Outbox::fresh().await;
    let (mut late, mut quick) = (outbox.connection().await, outbox.connection().await);
    // Far below the numbers that are drawn last, among holes.
    outbox.sql("insert into postrider_outbox (id, topic, payload, state) values (10, 't', 'dead', 1)").await;
    late.query_drop("begin").await.unwrap();
    insert(&mut late, "k", "early").await;
    outbox.sql("insert into postrider_outbox (id, topic, payload, state) values (5000000, 't', 'dead', 1)").await;
    for n in 0..50 {
        insert(&mut quick, &format!("k{n}"), "backlog").await;
    }
    let mut relay = Relay::joined(&outbox.store).await;
    let room = Room { rows: 7, ..ROOM };
    let mut seen = Vec::new();
    loop {
        let page = relay.source.read(&relay.held, room).await.unwrap();
        seen.extend(page.rows);
        if seen.len() == 21 {
            late.query_drop("commit").await.unwrap();
            insert(&mut quick, "k", "later").await;
        }
        if !page.more {
            break;
        }
    }
    // What was committed meanwhile may be left to the next reading.
    seen.extend(relay.read_all().await);
    let of_key: Vec<String> =
        seen.iter().filter(|row| row.key().is_some_and(|key| key.as_str() == "k")).map(payload).collect();
    assert_eq!((seen.len(), of_key), (52, vec!["early".to_owned(), "later".to_owned()]));
}

/// A statement of many rows draws all of its numbers first.
#[tokio::test]
async fn what_one_long_statement_writes_behind_the_end_of_the_reading_is_found_when_it_commits() {
    const ROWS: usize = 30_000;
    let outbox = Outbox::fresh().await;
    let trigger = "create trigger slow after insert on postrider_outbox for each row do sleep(0.0001)";
    outbox.sql(trigger).await;
    let (mut long, mut quick) = (outbox.connection().await, outbox.connection().await);
    let rows: Vec<String> = (0..ROWS).map(|n| format!("('t', 'k{n}', 'x')")).collect();
    let insert_all = format!("insert into postrider_outbox (topic, `key`, payload) values {}", rows.join(", "));
    long.query_drop("begin").await.unwrap();
    let writing = tokio::spawn(async move {
        long.query_drop(insert_all).await.unwrap();
        long
    });
    let mut looks = outbox.connection().await;
    looks.query_drop("set session transaction isolation level read uncommitted").await.unwrap();
    mysql::until("the first rows", async || {
        let count: Option<usize> = looks.query_first("select count(*) from postrider_outbox").await.unwrap();
        count.is_some_and(|count| count > 500)
    })
    .await;
    insert(&mut quick, "other", "quick").await;
    let mut relay = Relay::joined(&outbox.store).await;
    assert_eq!(payloads(&relay.read_all().await), ["quick"]);
    assert!(!writing.is_finished(), "it was read while the statement was under way");
    let mut long = writing.await.unwrap();
    long.query_drop("commit").await.unwrap();
    insert(&mut quick, "k5000", "later").await;
    let found = relay.read_all().await;
    assert_eq!(found.len(), ROWS + 1);
    let of_key = found.iter().filter(|row| row.key().is_some_and(|key| key.as_str() == "k5000"));
    assert_eq!(of_key.map(payload).collect::<Vec<_>>(), ["x", "later"]);
}

#[tokio::test]
async fn what_is_rolled_back_is_never_read_and_stops_nothing() {
    let outbox = Outbox::fresh().await;
    let (mut undone, mut kept) = (outbox.connection().await, outbox.connection().await);
    let mut relay = Relay::joined(&outbox.store).await;
    for round in 0..20 {
        undone.query_drop("begin").await.unwrap();
        insert(&mut undone, "k", "ghost").await;
        insert(&mut kept, "k", &round.to_string()).await;
        if round % 2 == 0 {
            assert_eq!(payloads(&relay.read_all().await), [round.to_string()]);
            undone.query_drop("rollback").await.unwrap();
        } else {
            undone.query_drop("rollback").await.unwrap();
            assert_eq!(payloads(&relay.read_all().await), [round.to_string()]);
        }
    }
    assert!(relay.read_all().await.is_empty());
}

#[tokio::test]
async fn a_large_transaction_that_commits_late_is_read_whole_in_pages_and_in_order() {
    let outbox = Outbox::fresh().await;
    let (mut late, mut quick) = (outbox.connection().await, outbox.connection().await);
    let mut relay = Relay::joined(&outbox.store).await;
    late.query_drop("begin").await.unwrap();
    for some in 0..30 {
        let rows: Vec<String> = (0..100).map(|n| format!("('t', 'k{n}', '{some}')")).collect();
        let sql = format!("insert into postrider_outbox (topic, `key`, payload) values {}", rows.join(", "));
        late.query_drop(sql).await.unwrap();
    }
    insert(&mut quick, "k7", "quick").await;
    assert_eq!(payloads(&relay.read_all().await), ["quick"]);
    late.query_drop("commit").await.unwrap();
    insert(&mut quick, "k7", "after").await;
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let page = relay.source.read(&relay.held, Room { rows: 450, ..ROOM }).await.unwrap();
        rows.extend(page.rows);
        if !page.more {
            break;
        }
    }
    assert_eq!(rows.len(), 3_001);
    assert!(ids(&rows).is_sorted(), "what was committed before a row began comes before it");
    assert_eq!(rows.last().map(payload).unwrap(), "after");
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_its_messages_with_it() {
    let outbox = Outbox::fresh().await;
    let mut connection = outbox.connection().await;
    let mut relay = Relay::joined(&outbox.store).await;
    connection.query_drop("begin").await.unwrap();
    insert(&mut connection, "k", "one").await;
    connection.query_drop("savepoint s").await.unwrap();
    insert(&mut connection, "k", "ghost").await;
    connection.query_drop("rollback to savepoint s").await.unwrap();
    insert(&mut connection, "k", "two").await;
    connection.query_drop("commit").await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["one", "two"]);
    assert!(relay.read_all().await.is_empty());
}

/// The keys are told apart by their bytes, where the database's own comparison ignores trailing spaces and case.
#[tokio::test]
async fn keys_that_a_collation_takes_for_equal_are_different_keys() {
    let outbox = Outbox::fresh().await;
    let keys = ["k", "k ", "K", "ḱ", "k  "];
    outbox.enqueue(&keys.map(|key| Message::new("t", key).key(key))).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    let aside = Outcome::SetAside { waiting_for: None };
    relay.settle(&rows[..1], aside).await;
    outbox.enqueue(&keys.map(|key| Message::new("t", key).key(key))).await;
    for row in relay.read_all().await {
        let expected = if row.key() == rows[0].key() { Closed::ForAll } else { Closed::Open };
        assert_eq!(row.closed, expected, "{:?}", row.key());
    }
    let mut met = BTreeSet::new();
    for held in relay.held.clone() {
        met.extend(relay.source.exceptional_keys(held.lane, None, 10).await.unwrap());
    }
    assert_eq!(met, BTreeSet::from([Key::unchecked("k")]));
}

/// What one writer committed: keys with the number of each message within its key.
type Written = Vec<(String, u32)>;

/// Transactions of one to four messages: some long, some rolled back, each under the locks of its keys.
async fn writer(mut connection: Conn, me: u64, rounds: u64) -> Written {
    let mut written = Written::new();
    let mut random = me.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..rounds {
        let mut keys: Vec<u64> = (0..=draw(3)).map(|_| draw(40)).collect();
        keys.sort_unstable();
        keys.dedup();
        connection.query_drop("begin").await.unwrap();
        let mut mine = Written::new();
        for key in keys {
            connection.exec_drop("update counters set n = n + 1 where k = ?", (key,)).await.unwrap();
            let n: Option<u32> = connection.exec_first("select n from counters where k = ?", (key,)).await.unwrap();
            insert(&mut connection, &format!("k{key}"), &n.unwrap().to_string()).await;
            mine.push((format!("k{key}"), n.unwrap()));
        }
        if draw(4) == 0 {
            tokio::time::sleep(Duration::from_millis(draw(20))).await;
        }
        if draw(5) == 0 {
            connection.query_drop("rollback").await.unwrap();
        } else {
            connection.query_drop("commit").await.unwrap();
            written.append(&mut mine);
        }
    }
    written
}

/// The heart of it: many writers, two relays that share the lanes, everything read once and each key in its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_or_doubled_while_many_writers_commit_out_of_order() {
    let rounds = if std::env::var_os("POSTRIDER_FULL").is_some() { 5_000 } else { 250 };
    let outbox = Outbox::fresh().await;
    outbox
        .sql(
            "create table counters (k int primary key, n int not null) engine = InnoDB;
             insert into counters with recursive c (k) as (select 0 union all select k + 1 from c where k < 39) select k, 0 from c",
        )
        .await;
    let mut writers = tokio::task::JoinSet::new();
    for me in 1..=8 {
        let connection = outbox.connection().await;
        writers.spawn(writer(connection, me, rounds));
    }
    let mut one = Relay::joined(&outbox.store).await;
    let half = one.held.split_off(4);
    one.leases.release(one.me, &half).await.unwrap();
    let two = Relay::joined(&outbox.store).await;
    assert_eq!((one.held.len(), two.held.len()), (4, 4));
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut relays = tokio::task::JoinSet::new();
    for mut relay in [one, two] {
        let over = Arc::clone(&over);
        relays.spawn(async move {
            let (mut read, mut unsettled) = (Vec::<(String, u32)>::new(), Vec::<Row>::new());
            loop {
                let was_over = over.load(std::sync::atomic::Ordering::SeqCst);
                let rows = relay.read_all().await;
                let found = rows.len();
                read.extend(rows.iter().map(|row| (row.key().unwrap().to_string(), payload(row).parse().unwrap())));
                unsettled.extend(rows);
                // Some stay in the table for a while, as in a relay's window.
                if unsettled.len() > 60 || was_over {
                    let rows: Vec<Row> = std::mem::take(&mut unsettled);
                    if !rows.is_empty() {
                        assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows.len(), rows.len());
                    }
                }
                if was_over && found == 0 {
                    return read;
                }
            }
        });
    }
    let mut committed: Vec<(String, u32)> = Vec::new();
    while let Some(written) = writers.join_next().await {
        committed.extend(written.unwrap());
    }
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut read = Vec::new();
    while let Some(one) = relays.join_next().await {
        read.extend(one.unwrap());
    }
    let (wanted, found): (BTreeSet<_>, BTreeSet<_>) =
        (committed.iter().cloned().collect(), read.iter().cloned().collect());
    assert_eq!(wanted.difference(&found).count(), 0, "missed");
    assert_eq!((found.difference(&wanted).count(), read.len()), (0, committed.len()), "ghosts or doubled");
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    for (key, n) in read {
        let before = last.insert(key.clone(), n);
        assert!(before < Some(n), "{key}: {n} after {before:?}");
    }
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "0");
}

/// Counted by the server itself: no statement waits for a lock on a row, of whoever's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_applications_inserts_never_wait_while_the_relay_reads_and_settles() {
    let server = Mariadb::start().await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let before = counted(&outbox, "Innodb_row_lock_waits").await;
    let mut writers = tokio::task::JoinSet::new();
    for me in 0..6 {
        let mut connection = outbox.connection().await;
        writers.spawn(async move {
            let mut longest = Duration::ZERO;
            for n in 0..150 {
                connection.query_drop("begin").await.unwrap();
                for _ in 0..3 {
                    let began = Instant::now();
                    insert(&mut connection, &format!("k{}", (me + n) % 20), "x").await;
                    longest = longest.max(began.elapsed());
                }
                connection.query_drop("commit").await.unwrap();
            }
            longest
        });
    }
    let (mut settled, mut turn) = (0, 0);
    while settled < 6 * 150 * 3 {
        let rows = relay.read_all().await;
        relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
        turn += 1;
        // Every way of settling: removed at once, and looked at first.
        if turn % 3 == 0 && !rows.is_empty() {
            let aside = Outcome::SetAside { waiting_for: None };
            assert_eq!(relay.settle(&rows, aside).await.rows.len(), rows.len());
        }
        assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows.len(), rows.len());
        settled += rows.len();
    }
    while let Some(longest) = writers.join_next().await {
        longest.unwrap();
    }
    assert_eq!(counted(&outbox, "Innodb_row_lock_waits").await - before, 0, "somebody waited");
    assert_eq!(outbox.sql(server.family().deadlocks()).await, "0");
}

/// A list of numbers makes every statement another one: prepared, each would take a place in the server's cache.
#[tokio::test]
async fn lists_of_what_is_archived_are_no_statements_to_be_prepared() {
    let server = Mariadb::start().await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options.history(History::Kept)).await;
    let (mut relay, mut operator) = (Relay::joined(&outbox.store).await, outbox.operator().await);
    let at_once = Retention { delivered: Some(Duration::ZERO), dead: Some(Duration::ZERO) };
    let mut prepared = Vec::new();
    for count in 1..=4 {
        let messages = (0..2 * count).map(|n| Message::new("t", n.to_string()).key(format!("k{n}")));
        outbox.enqueue(&messages.collect::<Vec<_>>()).await;
        let rows = relay.read_all().await;
        let (good, bad) = rows.split_at(count);
        relay.settle(good, Outcome::Delivered).await;
        relay.settle(bad, dead()).await;
        let before = counted(&outbox, "Com_stmt_prepare").await;
        let past = operator.past(&at_once, ROOM).await.unwrap();
        let each = count as u64;
        assert_eq!(operator.remove_past(&at_once, &past).await.unwrap(), Pruned { delivered: each, dead: each });
        prepared.push(counted(&outbox, "Com_stmt_prepare").await - before);
    }
    assert!(prepared[0] > 0, "the server counts them: {prepared:?}");
    assert_eq!(prepared[1..], [0, 0, 0], "each is prepared once");
}

#[tokio::test]
async fn no_read_walks_the_whole_table_whatever_the_planner_knows_of_it() {
    let server = Mariadb::start().await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    let dead = "insert into postrider_outbox (topic, `key`, payload, state)
        with recursive c (n) as (select 1 union all select n + 1 from c where n < 20000) select 't', concat('k', n), 'x', 1 from c";
    outbox.sql(&format!("set session {} = 100000; {dead}", server.family().recursion())).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let mut open = outbox.connection().await;
    open.query_drop("begin").await.unwrap();
    insert(&mut open, "a", "open").await;
    assert!(relay.read_all().await.is_empty());
    for analyzed in [false, true] {
        if analyzed {
            outbox.sql("analyze table postrider_outbox").await;
        }
        let before = rows_read(&outbox).await;
        for n in 0..20 {
            outbox.enqueue(&[Message::new("t", n.to_string()).key(format!("k{n}"))]).await;
            let rows = relay.read_all().await;
            assert_eq!(rows.len(), 1);
            relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
            relay.source.key(relay.held[0], &Key::unchecked("k"), ROOM).await.unwrap();
            relay.source.exceptional_keys(relay.held[0].lane, None, 10).await.unwrap();
            let aside = Outcome::SetAside { waiting_for: None };
            assert_eq!(relay.settle(&rows, aside).await.rows, ids(&rows));
            assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows, ids(&rows));
        }
        let read = rows_read(&outbox).await - before;
        assert!(read < 4_000, "{read} rows read, analyzed: {analyzed}");
    }
    open.query_drop("commit").await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["open"]);
}
