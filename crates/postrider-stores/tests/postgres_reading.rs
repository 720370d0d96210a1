//! Reading PostgreSQL: every committed row comes once, whatever the order of the commits, and no other row comes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod postgres;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use postgres::{Outbox, ROOM, Relay, client, ids, insert, payload, payloads};
use postrider_core::{Closed, Content, Due, Key, Message, Outcome, Retrying, Room, RowId, RowState, Store};

#[tokio::test]
async fn a_transaction_that_commits_after_one_with_larger_ids_is_not_lost() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let (slow, fast) = (outbox.client().await, outbox.client().await);
    slow.batch_execute("begin").await.unwrap();
    insert(&slow, "a", "slow").await;
    insert(&fast, "b", "fast").await;
    assert_eq!(payloads(&relay.read_all().await), ["fast"]);
    slow.batch_execute("commit").await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["slow"]);
    assert!(relay.read_all().await.is_empty());
}

#[tokio::test]
async fn a_transaction_open_when_the_lane_was_new_is_read_when_it_commits() {
    let outbox = Outbox::fresh().await;
    let slow = outbox.client().await;
    slow.batch_execute("begin").await.unwrap();
    insert(&slow, "a", "slow").await;
    let mut relay = Relay::joined(&outbox.store).await;
    assert!(relay.read_all().await.is_empty());
    slow.batch_execute("commit").await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["slow"]);
}

#[tokio::test]
async fn a_rolled_back_transaction_and_a_rolled_back_savepoint_leave_nothing() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let writer = outbox.client().await;
    writer.batch_execute("begin").await.unwrap();
    insert(&writer, "a", "ghost").await;
    assert!(relay.read_all().await.is_empty());
    writer.batch_execute("rollback; begin").await.unwrap();
    insert(&writer, "a", "1").await;
    writer.batch_execute("savepoint s").await.unwrap();
    insert(&writer, "a", "ghost").await;
    writer.batch_execute("rollback to s; savepoint r").await.unwrap();
    insert(&writer, "a", "2").await;
    writer.batch_execute("release r; commit").await.unwrap();
    let rows = relay.read_all().await;
    assert_eq!(rows.iter().map(payload).collect::<Vec<_>>(), ["1", "2"]);
    assert!(relay.read_all().await.is_empty());
}

#[tokio::test]
async fn a_prepared_transaction_is_read_when_it_is_committed_and_never_when_it_is_not() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let writer = outbox.client().await;
    for (name, text) in [("kept", "kept"), ("dropped", "ghost")] {
        writer.batch_execute("begin").await.unwrap();
        insert(&writer, "a", text).await;
        writer.batch_execute(&format!("prepare transaction '{name}-{}'", outbox.database)).await.unwrap();
    }
    assert!(relay.read_all().await.is_empty());
    outbox.sql("insert into postrider_outbox (topic, payload) values ('t', 'between')").await;
    assert_eq!(payloads(&relay.read_all().await), ["between"]);
    writer.batch_execute(&format!("rollback prepared 'dropped-{}'", outbox.database)).await.unwrap();
    writer.batch_execute(&format!("commit prepared 'kept-{}'", outbox.database)).await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["kept"]);
}

#[tokio::test]
async fn a_long_transaction_in_another_database_holds_nothing_back() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let other = client(&outbox.server.fresh_database().await.unwrap()).await;
    other.batch_execute("create table t (n int)").await.unwrap();
    other.batch_execute("begin isolation level repeatable read").await.unwrap();
    other.batch_execute("insert into t values (1)").await.unwrap();
    for n in 0..20 {
        outbox.enqueue(&[Message::new("t", n.to_string())]).await;
        assert_eq!(payloads(&relay.read_all().await), [n.to_string()]);
    }
    other.batch_execute("commit").await.unwrap();
    assert!(relay.read_all().await.is_empty());
}

#[tokio::test]
async fn concurrent_writers_of_every_kind_lose_nothing_and_double_nothing() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let mut writers = Vec::new();
    for writer in 0..6 {
        let client = outbox.client().await;
        writers.push(tokio::spawn(async move {
            let mut committed = 0_u32;
            for n in 0..40 {
                client.batch_execute("begin").await.unwrap();
                let rows = 1 + (n * 7 + writer) % 5;
                for row in 0..rows {
                    insert(&client, &format!("k{}", (n + row) % 9), &format!("{writer}-{n}-{row}")).await;
                }
                if (n + writer) % 4 == 0 {
                    client.batch_execute("rollback").await.unwrap();
                } else {
                    client.batch_execute("commit").await.unwrap();
                    committed += rows;
                }
            }
            committed
        }));
    }
    let mut seen = Vec::new();
    while writers.iter().any(|writer| !writer.is_finished()) {
        let rows = relay.read().await.rows;
        relay.settle(&rows, Outcome::Delivered).await;
        seen.extend(payloads(&rows));
    }
    seen.extend(payloads(&relay.read_all().await));
    let mut committed = 0;
    for writer in writers {
        committed += writer.await.unwrap();
    }
    assert_eq!(seen.len(), committed as usize, "lost or doubled");
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "doubled");
}

