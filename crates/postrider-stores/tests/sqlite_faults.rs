//! What can be wrong with an SQLite file, and what a relay gets for it: a clear error, and nothing lost.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by a panic")]

mod sqlite;

use std::time::{Duration, Instant};

use postrider_core::{
    Content, ErrorKind, Finding, LaneCount, Level, Measured, Message, Outcome, Room, Standing, Store, Subject,
    Timestamp,
};
use postrider_stores::sqlite::{Prefix, SqliteOptions, SqliteStore, ddl, migrate};
use postrider_stores::{History, MigrateOptions, StoreOptions};
use postrider_testkit::small_disk::SmallDisk;
use postrider_testkit::suites::store::StoreHarness;
use postrider_testkit::suites::store::bench::{Bench, ROOM, id, keyed, message, settlement};
use rusqlite::Connection;
use sqlite::{Sqlite, insert, start};

async fn refusal(options: SqliteOptions) -> String {
    let error = SqliteStore::open(options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_missing_file_is_named_with_the_command_that_creates_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    let text = refusal(SqliteOptions::new(&path)).await;
    assert!(text.contains(&format!("postrider migrate --store sqlite://{}", path.display())), "{text}");
    assert!(!path.exists(), "opening creates nothing");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    std::fs::write(&path, "this is a letter to my aunt, and it is long enough to be looked at".repeat(40)).unwrap();
    let text = refusal(SqliteOptions::new(&path)).await;
    assert!(text.contains("not an SQLite database"), "{text}");
}

#[tokio::test]
async fn a_database_without_tables_is_told_to_migrate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    Connection::open(&path).unwrap().execute_batch("create table mine (a)").unwrap();
    let text = refusal(SqliteOptions::new(&path)).await;
    assert!(text.contains("postrider migrate --store"), "{text}");
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused_by_opening_and_by_migrating() {
    let outbox = start().await;
    let options = SqliteOptions::new(outbox.path());
    for (newer, needed) in [
        ("update postrider_meta set value = case name when 'version' then 99 else 98 end where name <> 'lanes'", "98"),
        ("delete from postrider_meta where name = 'compatible_from'", "99"),
    ] {
        outbox.application().execute(newer, []).unwrap();
        let text = refusal(options.clone()).await;
        assert!(text.contains("version 99") && text.contains(needed) && text.contains("newer postrider"), "{text}");
        let error = migrate(&options, None).await.unwrap_err();
        assert!(error.to_string().contains("newer") && error.to_string().contains(needed), "{error}");
    }
}

/// A migration that an older relay need not know of: both work side by side.
#[tokio::test]
async fn tables_of_a_newer_version_that_say_so_are_worked_on_and_stay_as_they_are() {
    let outbox = start().await;
    outbox.application().execute("update postrider_meta set value = 99 where name = 'version'", []).unwrap();
    let options = SqliteOptions::new(outbox.path());
    migrate(&options, None).await.unwrap();
    let store = SqliteStore::open(options).await.unwrap();
    let findings = store.operator().await.unwrap().check().await.unwrap();
    assert!(findings.iter().any(|finding| finding.found.contains("version 99")), "{findings:?}");
    let mut bench = Bench::new(&outbox).await;
    let row = bench.one(&outbox, keyed("k")).await;
    assert_eq!(bench.settle(&[settlement(&row, Outcome::Delivered)]).await.rows, [row.id]);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_refused_with_what_to_do() {
    let outbox = start().await;
    let path = outbox.path();
    drop(outbox.application());
    // The write version of the header: above 2 means read-only to this library, whoever runs the test.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[18] = 3;
    let copy = path.with_file_name("read-only.db");
    std::fs::write(&copy, bytes).unwrap();
    let text = refusal(SqliteOptions::new(&copy)).await;
    assert!(text.contains("write permission"), "{text}");
}

/// With a log that has room already, as beside a relay at work.
#[tokio::test]
async fn the_doctor_sees_a_full_disk_and_says_once_what_to_do() {
    let Some(disk) = SmallDisk::mount() else {
        println!("NOT RUN: a full disk under check: only root may mount a small file system");
        return;
    };
    let options = SqliteOptions::new(disk.path().join("app.db"));
    migrate(&options, None).await.unwrap();
    let store = SqliteStore::open(options.clone()).await.unwrap();
    let mut operator = store.operator().await.unwrap();
    let messages: Vec<_> = (0..20).map(|n| Message::new("t", n.to_string())).collect();
    operator.enqueue(&messages).await.unwrap();
    let failures = |findings: Vec<Finding>| -> Vec<(String, String)> {
        let failures = findings.into_iter().filter(|finding| finding.level == Level::Failure);
        failures.map(|finding| (finding.found, finding.advice)).collect()
    };
    assert_eq!(failures(operator.check().await.unwrap()), []);
    let filler = disk.fill();
    let found = format!("checking the store: the disk of {} is full", options.path.display());
    let advice = "free some space, nothing is lost".to_owned();
    assert_eq!(failures(operator.check().await.unwrap()), [(found, advice)]);
    let large = Message::new("t", "x".repeat(200_000));
    let error = operator.enqueue(&[large]).await.unwrap_err().to_string();
    assert_eq!(error.matches("full").count(), 1, "{error}");
    std::fs::remove_file(filler).unwrap();
    assert_eq!(failures(operator.check().await.unwrap()), []);
}

#[tokio::test]
async fn a_locked_file_is_unavailable_for_a_while_and_nothing_is_lost() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    let row = bench.one(&outbox, keyed("k")).await;
    let application = outbox.application();
    application.execute_batch("begin immediate").unwrap();
    let batch = [settlement(&row, Outcome::Delivered)];
    let error = bench.settler.settle(bench.me, &bench.lanes, &batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("keep write transactions short"), "{error}");
    application.execute_batch("commit").unwrap();
    assert_eq!(bench.settle(&batch).await.rows, [row.id]);
}

#[tokio::test]
async fn reading_goes_on_while_the_application_writes() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    outbox.write(&[keyed("k")]).await;
    let application = outbox.application();
    application.execute_batch("begin immediate").unwrap();
    insert(&application, &[keyed("open")]);
    assert_eq!(bench.read().await.len(), 1, "what is committed, and nothing of the open transaction");
    application.execute_batch("rollback").unwrap();
    assert!(bench.read().await.is_empty());
}

