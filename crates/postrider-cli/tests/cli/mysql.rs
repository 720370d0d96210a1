//! The same binary, built with its store for MySQL, on MariaDB. MySQL 8: not run.

use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use postrider_testkit::servers::mariadb::{self, Mariadb};

use crate::harness::{Place, lines, until};

/// Above twice the five seconds that a verb waits for a lock, with room for a slow machine.
const SOON: Duration = Duration::from_secs(20);

/// The server of these tests, the name of a database of its own with the tables, and its URL.
async fn migrated(place: &Place) -> (&'static Mariadb, String, String) {
    let server = mariadb::shared().await.unwrap();
    let database = server.create_database().await.unwrap();
    let url = server.url_for(&database);
    place.run(&["migrate", "--store", &url]).good();
    (server, database, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verbs_work_on_mariadb() {
    let place = Place::empty();
    let (server, database, url) = migrated(&place).await;
    let on = |arguments: &[&str]| place.run(&[arguments, &["--store", &url]].concat());
    on(&["migrate", "--check"]).good();
    assert!(on(&["migrate", "--print"]).good().out.contains("create procedure `postrider_enqueue`"));
    let id = on(&["enqueue", "orders.placed", "--key", "42", "--payload", "one"]).good().out.trim().to_owned();
    let call =
        "set @id = null; call postrider_enqueue('orders.placed', '42', 'two', null, null, null, null, null, @id)";
    server.sql(&database, call).await.unwrap();
    assert!(on(&["explain", &id]).good().out.contains("pending"));
    assert_eq!(on(&["status", "--json", "--admin", &crate::harness::nowhere()]).ends(1).json()["due"], 2);
    let to_a_file = ["--broker", "file:out.jsonl", "--admin-listen", "off", "--outbox-history", "7d"];
    let run = on(&[&["relay", "--until-empty"], &to_a_file[..]].concat());
    assert!(run.good().err.contains("delivered 2"), "{}", run.err);
    let payloads: Vec<_> = lines(&place.path("out.jsonl")).iter().map(|line| line["payload"].clone()).collect();
    assert_eq!(payloads, ["one", "two"]);
    assert!(on(&["explain", "42"]).good().out.contains("delivered: settled"));
    assert_eq!(on(&["prune", "--delivered", "1ms", "--json"]).good().json()["delivered"], 2);
    assert_eq!(on(&["check", "--broker", "file:out.jsonl", "--json"]).good().json()["failed"], false);
    on(&["migrate", "--roles"]).ends(2).says(&["has no roles"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_row_is_a_dead_letter_that_is_shown_and_discarded_on_mariadb() {
    let place = Place::empty();
    let (server, database, url) = migrated(&place).await;
    let on = |arguments: &[&str]| place.run(&[arguments, &["--store", &url]].concat());
    server
        .sql(&database, "insert into postrider_outbox (topic, payload) values ('no topic', 'x'), ('t', 'good')")
        .await
        .unwrap();
    let run = on(&["relay", "--until-empty", "--broker", "file:out.jsonl", "--admin-listen", "off"]);
    assert!(run.err.contains("delivered 1"), "{}", run.err);
    assert!(on(&["dead", "list"]).good().out.contains("malformed"));
    on(&["dead", "discard", "--reason", "malformed", "--yes"]).good();
    assert!(!on(&["dead", "list"]).out.contains("malformed"));
}

/// A session of the application's that has run these statements, and its number at the server.
async fn session(url: &str, statements: &[&str]) -> (Conn, u32) {
    let mut session = Conn::from_url(url).await.unwrap();
    for statement in statements {
        session.query_drop(*statement).await.unwrap();
    }
    let number = session.id();
    (session, number)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_told_with_its_holder_to_whoever_has_the_right_on_mariadb() {
    let place = Place::empty();
    let server = Mariadb::start().await.unwrap();
    let database = server.create_database().await.unwrap();
    let url = server.url_for(&database);
    place.run(&["migrate", "--store", &url]).good();
    let blind = "create user blind identified by 'x'; grant select, insert, update, delete on *.* to blind";
    server.sql(&database, blind).await.unwrap();
    let enqueue = |url: &str| {
        let started = Instant::now();
        let run = tokio::task::block_in_place(|| place.run(&["enqueue", "a", "--payload", "x", "--store", url]));
        assert!(started.elapsed() < SOON, "{:?}: {}", started.elapsed(), run.err);
        run.ends(2);
        run
    };
    let (mut application, number) = session(&url, &["begin", "select * from postrider_outbox for update"]).await;
    enqueue(&url).says(&[&format!("connection {number} (user root "), &format!("end it: `kill {number}`; then")]);
    let unseen = enqueue(&server.url_as("blind", "x", &database));
    unseen.says(&["was not to be found out", "`grant process on *.* to 'blind'@'%'`"]);
    // No transaction, so nobody is told of it.
    application.query_drop("rollback").await.unwrap();
    application.query_drop("lock tables postrider_outbox write").await.unwrap();
    enqueue(&url).says(&["was not to be found out", "show processlist"]);
    application.query_drop("unlock tables").await.unwrap();
    place.run(&["enqueue", "a", "--payload", "x", "--store", &url]).good();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_meets_a_lock_says_who_holds_it_and_goes_on_when_it_is_gone_on_mariadb() {
    let place = Place::empty();
    let (_, _, url) = migrated(&place).await;
    let statements = ["update postrider_meta set version = 0", "begin", "select * from postrider_lane for update"];
    let (mut application, number) = session(&url, &statements).await;
    let mut command = place.command(&["migrate", "--store", &url]);
    let mut migration = command.stderr(std::fs::File::create(place.path("log")).unwrap()).spawn().unwrap();
    let told = format!("`kill {number}`");
    tokio::task::block_in_place(|| until("the holder", || place.read("log").contains(&told).then_some(())));
    application.query_drop("rollback").await.unwrap();
    let ended = tokio::task::block_in_place(|| until("the migration", || migration.try_wait().unwrap()));
    assert!(ended.success(), "{}", place.read("log"));
}

/// Delivered under load by a real relay: nothing lost, invented or out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_measurement_judges_its_figures_and_leaves_nothing_on_mariadb() {
    let place = Place::empty();
    let (server, database, url) = migrated(&place).await;
    let small = ["--messages", "500", "--rates", "50", "--seconds", "3", "--runs", "1", "--keys", "20"];
    let run = place.run(&[&["bench", "--store", &url, "--broker", "memory:"], &small[..]].concat());
    assert!(run.good().out.contains("lost 0, ghosts 0, order 0"), "{}", run.out);
    let left = "select (select count(*) from information_schema.tables where table_schema = database() and table_name like 'postrider\\_bench\\_%')
                     + (select count(*) from information_schema.routines where routine_schema = database() and routine_name like 'postrider\\_bench\\_%')";
    assert_eq!(server.sql(&database, left).await.unwrap(), "0");
}