#[tokio::test]
async fn a_large_transaction_is_read_page_by_page_in_order_while_other_lanes_go_on() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    assert!(relay.read_all().await.is_empty());
    outbox
        .sql("insert into postrider_outbox (topic, key, payload) select 't', 'k' || n % 100, 'x' from generate_series(1, 100000) n")
        .await;
    let started = Instant::now();
    let (mut last, mut read, mut slowest) = (RowId(0), 0, Duration::ZERO);
    loop {
        let page_started = Instant::now();
        let page = relay.read().await;
        slowest = slowest.max(page_started.elapsed());
        assert!(page.rows.len() <= ROOM.rows);
        for row in &page.rows {
            assert!(row.id > last, "order");
            last = row.id;
        }
        read += page.rows.len();
        if !page.more {
            break;
        }
    }
    assert_eq!(read, 100_000);
    println!("100,000 rows in {:?}, slowest page {slowest:?}", started.elapsed());
    outbox.enqueue(&[Message::new("t", "after")]).await;
    assert_eq!(payloads(&relay.read_all().await), ["after"]);
}

#[tokio::test]
async fn a_page_is_bounded_by_bytes_and_a_large_row_travels_alone() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    for new_lane in [true, false] {
        if !new_lane {
            assert!(relay.read_all().await.is_empty());
        }
        let sizes = [10, 3_000_000, 10, 10, 900_000, 900_000];
        let messages: Vec<Message> = sizes.iter().map(|size| Message::new("t", vec![b'x'; *size])).collect();
        outbox.enqueue(&messages).await;
        let mut pages = Vec::new();
        loop {
            let page = relay.source.read(&relay.held, Room { rows: 100, bytes: 1_000_000 }).await.unwrap();
            pages.push(page.rows.len());
            relay.settle(&page.rows, Outcome::Delivered).await;
            if !page.more {
                break;
            }
        }
        pages.retain(|rows| *rows > 0);
        assert_eq!(pages, [1, 1, 3, 1], "new lane: {new_lane}");
    }
}

#[tokio::test]
async fn heavy_rows_among_light_ones_come_once_and_in_order_in_bounded_pages() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    for new_lane in [true, false] {
        if !new_lane {
            assert!(relay.read_all().await.is_empty());
        }
        let size = |n: usize| if n % 100 == 60 || n % 100 == 61 { 5_000 } else { 20 };
        let messages: Vec<Message> = (0..300).map(|n| Message::new("t", vec![b'x'; size(n)]).key("k")).collect();
        outbox.enqueue(&messages).await;
        let (mut rows, mut pages) = (Vec::new(), 0);
        loop {
            let page = relay.source.read(&relay.held, Room { rows: 50, bytes: 20_000 }).await.unwrap();
            let bytes: usize = page.rows.iter().map(|row| payload(row).len()).sum();
            assert!(page.rows.len() <= 50 && bytes <= 20_000, "{} rows of {bytes} bytes", page.rows.len());
            relay.settle(&page.rows, Outcome::Delivered).await;
            pages += 1;
            rows.extend(page.rows);
            if !page.more {
                break;
            }
        }
        assert_eq!(rows.len(), 300, "new lane: {new_lane}");
        assert!(rows.is_sorted_by_key(|row| row.id), "new lane: {new_lane}");
        assert!(pages < 40, "{pages} pages");
    }
}