/// Our own builds leave extensions of SQLite out (.cargo/config.toml), and an application may have loaded others.
#[tokio::test]
async fn tables_of_a_module_that_this_build_lacks_are_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path().join("app.db"));
    let search = "create virtual table search using a_module_of_the_application(body)";
    let write =
        "insert into sqlite_schema (type, name, tbl_name, rootpage, sql) values ('table', 'search', 'search', 0, ?)";
    let application = Connection::open(&options.path).unwrap();
    application.execute_batch("create table mine (a); pragma writable_schema = on").unwrap();
    application.execute(write, [search]).unwrap();
    application.execute_batch("pragma writable_schema = reset").unwrap();
    let error = application.execute("insert into search values ('x')", []).unwrap_err().to_string();
    assert!(error.contains("no such module"), "{error}");

    migrate(&options, None).await.unwrap();
    migrate(&options, None).await.unwrap();
    let mut operator = SqliteStore::open(options).await.unwrap().operator().await.unwrap();
    operator.enqueue(&[Message::new("t", "x")]).await.unwrap();
    let status = operator.status(1_000).await.unwrap();
    assert_eq!(status.pending, Measured::Exact(1));
    let findings = operator.check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.level != Level::Failure), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_starters_migrate_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path().join("app.db"));
    let starters: Vec<_> = (0..8)
        .map(|_| {
            let options = options.clone();
            tokio::spawn(async move { migrate(&options, None).await })
        })
        .collect();
    for starter in starters {
        starter.await.unwrap().unwrap();
    }
    let store = SqliteStore::open(options.clone()).await.unwrap();
    assert_eq!(store.profile().lanes.get(), 8);
    let error = migrate(&options, LaneCount::new(16)).await.unwrap_err();
    assert!(error.to_string().contains("8 lanes") && error.kind() == ErrorKind::Config, "{error}");
    migrate(&options, LaneCount::new(8)).await.unwrap();
}

