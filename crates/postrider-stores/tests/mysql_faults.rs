//! Servers that go, come back as others, or are not as they should be, on MariaDB.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod mysql;

use std::time::Duration;

use mysql::{Outbox, Relay, TTL, ids, insert, lanes, payload, payloads, until};
use mysql_async::prelude::Queryable as _;
use postrider_core::{
    Content, DeadFilter, ErrorKind, Finding, LaneCount, Level, Message, Outcome, RelayId, Retention, Row, Store,
};
use postrider_stores::History;
use postrider_stores::mysql::{MysqlOptions, MysqlStore, Names, VERSION, migrate, migrate_check, remove};
use postrider_testkit::servers::mariadb::{Family, Mariadb, shared};
use uuid::Uuid;

fn numbered(number: usize) -> Vec<Message> {
    (0..number).map(|n| Message::new("t", n.to_string()).key(format!("k{n}"))).collect()
}

async fn findings(outbox: &Outbox<'_>) -> Vec<Finding> {
    outbox.operator().await.check().await.unwrap()
}

fn finding<'f>(findings: &'f [Finding], subject: &str) -> &'f Finding {
    findings.iter().find(|finding| finding.subject == subject).unwrap_or_else(|| panic!("{subject}: {findings:?}"))
}

/// Reads until a read is answered; whether the reader was told that the database is another one.
async fn read_again(relay: &mut Relay) -> (Vec<Row>, bool) {
    let (mut rows, mut discontinued) = (Vec::new(), false);
    until("an answer", async || match relay.source.read(&relay.held, mysql::ROOM).await {
        Ok(page) => {
            discontinued |= page.discontinued;
            rows.extend(page.rows);
            !page.more && !page.discontinued
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable), "{error}");
            false
        }
    })
    .await;
    (rows, discontinued)
}

/// Its uptime tells one life from the other, in seconds.
async fn a_few_seconds_of_life(server: &Mariadb) {
    until("a few seconds of life", async || {
        let line = server.sql("mysql", "show global status like 'Uptime'").await.unwrap();
        line.rsplit('\t').next().unwrap().parse::<u32>().unwrap() > 6
    })
    .await;
}

#[tokio::test]
async fn after_a_restart_or_a_crash_of_the_server_everything_unsettled_is_read_anew() {
    let mut server = Mariadb::start().await.unwrap();
    for crash in [false, true] {
        let url = {
            let outbox = Outbox::on(&server, 8, |options| options).await;
            outbox.enqueue(&numbered(20)).await;
            server.url_for(&outbox.database)
        };
        let store = MysqlStore::open(MysqlOptions::new(&url).unwrap()).await.unwrap();
        let mut relay = Relay::joined(&store).await;
        let rows = relay.read_all().await;
        relay.settle(&rows[..5], Outcome::Delivered).await;
        assert!(relay.read_all().await.is_empty());
        a_few_seconds_of_life(&server).await;
        if crash {
            server.kill9();
        } else {
            server.stop();
        }
        server.restart().await.unwrap();
        let (again, discontinued) = read_again(&mut relay).await;
        assert!(discontinued, "the relay must not trust what it knew");
        assert_eq!(ids(&again), ids(&rows[5..]));
        assert_eq!(relay.settle(&again, Outcome::Delivered).await.rows.len(), 15, "its lease has outlived the server");
    }
}

/// As after a table that was emptied or restored: numbers that were passed are drawn again.
/// So many rows that have numbers which were given before.
async fn found_again(relay: &mut Relay, count: usize) -> Vec<Row> {
    let (mut found, mut discontinued) = (Vec::new(), false);
    until("what has the old numbers", async || {
        let (rows, told) = read_again(relay).await;
        discontinued |= told;
        found.extend(rows);
        found.len() == count
    })
    .await;
    assert!(discontinued, "the relay must not trust what it knew");
    found
}