#[tokio::test]
async fn a_row_set_for_retry_does_not_come_back_as_new_and_comes_when_it_is_due() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox.enqueue(&[Message::new("t", "1").key("a"), Message::new("t", "2").key("a")]).await;
    let rows = relay.read_all().await;
    let retry = Outcome::Retry {
        after: Duration::from_millis(300),
        attempts: 1,
        waiting_for: None,
        progress: [].into(),
        failures: vec![],
    };
    let settled = relay.settle(&rows[..1], retry).await;
    assert_eq!(settled.rows, ids(&rows[..1]));
    assert!(relay.read_all().await.is_empty());
    let none = relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
    assert!(none.rows.is_empty(), "not due yet");
    let until = Instant::now() + Duration::from_secs(10);
    let due = loop {
        let page = relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
        if !page.rows.is_empty() || Instant::now() > until {
            break page;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(payloads(&due.rows), ["1"]);
    assert_eq!((due.rows[0].attempts, due.rows[0].retrying, due.rows[0].due), (1, Retrying::Yes, Due::Now));
    let inside = relay.source.due(&relay.held, ROOM, &ids(&due.rows)).await.unwrap();
    assert!(inside.rows.is_empty(), "what is in the window does not come");
    let mut taken_over = Relay { source: outbox.store.source().await.unwrap(), ..relay };
    let backlog = taken_over.read_all().await;
    assert_eq!(payloads(&backlog), ["2"], "the backlog leaves out what waits");
    assert_eq!(backlog[0].closed, Closed::ForAll, "behind its key's retrying head");
}

#[tokio::test]
async fn a_delayed_message_comes_when_it_is_due_and_holds_nothing_back() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, key, payload, deliver_at) values
             ('t', 'a', 'later', clock_timestamp() + interval '1 hour'), ('t', 'a', 'now', null),
             ('t', 'a', 'past', clock_timestamp() - interval '1 hour'), ('t', 'a', 'never', 'infinity')",
        )
        .await;
    let rows = relay.read_all().await;
    let ready: Vec<String> = rows
        .iter()
        .filter(|row| row.due == Due::Now)
        .inspect(|row| assert_eq!(row.closed, Closed::Open))
        .map(payload)
        .collect();
    assert_eq!(ready, ["now", "past"]);
    let due = relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
    assert_eq!(payloads(&due.rows), ["past"]);
    outbox.sql("update postrider_outbox set deliver_at = clock_timestamp() where payload = 'later'").await;
    let due = relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
    assert_eq!(payloads(&due.rows), ["later", "past"]);
}

#[tokio::test]
async fn waiting_rows_are_found_by_their_key_and_tell_which_destinations_they_wait_for() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    let messages: Vec<Message> = (0..3).map(|n| Message::new("t", n.to_string()).key("a")).collect();
    outbox.enqueue(&messages).await;
    outbox.enqueue(&[Message::new("t", "other").key("b")]).await;
    let rows = relay.read_all().await;
    let of_a: Vec<_> = rows.into_iter().filter(|row| row.key().unwrap().as_str() == "a").collect();
    let owed = vec![postrider_core::DestinationName::new("east")];
    relay.settle(&of_a[..2], Outcome::SetAside { waiting_for: Some(owed.clone()) }).await;
    let mut later = Relay { source: outbox.store.source().await.unwrap(), ..relay };
    let backlog = later.read_all().await;
    let behind = backlog.iter().find(|row| row.key().unwrap().as_str() == "a").unwrap();
    assert_eq!(behind.closed, Closed::For(owed));
    let (lane, key) = (behind.lane, Key::unchecked("a"));
    let held = *later.held.iter().find(|held| held.lane == lane).unwrap();
    let waiting = later.source.key(held, &key, ROOM).await.unwrap();
    assert_eq!(waiting.rows.iter().map(payload).collect::<Vec<_>>(), ["0", "1"]);
    assert!(waiting.rows.iter().all(|row| row.state == RowState::SetAside && row.closed == Closed::Open));
    assert_eq!(later.source.exceptional_keys(lane, None, 10).await.unwrap(), std::slice::from_ref(&key));
    assert!(later.source.exceptional_keys(lane, Some(&key), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_walk_of_the_waiting_keys_goes_by_pages_and_names_each_key_once() {
    let outbox = Outbox::with(|options| options).await;
    let mut relay = Relay::joined(&outbox.store).await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, key, payload, state)
             select 't', 'k' || n % 50, 'x', 2 from generate_series(1, 5000) n",
        )
        .await;
    let mut found = BTreeSet::new();
    for lane in relay.held.clone() {
        let mut after: Option<Key> = None;
        loop {
            let keys = relay.source.exceptional_keys(lane.lane, after.as_ref(), 3).await.unwrap();
            for key in &keys {
                assert!(found.insert(key.clone()), "{key} twice");
            }
            match keys.last() {
                Some(last) if keys.len() == 3 => after = Some(last.clone()),
                _ => break,
            }
        }
    }
    assert_eq!(found.len(), 50);
}

