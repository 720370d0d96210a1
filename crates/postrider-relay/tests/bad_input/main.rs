//! Bad input, and what it gets, clause by clause, as far as a database can do it to a relay that runs.
//!
//! Each gets a clear error or a dead letter, and nothing is lost. What a broker does is tested in `postrider-brokers`
//! (`http_bad_input`, `nats_bad_input`) and in `postrider-cli` (`outage`); what takes a process of its own (a replica,
//! `kill -9`, SIGSTOP, a file without write permission) in `postrider-cli` (`bad_input`, `cli`, `kill_nine`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod bench;
mod nonsense;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::{LEASE, Outbox, Running, delivered, drain, keyed, migrate, open, relay};
use nonsense::Fate::{Dead, Delivered, Expired};
use nonsense::{Case, left_out, relay_and_compare};
use postrider_brokers::memory::MemoryBroker;
use postrider_core::{ErrorKind, Level, Message};
use postrider_relay::RelayState;
use postrider_testkit::servers::postgres::{Postgres, shared};
use postrider_testkit::small_disk::SmallDisk;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_unreachable_database_is_waited_for() {
    let mut server = Postgres::start().await.unwrap();
    let url = server.fresh_database().await.unwrap();
    migrate(&url).await;
    let relay = Running::start(open(&url).await.unwrap(), MemoryBroker::recording()).await;
    server.stop();
    let cause = relay.until_store_away().await;
    assert!(cause.contains("PostgreSQL") && !cause.contains("for:tests"), "{cause}");
    assert_eq!(open(&url).await.unwrap_err().kind(), ErrorKind::Unavailable, "another start is told to wait");
    server.restart().await.unwrap();
    open(&url).await.unwrap().operator().await.unwrap().enqueue(&[keyed("k", "after")]).await.unwrap();
    relay.until_delivered(&["after"]).await;
    relay.stop_unharmed().await;
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown_and_waited_for() {
    let outbox = Outbox::postgres().await;
    let (server, database) = (shared().await.unwrap(), outbox.url.rsplit('/').next().unwrap());
    outbox.sql("create role mover superuser login password 'right-canary'").await.unwrap();
    let url = server.url_as("mover", "right-canary", database);
    let error = open(&server.url_as("mover", "wrong-canary", database)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "at the start it ends the relay");
    assert!(error.story().contains("password is wrong") && !error.story().contains("canary"), "{error}");

    let relay = Running::start(open(&url).await.unwrap(), MemoryBroker::recording()).await;
    let gone = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'mover'";
    outbox.sql(&format!("alter role mover password 'other-canary'; {gone}")).await.unwrap();
    relay
        .until("a cause that names the password", |relay| {
            let cause = relay.store_error.clone().unwrap_or_default();
            assert!(!cause.contains("canary"), "{cause}");
            cause.contains("password is wrong")
        })
        .await;
    outbox.enqueue(&[keyed("k", "after")]).await;
    outbox.sql("alter role mover password 'right-canary'").await.unwrap();
    relay.until_delivered(&["after"]).await;
    relay.stop_unharmed().await;
}

/// Its membership is renewed all the same: what says that the store is away is not taken back by that.
#[tokio::test]
async fn a_right_that_is_missing_on_the_lanes_ends_the_relay_at_its_start_and_is_waited_for_later() {
    let outbox = Outbox::postgres().await;
    let (server, database) = (shared().await.unwrap(), outbox.url.rsplit('/').next().unwrap());
    let role = format!("half_{database}");
    let (grant, revoke) =
        (format!("grant update on postrider_lane to {role}"), format!("revoke update on postrider_lane from {role}"));
    outbox.sql(&format!("create role {role} login password 'r'")).await.unwrap();
    outbox
        .sql(&format!("grant select, insert, update, delete on all tables in schema public to {role}"))
        .await
        .unwrap();
    outbox.sql(&revoke).await.unwrap();
    let url = server.url_as(&role, "r", database);
    let broker = Arc::new(MemoryBroker::recording());
    let ending = relay(open(&url).await.unwrap(), &broker).until_empty().build().unwrap();
    let error = tokio::time::timeout(LEASE * 30, ending.run(CancellationToken::new())).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.story_and_advice().contains("grant update on"), "{}", error.story_and_advice());

    outbox.sql(&grant).await.unwrap();
    let relay = Running::start(open(&url).await.unwrap(), MemoryBroker::recording()).await;
    outbox.sql(&revoke).await.unwrap();
    let cause = relay.until_store_away().await;
    assert!(cause.contains("grant update on"), "{cause}");
    let until = Instant::now() + LEASE * 3;
    while Instant::now() < until {
        assert_eq!(relay.until_store_away().await, cause);
        assert_eq!(relay.handle.snapshot().state, RelayState::StoreAway, "it said that the store answers");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    outbox.sql(&grant).await.unwrap();
    outbox.enqueue(&[keyed("k", "after")]).await;
    relay.until_delivered(&["after"]).await;
    relay.stop_unharmed().await;
}

async fn without_tables(outbox: Outbox, drop: &str) {
    let relay = Running::start(outbox.store().await.unwrap(), MemoryBroker::recording()).await;
    outbox.enqueue(&[keyed("k", "before")]).await;
    relay.until_delivered(&["before"]).await;
    relay.until("a settled message", |relay| relay.delivered == 1).await;
    outbox.sql(drop).await.unwrap();
    let error = outbox.store().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "at the start it ends the relay");
    assert!(error.story().contains("postrider migrate"), "{error}");
    let cause = relay.until_store_away().await;
    assert!(cause.contains("postrider migrate"), "{cause}");
    migrate(&outbox.url).await;
    outbox.enqueue(&[keyed("k", "after")]).await;
    relay.until_delivered(&["after"]).await;
    relay.stop_unharmed().await;
}

