//! The same binary, built with its store for MySQL, on MariaDB. MySQL 8: not run.

use postrider_testkit::servers::mariadb::{self, Mariadb};

use crate::harness::{Place, lines};

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