#[tokio::test]
async fn rows_with_nonsense_in_every_nullable_column_come_as_malformed_and_stop_nothing() {
    let outbox = Outbox::fresh().await;
    let mut relay = Relay::joined(&outbox.store).await;
    for assignment in [
        "key = E'a\\nb'",
        "key = ''",
        "content_type = 'nonsense'",
        "headers = '[1]'",
        "headers = '{\"a\": \"\\u0000\"}'",
        "attributes = '3'",
        "retry = '{\"max_attempts\": \"many\"}'",
        "waiting_for = array[array['a'], array['b']]",
        "waiting_for = array[null]",
        "progress = '[\"x\"]'",
        "topic = 'no topic'",
    ] {
        let column = assignment.split_once(" = ").unwrap();
        let columns = if column.0 == "topic" { "payload" } else { "topic, payload" };
        let values = if column.0 == "topic" { "'x'" } else { "'t', 'x'" };
        outbox
            .sql(&format!("insert into postrider_outbox ({columns}, {}) values ({values}, {})", column.0, column.1))
            .await;
        let rows = relay.read_all().await;
        assert_eq!(rows.len(), 1, "{assignment}");
        assert!(matches!(rows[0].content, Content::Malformed { .. }), "{assignment}: {:?}", rows[0].content);
    }
    for assignment in [
        "errors = '{\"a\": 1}'",
        "errors = '[\"\\u0000\"]'",
        "expires_at = '-infinity'",
        "deliver_at = '-infinity'",
        "last_attempt_at = 'infinity'",
        "dead_at = 'infinity'",
        "dead_reason = 99",
    ] {
        let (column, value) = assignment.split_once(" = ").unwrap();
        outbox
            .sql(&format!("insert into postrider_outbox (topic, payload, {column}) values ('t', 'x', {value})"))
            .await;
        let rows = relay.read_all().await;
        assert_eq!(payloads(&rows), ["x"], "{assignment}");
        let failures = vec![postrider_core::FailedAttempt {
            destination: postrider_core::DestinationName::new("d"),
            kind: postrider_core::ErrorKind::Rejected,
            text: "no\0".to_owned(),
            moment: 1,
        }];
        let dead =
            Outcome::Dead { reason: postrider_core::DeadReason::Attempts, attempts: 1, waiting_for: None, failures };
        assert_eq!(relay.settle(&rows, dead).await.rows, ids(&rows), "{assignment}");
    }
    let mut operator = outbox.operator().await;
    operator.status(100).await.unwrap();
    let dead =
        operator.dead(&Default::default(), postrider_core::Position { after: RowId(0), limit: 100 }).await.unwrap();
    assert_eq!(dead.len(), 7);
    assert_eq!(operator.replay(&Default::default(), 100).await.unwrap().len(), 7);
    assert_eq!(relay.source.due(&relay.held, ROOM, &[]).await.unwrap().rows.len(), 7);
}

#[tokio::test]
async fn no_read_scans_the_whole_table_even_without_statistics_and_with_open_transactions() {
    let outbox = Outbox::fresh().await;
    outbox.sql("alter table postrider_outbox set (autovacuum_enabled = off)").await;
    let dead = "insert into postrider_outbox (topic, key, payload, state) select 't', 'k' || n, 'x', 1 from generate_series(1, 20000) n";
    outbox.sql(dead).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let open = outbox.client().await;
    open.batch_execute("begin").await.unwrap();
    insert(&open, "a", "open").await;
    assert!(relay.read_all().await.is_empty());
    let scans = "select seq_scan from pg_stat_user_tables where relname = 'postrider_outbox'";
    let before = outbox.sql(scans).await;
    for n in 0..20 {
        outbox.enqueue(&[Message::new("t", n.to_string())]).await;
        assert_eq!(relay.read_all().await.len(), 1);
        relay.source.due(&relay.held, ROOM, &[]).await.unwrap();
    }
    open.batch_execute("commit").await.unwrap();
    assert_eq!(payloads(&relay.read_all().await), ["open"]);
    drop(relay);
    outbox.sessions_ended().await;
    assert_eq!(outbox.sql(scans).await, before);
}

/// The statements of the hot path are planned once per connection, whatever the table was like by then.
#[tokio::test]
async fn plans_made_while_the_table_was_empty_serve_when_it_is_full() {
    const ROWS: i64 = 60_000;
    let outbox = Outbox::fresh().await;
    outbox.sql("alter table postrider_outbox set (autovacuum_enabled = off)").await;
    let mut relay = Relay::joined(&outbox.store).await;
    for n in 0..3 {
        assert!(relay.read_all().await.is_empty());
        outbox.enqueue(&[Message::new("t", n.to_string())]).await;
        let rows = relay.read_all().await;
        assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows.len(), 1);
    }
    let backlog =
        format!("insert into postrider_outbox (topic, payload) select 't', 'x' from generate_series(1, {ROWS})");
    outbox.sql(&backlog).await;
    let rows = relay.read_all().await;
    assert_eq!(rows.len(), usize::try_from(ROWS).unwrap());
    for page in rows.chunks(1_000) {
        assert_eq!(relay.settle(page, Outcome::Delivered).await.rows.len(), page.len());
    }
    drop(relay);
    let fetched = fetched(&outbox).await;
    assert!((2 * ROWS..6 * ROWS).contains(&fetched), "{fetched} rows fetched for {ROWS}");
}