#[tokio::test]
async fn numbers_that_are_drawn_again_are_noticed_and_read() {
    let outbox = Outbox::fresh().await;
    outbox.enqueue(&numbered(50)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    relay.settle(&rows, Outcome::Delivered).await;
    assert!(relay.read_all().await.is_empty());
    outbox.sql("truncate table postrider_outbox").await;
    outbox.enqueue(&numbered(10)).await;
    let found = found_again(&mut relay, 10).await;
    assert_eq!(payloads(&found), (0..10).map(|n: u32| n.to_string()).collect::<Vec<_>>());
}

/// As with a server that kept its counter in memory alone, or was put back from a copy.
#[tokio::test]
async fn what_a_server_writes_after_a_restart_with_a_lower_auto_increment_is_found_and_delivered() {
    let mut server = Mariadb::start().await.unwrap();
    let (database, url) = {
        let outbox = Outbox::on(&server, 8, |options| options).await;
        outbox.enqueue(&numbered(50)).await;
        (outbox.database.clone(), server.url_for(&outbox.database))
    };
    let store = MysqlStore::open(MysqlOptions::new(&url).unwrap()).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let rows = relay.read_all().await;
    assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows.len(), 50);
    assert!(relay.read_all().await.is_empty());
    a_few_seconds_of_life(&server).await;
    server.stop();
    server.restart_after(&format!("alter table {database}.postrider_outbox auto_increment = 1;\n")).await.unwrap();
    let insert = "insert into postrider_outbox (topic, `key`, payload) values ('t', 'k0', 'one'), ('t', 'k1', 'two')";
    server.sql(&database, insert).await.unwrap();
    // As one whose commit was not answered before the restart.
    for some in [&rows[..2], &rows[..]] {
        assert_eq!(relay.settle(some, Outcome::Delivered).await.rows, [], "those numbers have other messages now");
    }
    let found = found_again(&mut relay, 2).await;
    assert_eq!((payloads(&found), ids(&found)), (vec!["one".to_owned(), "two".to_owned()], ids(&rows[..2])));
    assert_eq!(relay.settle(&found, Outcome::Delivered).await.rows.len(), 2);
    let left = "select count(*) from postrider_outbox";
    assert_eq!(server.sql(&database, left).await.unwrap(), "0");
    assert!(relay.read_all().await.is_empty());
}

#[tokio::test]
async fn a_table_without_transactions_is_refused_with_the_statement_that_mends_it() {
    let outbox = Outbox::fresh().await;
    outbox.sql("alter table postrider_lane engine = MyISAM").await;
    let url = outbox.server.url_for(&outbox.database);
    let opened = MysqlStore::open(MysqlOptions::new(&url).unwrap()).await;
    let migrated = migrate(&MysqlOptions::new(&url).unwrap(), lanes(8)).await;
    for error in [opened.map(|_| ()).unwrap_err(), migrated.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.story().contains("postrider_lane is kept by MyISAM"), "{error}");
        assert!(error.advice().unwrap().contains("alter table `postrider_lane` engine = InnoDB"), "{error}");
    }
    let found = findings(&outbox).await;
    assert_eq!(finding(&found, "tables").level, Level::Failure);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_refused() {
    let server = Mariadb::start().await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    outbox.sql("set global read_only = 1").await;
    let url = server.url_for(&outbox.database);
    let error = MysqlStore::open(MysqlOptions::new(&url).unwrap()).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.story().contains("takes no writes") && error.advice().unwrap().contains("primary"), "{error}");
    assert!(!error.story().contains("tests"), "no password: {error}");
}

/// Under READ COMMITTED it takes no write, whatever it is.
#[tokio::test]
async fn a_binary_log_of_statements_is_named_with_the_setting_that_mends_it() {
    let server = Mariadb::start_with(&["--log-bin=log", "--server-id=1"]).await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    outbox.sql("set global binlog_format = 'STATEMENT'").await;
    let found = findings(&outbox).await;
    let format = finding(&found, "binlog_format");
    assert_eq!((format.level, format.advice.contains("ROW")), (Level::Failure, true));
    let mut leases = outbox.store.leases().await.unwrap();
    let joined = leases.join(RelayId(Uuid::now_v7()), "r", Duration::from_secs(60)).await;
    let error = joined.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.advice().unwrap().contains("binlog_format"), "{error}");
}

/// Settings under which an application's sessions do what nobody meant; the relay's own are as they should be.
#[tokio::test]
async fn the_doctor_names_settings_that_weaken_a_promise_and_the_store_works_under_them() {
    let weak = [
        "--autocommit=0",
        "--completion-type=CHAIN",
        "--transaction-isolation=SERIALIZABLE",
        "--innodb-flush-log-at-trx-commit=2",
        "--auto-increment-increment=2",
        "--max-allowed-packet=16M",
    ];
    let server = Mariadb::start_with(&weak).await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    let found = findings(&outbox).await;
    for subject in ["autocommit", "innodb_flush_log_at_trx_commit", "auto_increment_increment", "max_allowed_packet"] {
        let finding = finding(&found, subject);
        assert!(finding.level == Level::Warning && !finding.advice.is_empty(), "{finding:?}");
    }
    let mut connection = outbox.connection().await;
    let mut relay = Relay::joined(&outbox.store).await;
    insert(&mut connection, "k", "forgotten").await;
    assert!(relay.read_all().await.is_empty(), "it is not committed");
    connection.query_drop("commit").await.unwrap();
    let rows = relay.read_all().await;
    assert_eq!(payloads(&rows), ["forgotten"]);
    assert_eq!(relay.settle(&rows, Outcome::Delivered).await.rows.len(), 1);
    assert_eq!(outbox.sql("select count(*) from postrider_outbox").await, "0", "settled for all to see");
}