#[tokio::test]
async fn a_migration_waits_for_another_connection_that_writes_to_the_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path().join("app.db"));
    let other = Connection::open(&options.path).unwrap();
    other.execute_batch("begin immediate; create table mine (a)").unwrap();
    let migrating = options.clone();
    let mut migration = tokio::spawn(async move { migrate(&migrating, None).await });
    let ended = tokio::time::timeout(Duration::from_millis(300), &mut migration).await;
    assert!(ended.is_err(), "it did not wait: {ended:?}");
    other.execute_batch("commit").unwrap();
    migration.await.unwrap().unwrap();
    let lanes: i64 = other.query_row("select count(*) from postrider_lane", [], |row| row.get(0)).unwrap();
    let mode: String = other.query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!((lanes, mode.as_str()), (8, "wal"));
}

#[tokio::test]
async fn a_migration_of_a_file_that_stays_locked_ends_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path().join("app.db"));
    let other = Connection::open(&options.path).unwrap();
    other.execute_batch("begin immediate; create table mine (a)").unwrap();
    let error = migrate(&options, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn the_printed_statements_make_the_same_tables_under_any_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = Prefix::new("app_outbox_").unwrap();
    let options = SqliteOptions { prefix: prefix.clone(), ..SqliteOptions::new(folder.path().join("app.db")) };
    let lanes = LaneCount::new(3).unwrap();
    Connection::open(&options.path).unwrap().execute_batch(&ddl(&prefix, lanes).unwrap()).unwrap();
    let store = SqliteStore::open(options.clone()).await.unwrap();
    assert_eq!(store.profile().lanes, lanes);
    migrate(&options, Some(lanes)).await.unwrap();
    let settings = [("prefix".to_owned(), "app_outbox_".to_owned())].into();
    let options = MigrateOptions { store: StoreOptions { settings, ..StoreOptions::default() }, lanes: None };
    let url = format!("sqlite://{}", folder.path().join("app.db").display());
    postrider_stores::migrate(&url, &options).await.unwrap();
    let store = postrider_stores::open(&url, &options.store).await.unwrap();
    assert_eq!((store.profile().name, store.profile().lanes), ("sqlite", lanes));
}

#[tokio::test]
async fn a_foreign_hand_needs_to_write_only_topic_and_payload() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    let insert = "insert into postrider_outbox (topic, payload) values ('orders.placed', '{\"a\": 1}'), ('t', x'00ff')";
    outbox.application().execute(insert, []).unwrap();
    let rows = bench.read().await;
    assert_eq!(rows.len(), 2);
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for (row, payload) in rows.iter().zip([b"{\"a\": 1}".as_slice(), &[0, 0xff]]) {
        let message = message(row);
        assert_eq!(message.payload, payload, "text is taken as its bytes");
        assert_eq!((message.id.0.get_version_num(), message.id.0.get_variant()), (7, uuid::Variant::RFC4122));
        let Timestamp(created_at) = message.created_at.unwrap();
        let age = i64::try_from(since_epoch.as_micros()).unwrap() - created_at;
        assert!((0..60_000_000).contains(&age), "{age} µs");
        let (seconds, nanos) = message.id.0.get_timestamp().unwrap().to_unix();
        assert_eq!(i64::try_from(seconds * 1_000).unwrap() + i64::from(nanos / 1_000_000), created_at / 1_000);
    }
    assert_ne!(id(&rows[0]), id(&rows[1]));
}

#[tokio::test]
async fn a_row_heavier_than_any_message_is_malformed_and_not_loaded() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    let insert = "insert into postrider_outbox (topic, key, payload) values ('t', 'k', zeroblob(80 * 1024 * 1024))";
    outbox.application().execute(insert, []).unwrap();
    outbox.write(&[keyed("k")]).await;
    let rows = bench.source.read(&bench.lanes, Room { rows: 10, bytes: 1_000 }).await.unwrap().rows;
    assert_eq!(rows.len(), 2, "it takes no room");
    assert!(matches!(&rows[0].content, Content::Malformed { reason, .. } if reason.contains("weighs")), "{rows:?}");
}