/// The planner may walk the primary key to have a few rows in order, past everything that is not wanted.
#[tokio::test]
async fn in_one_order_the_exceptional_rows_are_found_without_walking_the_backlog() {
    const ROWS: i64 = 60_000;
    let outbox = Outbox::of(1, |options| options).await;
    let held = Relay::joined(&outbox.store).await.held;
    let backlog =
        format!("insert into postrider_outbox (topic, payload) select 't', 'x' from generate_series(1, {ROWS})");
    outbox.sql(&backlog).await;
    outbox
        .sql(
            "insert into postrider_outbox (topic, payload, state) values ('t', 'aside', 2);
             insert into postrider_outbox (topic, payload, next_attempt_at) values ('t', 'due', clock_timestamp())",
        )
        .await;
    for analyzed in [false, true] {
        if analyzed {
            outbox.sql("vacuum analyze postrider_outbox").await;
        }
        let before: i64 = fetched(&outbox).await;
        let mut source = outbox.store.source().await.unwrap();
        let lane = held[0];
        for _ in 0..5 {
            let keys = source.exceptional_keys(lane.lane, None, 10).await.unwrap();
            assert_eq!(keys, [Key::everything()]);
            let waiting = source.key(lane, &Key::everything(), ROOM).await.unwrap().rows;
            assert_eq!(waiting.iter().map(payload).collect::<Vec<_>>(), ["aside", "due"]);
            let due = source.due(&held, ROOM, &[]).await.unwrap().rows;
            assert_eq!((payload(&due[0]), &due[0].closed), ("due".to_owned(), &Closed::ForAll));
        }
        let room = Room { rows: 100, bytes: 1 << 20 };
        assert_eq!(source.read(&held, room).await.unwrap().rows.len(), 100);
        drop(source);
        let fetched = fetched(&outbox).await - before;
        assert!(fetched < 2_000, "{fetched} rows fetched, analyzed: {analyzed}");
    }
}

/// What sessions that have ended read of the table; those that still work have not told all.
async fn fetched(outbox: &Outbox) -> i64 {
    let sql =
        "select coalesce(idx_tup_fetch, 0) + seq_tup_read from pg_stat_user_tables where relname = 'postrider_outbox'";
    outbox.sessions_ended().await;
    outbox.sql(sql).await.parse().unwrap()
}

#[tokio::test]
async fn in_large_pages_no_row_looks_for_its_keys_head_while_no_key_has_one() {
    let outbox = Outbox::fresh().await;
    let messages: Vec<Message> = (0..2_500).map(|n| Message::new("t", "x").key(format!("k{n}"))).collect();
    outbox.enqueue(&messages).await;
    let mut relay = Relay::joined(&outbox.store).await;
    for expected in [1_000, 1_000, 500] {
        assert_eq!(relay.read().await.rows.len(), expected);
    }
    let scans = outbox.probes(relay).await;
    assert!((1_000..1_100).contains(&scans), "{scans} scans: each row of the first page, and hardly more");
}

#[tokio::test]
async fn in_large_pages_a_row_behind_its_keys_retrying_head_says_so() {
    let outbox = Outbox::fresh().await;
    let key = |n: usize| if n.is_multiple_of(100) { "k".to_owned() } else { format!("k{n}") };
    let messages: Vec<Message> = (0..1_200).map(|n| Message::new("t", "x").key(key(n))).collect();
    outbox.enqueue(&messages).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let room = Room { rows: 400, ..ROOM };
    let first = relay.source.read(&relay.held, room).await.unwrap().rows;
    let retry = Outcome::Retry {
        after: Duration::from_secs(600),
        attempts: 1,
        waiting_for: None,
        progress: [].into(),
        failures: vec![],
    };
    assert_eq!(relay.settle(&first[..1], retry).await.rows, ids(&first[..1]));
    for _ in 0..2 {
        let page = relay.source.read(&relay.held, room).await.unwrap().rows;
        assert_eq!(page.len(), 400);
        for row in page {
            let behind = row.key().unwrap().as_str() == "k";
            assert_eq!(row.closed, if behind { Closed::ForAll } else { Closed::Open });
        }
    }
}