#[tokio::test]
async fn a_database_without_tables_on_sqlite() {
    let inbox = ["inbox", "inbox_foreign", "inbox_span", "inbox_cursor", "inbox_refused", "inbox_token", "idempotency"];
    let tables = ["outbox", "delivered", "relay", "lane", "meta"].into_iter().chain(inbox);
    let drop: String = tables.map(|table| format!("drop table postrider_{table};")).collect();
    without_tables(Outbox::sqlite().await, &drop).await;
}

#[tokio::test]
async fn a_database_without_tables_on_postgresql() {
    without_tables(Outbox::postgres().await, "drop schema public cascade; create schema public").await;
}

#[tokio::test]
async fn a_newer_schema_version_ends_the_relay_at_its_start_and_nothing_is_touched() {
    for (outbox, newer) in [
        (Outbox::sqlite().await, "update postrider_meta set value = 99 where name in ('version', 'compatible_from')"),
        (Outbox::postgres().await, "update postrider_meta set version = 99, compatible_from = 99"),
    ] {
        outbox.enqueue(&[keyed("k", "waits")]).await;
        outbox.sql(newer).await.unwrap();
        let error = outbox.store().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.story().contains("newer"), "{error}");
        assert_eq!(outbox.sql("select count(*) from postrider_outbox").await.unwrap(), "1");
    }
}

#[tokio::test]
async fn a_sequence_cache_above_1_ends_the_relay_at_its_start_with_the_statement_that_mends_it() {
    let outbox = Outbox::postgres().await;
    outbox.enqueue(&[keyed("k", "waits")]).await;
    outbox.sql("alter table postrider_outbox alter column id set cache 10").await.unwrap();
    let error = outbox.store().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.story().contains("set cache 1"), "{error}");
    outbox.sql("alter table postrider_outbox alter column id set cache 1").await.unwrap();
    let broker = Arc::new(MemoryBroker::recording());
    assert_eq!(drain(&outbox, &broker).await.delivered, 1);
}