#[tokio::test]
async fn an_application_that_empties_the_outbox_stops_nothing() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    let row = bench.one(&outbox, keyed("k")).await;
    outbox.application().execute("delete from postrider_outbox", []).unwrap();
    let settled = bench.settle(&[settlement(&row, Outcome::Delivered)]).await;
    assert_eq!((settled.rows, settled.lanes), (vec![], vec![row.lane]), "gone already");
    let next = bench.one(&outbox, keyed("k")).await;
    assert!(next.id > row.id, "ids are never given twice");
}

#[tokio::test]
async fn what_is_recorded_of_a_message_is_never_of_another_one_that_got_its_number() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    outbox.write(&[keyed("k"), keyed("k"), keyed("k")]).await;
    let before = bench.read().await;
    let application = outbox.application();
    let anew = "delete from postrider_outbox; update sqlite_sequence set seq = 0 where name = 'postrider_outbox'";
    application.execute_batch(&format!("begin immediate; {anew}; commit")).unwrap();
    let after = [keyed("k"), keyed("k")];
    outbox.write(&after).await;
    let batch: Vec<_> = before.iter().map(|row| settlement(row, Outcome::Delivered)).collect();
    let settled = bench.settle(&batch).await;
    assert_eq!((settled.rows.len(), settled.lanes.is_empty()), (0, false));
    let left: i64 = application.query_row("select count(*) from postrider_outbox", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 2);
}

#[tokio::test]
async fn an_older_state_of_the_file_is_noticed() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    outbox.write(&(0..10).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    assert_eq!(bench.read().await.len(), 10);
    // What restoring an early backup in place does.
    let restore = "delete from postrider_outbox; update sqlite_sequence set seq = 0 where name = 'postrider_outbox'";
    outbox.application().execute_batch(restore).unwrap();
    outbox.write(&[keyed("after")]).await;
    let page = bench.source.read(&bench.lanes, ROOM).await.unwrap();
    assert!(page.discontinued && page.rows.is_empty(), "{page:?}");
    assert_eq!(bench.read().await.len(), 1);
}

#[tokio::test]
async fn tables_that_are_dropped_under_a_relay_are_a_config_error_with_the_next_step() {
    let outbox = start().await;
    let mut bench = Bench::new(&outbox).await;
    assert!(bench.read().await.is_empty());
    outbox.application().execute("drop table postrider_outbox", []).unwrap();
    let error = bench.source.read(&bench.lanes, ROOM).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("postrider migrate"), "{error}");
}

#[tokio::test]
async fn without_history_a_delivered_message_leaves_no_trace() {
    for (history, expected) in [(History::Off, 0), (History::Kept, 1)] {
        let outbox = Sqlite::new(4, history).await;
        let mut bench = Bench::new(&outbox).await;
        let row = bench.one(&outbox, keyed("k").header("h", "v")).await;
        bench.settle(&[settlement(&row, Outcome::Delivered)]).await;
        let count = "select count(*) from postrider_delivered where attempts = 1 and headers = '{\"h\":\"v\"}'";
        let kept: i64 = outbox.application().query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(kept, expected, "{history:?}");
        let subject = Subject::Id(id(&row));
        let found = bench.operator.explain(&subject, Duration::from_secs(5)).await.unwrap();
        assert_eq!(found.len(), usize::try_from(expected).unwrap());
        assert!(found.iter().all(|found| matches!(found.standing, Standing::Delivered { .. })));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explanation_ends_when_its_time_is_up() {
    let outbox = start().await;
    let fill = "insert into postrider_outbox (topic, payload)
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 300000) select 't', 'x' from n";
    outbox.application().execute(fill, []).unwrap();
    let mut operator = outbox.store().operator().await.unwrap();
    let subject = Subject::Id(Message::new("t", "").id);
    let whole = Instant::now();
    assert!(operator.explain(&subject, Duration::from_secs(60)).await.unwrap().is_empty());
    let whole = whole.elapsed();
    let error = operator.explain(&subject, whole / 20).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("time limit"), "{error}");
    assert!(operator.status(10).await.is_ok(), "and the next call works");
}
