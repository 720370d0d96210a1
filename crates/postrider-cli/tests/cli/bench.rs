//! `postrider bench`: it measures, judges, and leaves nothing behind.

use std::process::Command;

use super::harness::{Place, until};

fn tables(place: &Place) -> Vec<String> {
    let connection = rusqlite::Connection::open(place.path("app.db")).unwrap();
    let mut statement =
        connection.prepare("select name from sqlite_schema where name glob 'postrider_bench_*'").unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

#[test]
fn a_small_measurement_has_a_verdict_beside_each_figure_and_leaves_no_table() {
    let place = Place::migrated();
    let small = ["--messages", "500", "--rates", "50", "--seconds", "3", "--runs", "1", "--keys", "20"];
    let kept = ["--json", "bench.json", "--svg", "bench.svg"];
    let run = place.on(&[&["bench", "--broker", "memory:"], &small[..], &kept[..]].concat());
    run.good();
    assert!(run.out.contains("backlog of 500 messages") && run.out.contains("p99.9"), "{}", run.out);
    let measured: serde_json::Value = serde_json::from_str(&place.read("bench.json")).unwrap();
    let figures = measured["figures"].as_array().unwrap();
    let judged: Vec<_> = figures.iter().filter(|figure| !figure["verdict"].is_null()).collect();
    assert_eq!(judged.len(), 4, "{measured}");
    for figure in judged {
        let verdict = &figure["verdict"];
        assert!(verdict["written"].as_u64().unwrap() >= 150, "{figure}");
        for what in ["lost", "ghosts", "order", "repeats"] {
            assert_eq!(verdict[what], 0, "{what} of {figure}");
        }
        assert!(figure["ours"]["median"].as_f64().unwrap() > 0.0, "{figure}");
    }
    let limits: Vec<_> = figures.iter().filter(|figure| !figure["beside"].is_null()).collect();
    assert_eq!(limits.len(), 1, "{measured}");
    assert!(limits[0]["beside"]["runs"]["median"].as_f64().unwrap() > 0.0, "{measured}");
    assert!(place.read("bench.svg").starts_with("<svg"));
    assert_eq!(tables(&place), [""; 0]);
    place.on(&["status"]).good();
}

#[test]
fn an_outbox_with_messages_is_refused_and_keeps_them() {
    let place = Place::migrated();
    place.enqueue("orders", "k", "1");
    place.on(&["bench", "--broker", "memory:"]).ends(2).says(&["not empty", "postrider status"]);
    let status = place.on(&["status", "--json"]).json();
    assert_eq!(status["pending"]["value"], 1, "{status}");
}

#[test]
fn after_ctrl_c_its_tables_are_gone() {
    let place = Place::migrated();
    let mut command =
        place.command(&["bench", "--store", "sqlite:app.db", "--broker", "memory:", "--messages", "5000000"]);
    let mut child = command.spawn().unwrap();
    until("its tables", || (!tables(&place).is_empty()).then_some(()));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = until("its end", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(130));
    assert_eq!(tables(&place), [""; 0]);
}