#[tokio::test]
async fn synchronous_commit_off_as_server_database_or_role_default_is_warned_of_and_relayed() {
    let server = Postgres::start_with(&["synchronous_commit=off"]).await.unwrap();
    let database = server.create_database().await.unwrap();
    let url = server.url_for(&database);
    migrate(&url).await;
    let warned = async || {
        let mut operator = open(&url).await.unwrap().operator().await.unwrap();
        let findings = operator.check().await.unwrap();
        let of_commits =
            findings.into_iter().filter(|it| it.subject == "synchronous_commit" && it.level != Level::Good);
        of_commits.map(|it| format!("{} {}", it.found, it.advice)).collect::<Vec<_>>().join("\n")
    };
    let by_server = warned().await;
    assert!(!by_server.is_empty(), "the server's default is not warned of");
    server.psql(&database, "alter system set synchronous_commit = on").await.unwrap();
    for (statement, word) in [
        (format!("alter database {database} set synchronous_commit = off"), database.as_str()),
        ("create role careless login; alter role careless set synchronous_commit = off".to_owned(), "careless"),
    ] {
        server.psql(&database, &statement).await.unwrap();
        let found = warned().await;
        assert!(found.contains(word), "{word} is not in {found}");
    }
    let mut operator = open(&url).await.unwrap().operator().await.unwrap();
    operator.enqueue(&[keyed("k", "x")]).await.unwrap();
    let relay = Running::start(open(&url).await.unwrap(), MemoryBroker::recording()).await;
    relay.until_delivered(&["x"]).await;
    relay.stop_unharmed().await;
}

#[tokio::test]
async fn rows_over_the_windows_byte_limit_travel_alone() {
    for outbox in [Outbox::sqlite().await, Outbox::postgres().await] {
        let heavy: Vec<Message> = (0..8).map(|n| keyed(&format!("k{}", n % 2), &"x".repeat(50_000 + n))).collect();
        outbox.enqueue(&heavy).await;
        let broker = Arc::new(MemoryBroker::recording());
        let builder = relay(outbox.store().await.unwrap(), &broker).window(100, 1_024).until_empty();
        let relay = builder.build().unwrap();
        let summary =
            tokio::time::timeout(Duration::from_secs(30), relay.run(Default::default())).await.unwrap().unwrap();
        assert_eq!((summary.delivered, broker.accepted()), (8, 8));
        let sizes: Vec<usize> = broker.messages().iter().map(|sent| sent.message.payload.len() % 50_000).collect();
        for parity in 0..2 {
            let key: Vec<_> = sizes.iter().filter(|size| *size % 2 == parity).collect();
            assert!(key.is_sorted(), "{sizes:?}");
        }
    }
}

