//! `postrider demo`, run as a user runs it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by a panic")]

use std::path::Path;
use std::process::Output;

use postrider_testkit::command::command;

fn demo(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = command(env!("CARGO_BIN_EXE_postrider"));
    command.arg("demo").args(arguments).current_dir(folder).output().unwrap()
}

/// The figure of a row of the last table.
fn figure(text: &str, row: &str) -> u64 {
    let line = text.lines().rev().find_map(|line| line.trim_start().strip_prefix(row)).unwrap_or_default();
    line.split_whitespace().next().unwrap_or_default().replace(',', "").parse().unwrap()
}

#[test]
fn the_demo_ends_by_itself_with_a_verdict_that_holds() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &["--seconds", "4", "--rate", "200"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line == "verdict: holds"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    // It shows what it promises to show, each at least once.
    assert_eq!(figure(&text, "dead letters"), 2, "{text}");
    assert_eq!(figure(&text, "committed"), figure(&text, "delivered") + 2, "{text}");
    assert!(figure(&text, "rolled back") > 0 && figure(&text, "repeats") > 0, "{text}");
    for event in ["goes down", "is back", "stopped gracefully", "is killed with", "has taken over", "429"] {
        assert!(text.contains(event), "{event} is missing: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no escape sequences outside a terminal");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn with_a_consumer_that_has_an_inbox_many_orders_come_again_and_each_is_shipped_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &["--seconds", "4", "--rate", "200", "--consumer", "--keep", "kept"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line == "verdict: holds"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(figure(&text, "shipped"), figure(&text, "delivered"), "{text}");
    assert!(figure(&text, "repeats") > 20, "{text}");
    let database = rusqlite::Connection::open(folder.path().join("kept/consumer.db")).unwrap();
    let count = |sql: &str| database.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap().unsigned_abs();
    assert_eq!(count("select count(*) from shipments"), figure(&text, "shipped"), "{text}");
    assert_eq!(count("select count(distinct message_id) from shipments"), figure(&text, "shipped"), "{text}");
}

#[test]
fn what_the_demo_keeps_is_an_outbox_that_the_other_verbs_read() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &["--seconds", "2", "--rate", "50", "--keep", "kept"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let mut list = command(env!("CARGO_BIN_EXE_postrider"));
    let list = list.args(["dead", "list", "--store", "sqlite:kept/demo.db"]).current_dir(folder.path());
    let listed = String::from_utf8(list.output().unwrap().stdout).unwrap();
    assert!(listed.contains("orders.placed"), "{listed}");

    let again = demo(folder.path(), &["--seconds", "2", "--keep", "kept"]);
    assert_eq!(again.status.code(), Some(3), "a database that is there is never written over");
}

#[test]
fn a_database_or_a_broker_of_the_users_is_never_touched_by_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    for flag in ["--store=sqlite:mine.db", "--broker=stdout:"] {
        let output = demo(folder.path(), &[flag]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("next: "));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