/// Asked for late in a second, a clock of whole seconds would be more than half a second away.
#[tokio::test]
async fn the_doctor_compares_the_clocks_to_the_millisecond() {
    let outbox = Outbox::fresh().await;
    let mut operator = outbox.operator().await;
    operator.check().await.unwrap();
    let late_in_a_second = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        (600..700).contains(&since.subsec_millis())
    };
    until("the second is more than half over", async || late_in_a_second()).await;
    let found = operator.check().await.unwrap();
    let clock = finding(&found, "clock");
    let apart = clock.found.split(' ').find_map(|word| word.parse::<u64>().ok());
    assert!(clock.level == Level::Good && apart.is_some_and(|apart| apart < 500), "{clock:?}");
}

/// Larger than the server sends: the others come, and it is a dead letter that says why.
#[tokio::test]
async fn a_row_that_the_server_cannot_send_costs_no_other() {
    let server = Mariadb::start().await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options).await;
    outbox
        .enqueue(&[Message::new("t", "before"), Message::new("t", vec![7; 3 << 20]), Message::new("t", "after")])
        .await;
    outbox.sql("set global max_allowed_packet = 2097152").await;
    let store = MysqlStore::open(MysqlOptions::new(&server.url_for(&outbox.database)).unwrap()).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    let rows = relay.read_all().await;
    assert_eq!((rows.len(), payload(&rows[0]), payload(&rows[2])), (3, "before".to_owned(), "after".to_owned()));
    let Content::Malformed { reason, id, .. } = &rows[1].content else { panic!("{:?}", rows[1]) };
    assert!(reason.contains("max_allowed_packet") && id.is_some(), "{reason}");
    let mut operator = outbox.operator().await;
    let error = operator.enqueue(&[Message::new("t", vec![7; 3 << 20])]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.advice().unwrap().contains("max_allowed_packet"), "{error}");
    operator.enqueue(&(0..8).map(|_| Message::new("t", vec![7; 1 << 20])).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(relay.read_all().await.len(), 8, "a list that is larger than a statement may be");
}

#[tokio::test]
async fn several_starters_make_the_tables_once_and_none_changes_the_number_of_lanes() {
    let server = shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    let options = MysqlOptions::new(&server.url_for(&database)).unwrap();
    assert_eq!(migrate_check(&options).await.unwrap(), None);
    let error = MysqlStore::open(options.clone()).await.map(|_| ()).unwrap_err();
    assert!(error.story().contains("postrider migrate"), "{error}");
    let eight = lanes(8);
    let (one, two, three) = tokio::join!(migrate(&options, eight), migrate(&options, eight), migrate(&options, eight));
    assert!(one.is_ok() && two.is_ok() && three.is_ok(), "{one:?} {two:?} {three:?}");
    let installed = migrate_check(&options).await.unwrap().unwrap();
    assert_eq!((installed.version, installed.lanes), (VERSION, eight));
    migrate(&options, eight).await.unwrap();
    let error = migrate(&options, LaneCount::ONE).await.unwrap_err();
    assert!(error.story().contains("8 lanes") && error.kind() == ErrorKind::Config, "{error}");
    server.sql(&database, "update postrider_meta set version = 9, compatible_from = 9").await.unwrap();
    let error = MysqlStore::open(options.clone()).await.map(|_| ()).unwrap_err();
    assert!(error.story().contains("newer") && error.kind() == ErrorKind::Config, "{error}");
    server.sql(&database, "update postrider_meta set compatible_from = 1").await.unwrap();
    assert!(MysqlStore::open(options).await.is_ok(), "newer tables say that this build may work on them");
}

/// A statement that defines a table is a transaction of its own: what is left of a migration that died is completed.
#[tokio::test]
async fn a_migration_that_broke_off_is_completed_by_the_next() {
    let server = shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    let options = MysqlOptions::new(&server.url_for(&database)).unwrap();
    migrate(&options, lanes(8)).await.unwrap();
    let broken = "delete from postrider_meta; drop procedure postrider_enqueue; drop table postrider_delivered;
        delete from postrider_lane where lane > 3";
    server.sql(&database, broken).await.unwrap();
    let error = MysqlStore::open(options.clone()).await.map(|_| ()).unwrap_err();
    assert!(error.story().contains("postrider migrate"), "{error}");
    migrate(&options, lanes(8)).await.unwrap();
    let store = MysqlStore::open(options).await.unwrap();
    assert_eq!(Relay::joined(&store).await.held.len(), 8);
}