#[tokio::test]
async fn nul_cr_lf_and_invalid_utf8_in_keys_and_headers_written_by_hand_on_sqlite() {
    relay_and_compare(
        &Outbox::sqlite().await,
        &[
            ("key", "'a' || char(0)", Dead),
            ("key", "'a' || char(10)", Dead),
            ("key", "'a' || char(13)", Dead),
            ("key", "cast(x'61ff' as text)", Dead),
            ("key", "''", Dead),
            ("headers", r#"'{"a":"\u0000"}'"#, Dead),
            ("headers", r#"'{"a":"x\r\ny: z"}'"#, Dead),
            ("headers", r#"'{"a\nb":"x"}'"#, Dead),
            ("headers", "cast(x'7b2261223a22ff227d' as text)", Dead),
            ("headers", r#"'{"a":"fine"}'"#, Delivered),
        ],
    )
    .await;
}

#[tokio::test]
async fn nul_cr_lf_and_invalid_utf8_in_keys_and_headers_written_by_hand_on_postgresql() {
    let outbox = Outbox::postgres().await;
    for refused in ["E'a\\x00'", "E'a\\xff'"] {
        let insert = format!("insert into postrider_outbox (topic, key, payload) values ('t', {refused}, '')");
        assert!(outbox.sql(&insert).await.is_err(), "the database itself refuses {refused}");
    }
    relay_and_compare(
        &outbox,
        &[
            ("key", r"E'a\nb'", Dead),
            ("key", r"E'a\rb'", Dead),
            ("key", "''", Dead),
            ("headers", r#"'{"a":"\u0000"}'"#, Dead),
            ("headers", r#"'{"a":"x\r\ny: z"}'"#, Dead),
            ("headers", r#"'{"a\nb":"x"}'"#, Dead),
            ("headers", r#"'{"a":"\ud800"}'"#, Dead),
            ("headers", r#"'{"a":"fine"}'"#, Delivered),
        ],
    )
    .await;
}

/// What SQLite stores in these columns without a word.
const NONSENSE_ON_SQLITE: &[Case] = &[
    ("key", "x'00ff'", Dead),
    ("key", "17", Delivered),
    ("content_type", "x'00'", Dead),
    ("content_type", "'nonsense'", Dead),
    ("headers", "'not json'", Dead),
    ("headers", "'[1]'", Dead),
    ("headers", "x'7b7d'", Dead),
    ("attributes", "'{\"a\": {}}'", Dead),
    ("attributes", "'3'", Dead),
    ("deliver_at", "'tomorrow'", Dead),
    ("deliver_at", "1.5", Dead),
    ("deliver_at", "-9223372036854775808", Delivered),
    ("expires_at", "x'01'", Dead),
    ("expires_at", "-9223372036854775808", Expired),
    ("retry", "'{\"max\": 1}'", Dead),
    ("retry", "'[]'", Delivered),
    ("last_attempt_at", "'yesterday'", Delivered),
    ("next_attempt_at", "'never'", Dead),
    ("next_attempt_at", "x'ff'", Dead),
    ("next_attempt_at", "-1", Delivered),
    ("waiting_for", "'{'", Dead),
    ("waiting_for", "'[1]'", Dead),
    ("waiting_for", "'[]'", Dead),
    ("progress", "'[]'", Dead),
    ("progress", "'{\"out\": -1}'", Dead),
    ("progress", "'{\"nowhere\": 3}'", Delivered),
    ("errors", "x'ff'", Delivered),
    ("errors", "'{\"a\": 1}'", Delivered),
    ("dead_at", "'x'", Delivered),
    ("dead_reason", "'x'", Delivered),
    ("dead_reason", "99", Delivered),
    ("message_id", "'no uuid'", Dead),
    ("topic", "x'ff'", Dead),
    ("payload", "17", Dead),
    ("attempts", "'many'", Dead),
    ("created_at", "'now'", Dead),
];

#[tokio::test]
async fn a_row_written_by_hand_with_nonsense_in_every_nullable_column_on_sqlite() {
    let outbox = Outbox::sqlite().await;
    assert_eq!(left_out(&outbox, NONSENSE_ON_SQLITE).await, [""; 0]);
    relay_and_compare(&outbox, NONSENSE_ON_SQLITE).await;
}

/// What PostgreSQL's types let through.
const NONSENSE_ON_POSTGRESQL: &[Case] = &[
    ("key", r"E'a\tb'", Delivered),
    ("key", "repeat('k', 513)", Dead),
    ("content_type", "'nonsense'", Dead),
    ("content_type", "''", Dead),
    ("headers", "'[1]'", Dead),
    ("headers", "'\"text\"'", Dead),
    ("headers", "'null'", Dead),
    ("headers", "'{\"a\": {}}'", Dead),
    ("headers", "'{\"a\": \"1\", \"a\": \"2\"}'", Dead),
    ("attributes", "'3'", Dead),
    ("attributes", "'{\"noprefix\": \"x\"}'", Dead),
    ("deliver_at", "'-infinity'", Delivered),
    ("deliver_at", "'4713-01-01 BC'", Delivered),
    ("expires_at", "'-infinity'", Expired),
    ("expires_at", "'infinity'", Delivered),
    ("retry", "'{\"max_attempts\": \"many\"}'", Dead),
    ("retry", "'[]'", Delivered),
    ("last_attempt_at", "'infinity'", Delivered),
    ("next_attempt_at", "'-infinity'", Delivered),
    ("waiting_for", "array[array['a'], array['b']]", Dead),
    ("waiting_for", "array[null]", Dead),
    ("waiting_for", "'{}'", Dead),
    ("progress", "'[\"x\"]'", Dead),
    ("progress", "'{\"out\": -1}'", Dead),
    ("progress", "'{\"nowhere\": 3}'", Delivered),
    ("errors", "'{\"a\": 1}'", Delivered),
    ("errors", "'[\"\\u0000\"]'", Delivered),
    ("dead_at", "'infinity'", Delivered),
    ("dead_reason", "99", Delivered),
    ("topic", "'no topic'", Dead),
];

#[tokio::test]
async fn a_row_written_by_hand_with_nonsense_in_every_nullable_column_on_postgresql() {
    let outbox = Outbox::postgres().await;
    assert_eq!(left_out(&outbox, NONSENSE_ON_POSTGRESQL).await, [""; 0]);
    relay_and_compare(&outbox, NONSENSE_ON_POSTGRESQL).await;
}

async fn application_updates(outbox: Outbox, moved: &str) {
    let slow = MemoryBroker::recording().with_delay(Duration::from_millis(2));
    let relay = Running::start(outbox.store().await.unwrap(), slow).await;
    for round in 0..10 {
        let batch: Vec<_> = (0..50).map(|n| keyed(&format!("k{}", n % 10), &format!("{round}-{n}"))).collect();
        outbox.enqueue(&batch).await;
        let change = "update postrider_outbox set topic = 'changed' where id % 2 = 0";
        outbox.sql(&format!("{change}; {moved}")).await.unwrap();
    }
    let all: Vec<String> = (0..10).flat_map(|round| (0..50).map(move |n| format!("{round}-{n}"))).collect();
    relay.until_delivered(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let rest = Arc::clone(&relay.broker);
    relay.stop_unharmed().await;
    drain(&outbox, &rest).await;
    assert_eq!(outbox.status().await.pending.value(), 0);
    let topics: Vec<String> = rest.messages().iter().map(|sent| sent.message.topic.to_string()).collect();
    assert!(topics.iter().all(|topic| topic == "t" || topic == "changed"), "half of a change was delivered");
}

#[tokio::test]
async fn the_outbox_updated_by_the_application_on_sqlite() {
    application_updates(Outbox::sqlite().await, "update postrider_outbox set key = key || 'x' where id % 3 = 0").await;
}

#[tokio::test]
async fn the_outbox_updated_by_the_application_on_postgresql() {
    application_updates(Outbox::postgres().await, "update postrider_outbox set key = key || 'x' where id % 3 = 0")
        .await;
}

async fn truncated(outbox: Outbox, truncate: &str) {
    let slow = MemoryBroker::recording().with_delay(Duration::from_millis(1));
    let relay = Running::start(outbox.store().await.unwrap(), slow).await;
    for round in 0..3 {
        let batch: Vec<_> = (0..500).map(|n| keyed(&format!("k{}", n % 5), &format!("gone-{n}"))).collect();
        let before = relay.broker.accepted();
        outbox.enqueue(&batch).await;
        relay.until("some of them", |_| relay.broker.accepted() > before).await;
        outbox.sql(truncate).await.unwrap();
        let kept: Vec<_> = (0..5).map(|n| (format!("k{n}"), format!("kept-{round}-{n}"))).collect();
        outbox.enqueue(&kept.iter().map(|(key, payload)| keyed(key, payload)).collect::<Vec<_>>()).await;
        relay.until_delivered(&kept.iter().map(|(_, payload)| payload.as_str()).collect::<Vec<_>>()).await;
    }
    relay.stop_unharmed().await;
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await.unwrap(), "0");
}

#[tokio::test]
async fn the_outbox_truncated_by_the_application_on_sqlite() {
    truncated(Outbox::sqlite().await, "delete from postrider_outbox").await;
    let restart = "delete from postrider_outbox; update sqlite_sequence set seq = 0 where name = 'postrider_outbox'";
    truncated(Outbox::sqlite().await, &format!("begin immediate; {restart}; commit")).await;
}

#[tokio::test]
async fn the_outbox_truncated_by_the_application_on_postgresql() {
    truncated(Outbox::postgres().await, "truncate postrider_outbox").await;
    truncated(Outbox::postgres().await, "truncate postrider_outbox restart identity").await;
}

async fn locked(outbox: Outbox, lock: &str, then: &str) {
    let relay = Running::start(outbox.store().await.unwrap(), MemoryBroker::recording()).await;
    let batch: Vec<_> = (0..20).map(|n| keyed(&format!("k{}", n % 4), &format!("{n:02}"))).collect();
    outbox.enqueue(&batch[..10]).await;
    // One connection holds the lock for three leases, as a migration of the application's might.
    let start = Instant::now();
    outbox.sql(&format!("{lock}; {then}")).await.unwrap();
    assert!(start.elapsed() >= LEASE * 3, "the lock was not held");
    outbox.enqueue(&batch[10..]).await;
    let all: Vec<String> = (0..20).map(|n| format!("{n:02}")).collect();
    relay.until_delivered(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut firsts = Vec::new();
    for sent in relay.broker.messages() {
        let payload = String::from_utf8_lossy(&sent.message.payload).into_owned();
        if !firsts.contains(&payload) {
            firsts.push(payload);
        }
    }
    for key in 0..4 {
        let of_key: Vec<_> = firsts.iter().filter(|payload| payload.parse::<usize>().unwrap() % 4 == key).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
    relay.stop_unharmed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_locked_by_the_application_on_sqlite() {
    let outbox = Outbox::sqlite().await;
    let (file, relay) = (outbox.file(), Running::start(outbox.store().await.unwrap(), MemoryBroker::recording()).await);
    outbox.enqueue(&[keyed("k", "before")]).await;
    relay.until_delivered(&["before"]).await;
    // Longer than three leases, and than the busy timeout of the relay's connections.
    let application = tokio::task::spawn_blocking(move || {
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        let insert = "insert into postrider_outbox (topic, key, payload) values ('t', 'k', 'during')";
        connection.execute_batch(&format!("begin immediate; {insert}")).unwrap();
        std::thread::sleep(Duration::from_secs(6));
        connection.execute_batch("commit").unwrap();
    });
    let cause = relay.until_store_away().await;
    println!("while the file was locked: {cause}");
    application.await.unwrap();
    outbox.enqueue(&[keyed("k", "after")]).await;
    relay.until_delivered(&["during", "after"]).await;
    relay.until("a relay that relays again", |relay| relay.state == RelayState::Relaying).await;
    relay.stop_unharmed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_locked_by_the_application_on_postgresql() {
    let hold = "select pg_sleep(3.2); commit";
    locked(Outbox::postgres().await, "begin; lock table postrider_outbox in access exclusive mode", hold).await;
    locked(Outbox::postgres().await, "begin; lock table postrider_outbox, postrider_lane, postrider_relay", hold).await;
}

#[tokio::test]
async fn a_disk_full_under_sqlite_is_waited_for_and_nothing_is_lost() {
    let Some(disk) = SmallDisk::mount() else {
        println!("NOT RUN: a full disk under SQLite: only root may mount a small file system");
        return;
    };
    let url = format!("sqlite://{}", disk.path().join("app.db").display());
    migrate(&url).await;
    let store = open(&url).await.unwrap();
    let slow = MemoryBroker::recording().with_delay(Duration::from_millis(20)).without_order();
    let relay = Running::start(Arc::clone(&store), slow).await;
    let mut operator = store.operator().await.unwrap();
    let messages: Vec<_> = (0..200).map(|n| keyed(&format!("k{}", n % 2), &format!("{n:03}"))).collect();
    operator.enqueue(&messages).await.unwrap();
    relay.until("some of them", |_| relay.broker.accepted() > 0).await;
    let filler = disk.fill();
    let cause = relay.until_store_away().await;
    assert!(cause.contains("free some space"), "{cause}");
    let error = operator.enqueue(&[keyed("k", &"x".repeat(100_000))]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    std::fs::remove_file(filler).unwrap();
    let all: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    relay.until_delivered(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let broker = Arc::clone(&relay.broker);
    relay.stop_unharmed().await;
    assert_eq!(delivered(&broker).len(), 200);
    assert_eq!(operator.status(1_000).await.unwrap().pending.value(), 0);
}