#[tokio::test]
async fn another_prefix_is_another_outbox_and_is_removed_whole() {
    let outbox = Outbox::fresh().await;
    let url = outbox.server.url_for(&outbox.database);
    let options = MysqlOptions::new(&url).unwrap().names(Names::new("while_").unwrap());
    migrate(&options, lanes(2)).await.unwrap();
    outbox.sql("create table while_theirs (n int)").await;
    let store = MysqlStore::open(options.clone()).await.unwrap();
    let mut relay = Relay::joined(&store).await;
    outbox.sql("set @id = null; call while_enqueue('t', null, 'x', null, null, null, null, null, @id)").await;
    assert_eq!(payloads(&relay.read_all().await), ["x"]);
    drop(relay);
    remove(&options).await.unwrap();
    remove(&options).await.unwrap();
    let left = outbox.sql("select table_name from information_schema.tables where table_schema = database() and table_name like 'while%'").await;
    assert_eq!(left, "while_theirs");
    let error = remove(&MysqlOptions::new(&url).unwrap()).await.unwrap_err();
    assert!(error.story().contains("an application's own"), "{error}");
    let missing = MysqlStore::open(options).await.map(|_| ()).unwrap_err();
    assert!(missing.story().contains("outbox.prefix = \"postrider_\""), "it says where there is one: {missing}");
}

#[tokio::test]
async fn who_holds_a_lock_that_an_operator_waits_for_is_named_with_how_to_end_that() {
    let kept = |options: MysqlOptions| options.history(History::Kept).lock_wait(Duration::from_secs(1));
    let outbox = Outbox::on(shared().await.unwrap(), 8, kept).await;
    outbox.enqueue(&numbered(2)).await;
    let mut relay = Relay::joined(&outbox.store).await;
    let rows = relay.read_all().await;
    relay.settle(&rows, Outcome::Delivered).await;
    let mut other = outbox.connection().await;
    other.query_drop("begin").await.unwrap();
    other.query_drop("select * from postrider_delivered where id > 0 for update").await.unwrap();
    let retention = Retention { delivered: Some(Duration::ZERO), dead: None };
    let mut operator = outbox.operator().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let error = operator.prune(&retention, 10).await.unwrap_err();
    let connection: u64 = other.query_first("select connection_id()").await.unwrap().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.story().contains(&format!("connection {connection} ")), "{error}");
    assert!(error.advice().unwrap().contains(&format!("`kill {connection}`")), "{error}");
    other.query_drop("rollback").await.unwrap();
    assert_eq!(operator.prune(&retention, 10).await.unwrap().delivered, 2);
    assert!(operator.dead_groups(&DeadFilter::default()).await.unwrap().is_empty());
}

/// Its own transaction is still open when it asks: to end that would mend nothing.
#[tokio::test]
async fn who_waits_for_a_lock_is_not_named_beside_who_holds_it() {
    let server = Mariadb::start().await.unwrap();
    let outbox = Outbox::on(&server, 8, |options| options.lock_wait(Duration::from_secs(1))).await;
    let mut other = outbox.connection().await;
    other.query_drop("begin").await.unwrap();
    other.query_drop("select * from postrider_outbox for update").await.unwrap();
    let mut operator = outbox.operator().await;
    let error = operator.enqueue(&numbered(2)).await.unwrap_err();
    let connection: u64 = other.query_first("select connection_id()").await.unwrap().unwrap();
    assert!(error.advice().unwrap().contains(&format!("end it: `kill {connection}`; then")), "{error:?}");
}

#[tokio::test]
async fn a_wrong_password_an_unknown_database_and_a_port_without_a_server_say_what_to_do() {
    let server = shared().await.unwrap();
    let port = server.port();
    // As they are installed the one offers no TLS, and the other does.
    let over_tls = match server.family() {
        Family::Mariadb => "sslmode=disable",
        Family::Mysql => "password",
    };
    for (url, kind, says) in [
        (format!("mysql://root:hunter2@127.0.0.1:{port}/mysql"), ErrorKind::Config, "password"),
        (server.url_for("nowhere"), ErrorKind::Config, "create database"),
        ("mysql://root:hunter2@127.0.0.1:1/mysql".to_owned(), ErrorKind::Unavailable, "start the server"),
        (format!("mysql://root:hunter2@127.0.0.1:{port}/mysql?sslmode=require"), ErrorKind::Config, over_tls),
        ("mysql://root:hunter2@localhost/mysql?socket=/nowhere/socket".to_owned(), ErrorKind::Unavailable, "socket"),
    ] {
        let error = MysqlStore::open(MysqlOptions::new(&url).unwrap().timeout(TTL)).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.advice().unwrap_or_default().contains(says), "{says}: {error}");
        assert!(!error.story_and_advice().contains("hunter2"), "{error}");
    }
    let over_the_socket =
        format!("mysql://root:a%20pass%2Fword%40for%3Atests@localhost/mysql?socket={}", server.socket().display());
    let error = MysqlStore::open(MysqlOptions::new(&over_the_socket).unwrap()).await.map(|_| ()).unwrap_err();
    assert!(error.story().contains("postrider migrate"), "it is reached: {error}");
}
