//! From `enqueue` through the relay to a file, and what `migrate`, `status`, `prune` and `check` say on the way.

use crate::harness::{Place, lines, nowhere, until};

#[test]
fn what_is_enqueued_arrives_in_the_file_with_everything_it_carries() {
    let place = Place::migrated();
    let run = place.on(&[
        "enqueue",
        "orders.placed",
        "--key",
        "42",
        "--payload",
        "{\"order\":1}",
        "--content-type",
        "application/json",
        "--header",
        "tenant=blue",
    ]);
    let id = run.good().out.trim().to_owned();
    let run = place.drain("file:out.jsonl", &["--destination", "shop/{topic}"]);
    run.good();
    assert!(
        run.err.contains("delivered 1, retried 0, given up 0; left in the outbox: 0 delayed, 0 dead"),
        "{}",
        run.err
    );
    let line = lines(&place.path("out.jsonl")).remove(0);
    assert_eq!(line["id"], id.as_str());
    assert_eq!(line["key"], "42");
    assert_eq!(line["destination"], "shop/orders.placed");
    assert_eq!(line["payload"], "{\"order\":1}");
    assert_eq!(line["content_type"], "application/json");
    assert_eq!(line["headers"]["tenant"], "blue");
}

#[test]
fn lines_of_json_are_one_transaction() {
    let place = Place::migrated();
    let good =
        b"{\"topic\":\"a\",\"key\":\"k\",\"payload\":{\"n\":1}}\n{\"topic\":\"a\",\"key\":\"k\",\"payload\":\"two\"}\n";
    let run = place.run_fed(good, &["enqueue", "--json-lines", "--json", "--store", "sqlite:app.db"]);
    assert_eq!(run.good().json()["ids"].as_array().unwrap().len(), 2);
    let bad = b"{\"topic\":\"a\"}\n{\"topic\":\"not a topic\"}\n";
    place
        .run_fed(bad, &["enqueue", "--json-lines", "--store", "sqlite:app.db"])
        .ends(2)
        .says(&["line 2", "nothing was written"]);
    assert_eq!(place.on(&["status", "--json"]).json()["pending"]["value"], 2);
    place.drain("file:out.jsonl", &[]).good();
    let payloads: Vec<_> = lines(&place.path("out.jsonl")).iter().map(|line| line["payload"].clone()).collect();
    assert_eq!(payloads, ["{\"n\":1}", "two"]);
}

#[test]
fn the_payload_may_come_from_a_file_or_a_pipe_byte_for_byte() {
    let place = Place::migrated();
    place.write("payload", [0xff, 0x00, 0x0a]);
    place.on(&["enqueue", "a", "--payload-file", "payload"]).good();
    place.run_fed(b"piped", &["enqueue", "a", "--store", "sqlite:app.db"]).good();
    place.drain("file:out.jsonl", &[]).good();
    let found = lines(&place.path("out.jsonl"));
    assert!(found.iter().any(|line| line["payload_base64"] == "/wAK"), "{found:?}");
    assert!(found.iter().any(|line| line["payload"] == "piped"), "{found:?}");
}

#[test]
fn a_delayed_message_is_left_and_counted_on_the_last_line() {
    let place = Place::migrated();
    place.on(&["enqueue", "a", "--payload", "x", "--delay", "1h"]).good();
    place.on(&["enqueue", "a", "--payload", "x", "--deliver-at", "2100-01-01T00:00:00Z"]).good();
    let run = place.drain("file:out.jsonl", &[]);
    assert!(run.good().err.contains("left in the outbox: 2 delayed, 0 dead, 0 holding"), "{}", run.err);
    assert!(lines(&place.path("out.jsonl")).is_empty());
    let status = place.on(&["status", "--json"]);
    assert_eq!(status.good().json()["verdict"], "idle");
}

#[test]
fn migrate_prints_checks_and_migrates() {
    let place = Place::empty();
    let printed = place.on(&["migrate", "--print"]);
    assert!(printed.good().out.contains("create table"), "{}", printed.out);
    assert!(!place.path("app.db").exists());
    place.on(&["migrate", "--check"]).ends(1).says(&["postrider migrate"]);
    place.on(&["migrate", "--lanes", "4"]).good();
    place.on(&["migrate", "--check"]).good();
    place.on(&["migrate"]).good();
    assert_eq!(place.on(&["status", "--json"]).json()["lanes"]["total"], 4);
}

#[test]
fn status_says_idle_stuck_and_unknown_with_their_exit_codes() {
    let place = Place::migrated();
    let idle = place.on(&["status", "--admin", &nowhere()]);
    assert!(idle.good().out.contains("verdict: idle: nothing is due"), "{}", idle.out);
    place.enqueue("a", "k", "x");
    let stuck = place.on(&["status", "--admin", &nowhere()]);
    assert!(stuck.ends(1).out.contains("verdict: stuck: no relay is running\nnext: start one"), "{}", stuck.out);
    place.run(&["status", "--store", "sqlite:nowhere/app.db"]).ends(2).says(&[]);
}

#[test]
fn status_names_the_cause_while_the_broker_is_away_and_is_well_after_it_came_back() {
    let place = Place::migrated();
    let address = nowhere();
    for n in 0..5 {
        place.enqueue("a", &format!("k{n}"), "x");
    }
    let relay = place.relay(&format!("http://{address}/"), &["--relay-max-pause", "200ms"]);
    let stuck = until("a paused destination", || {
        let run = place.on(&["status", "--admin", &relay.admin]);
        (run.code == 1 && run.out.contains("has been paused")).then_some(run)
    });
    assert!(
        stuck.out.contains("destination default") && stuck.out.contains("next: bring the broker back"),
        "{}",
        stuck.out
    );
    let explained = place.on(&["dead", "list", "--json"]);
    assert_eq!(explained.good().json()["total"], 0, "an outage costs no message an attempt");
    drop(relay);
    place.drain("file:out.jsonl", &["--relay-lease", "1s"]).good();
    assert_eq!(lines(&place.path("out.jsonl")).len(), 5);
    place.on(&["status"]).good();
}

#[test]
fn sigterm_ends_gracefully_with_exit_code_0_and_repeats_nothing() {
    let place = Place::migrated();
    let mut relay = place.relay("file:out.jsonl", &[]);
    for n in 0..20 {
        place.enqueue("a", &format!("k{n}"), "x");
    }
    until("twenty lines", || (lines(&place.path("out.jsonl")).len() == 20).then_some(()));
    relay.terminate();
    assert_eq!(relay.ended(), 0, "{}", relay.log());
    assert!(relay.log().contains("delivered 20, retried 0, given up 0"), "{}", relay.log());
    place.drain("file:out.jsonl", &[]).good();
    assert_eq!(lines(&place.path("out.jsonl")).len(), 20);
}

#[test]
fn prune_counts_first_and_removes_the_history_then() {
    let place = Place::migrated();
    place.enqueue("a", "k", "x");
    place.drain("file:out.jsonl", &["--outbox-history", "7d"]).good();
    place.on(&["prune"]).ends(2).says(&["nothing has a retention"]);
    let counted = place.on(&["prune", "--delivered", "1ms", "--dry-run", "--json"]);
    assert_eq!(counted.good().json()["delivered"], 1);
    assert_eq!(place.on(&["prune", "--delivered", "1d", "--json"]).good().json()["delivered"], 0);
    assert_eq!(place.on(&["prune", "--delivered", "1ms", "--json"]).good().json()["delivered"], 1);
    assert_eq!(place.on(&["prune", "--delivered", "1ms", "--json"]).good().json()["delivered"], 0);
}

#[test]
fn check_looks_at_database_and_broker_and_fails_when_the_relay_could_not_work() {
    let place = Place::migrated();
    let run = place.on(&["check", "--broker", "file:out.jsonl", "--json"]);
    assert_eq!(run.good().json()["failed"], false);
    let run = place.on(&["check", "--broker", &format!("http://{}/", nowhere())]);
    assert!(run.ends(1).out.contains("FAILURE") && run.out.contains("next: "), "{}", run.out);
    let run = place.run(&["check", "--store", "sqlite:nowhere.db", "--json"]);
    assert_eq!(run.ends(1).json()["failed"], true);
    assert_eq!(run.json()["findings"][0]["level"], "failure");
}

#[test]
fn a_topic_without_a_route_is_named_in_the_log_with_its_cause() {
    let place = Place::migrated();
    place.write("postrider.toml", "[broker.out]\nurl = \"file:out.jsonl\"\n[[route]]\ntopics = \"orders.#\"\n");
    let id = place.enqueue("mail.sent", "k", "x");
    let fixed = ["relay", "--store", "sqlite:app.db", "--admin-listen", "127.0.0.1:0", "--log-format", "json"];
    let relay = place.start(&mut place.command(&fixed));
    let logged = until("its retry", || {
        let log = relay.log();
        log.lines().find(|line| line.contains("message will be tried again")).map(str::to_owned)
    });
    let says = |word: &str| assert!(logged.contains(word), "{word:?} is not in {logged}");
    ["WARN", id.as_str(), "config", "no route leads this topic", "add a [[route]]"].into_iter().for_each(says);
}

#[test]
fn until_empty_ends_with_1_when_nothing_is_left_but_a_topic_without_a_route() {
    let place = Place::migrated();
    place.write("postrider.toml", "[broker.out]\nurl = \"file:out.jsonl\"\n[[route]]\ntopics = \"orders.#\"\n");
    place.enqueue("mail.sent", "k", "x");
    place.enqueue("mail.sent", "k", "behind it");
    place.enqueue("orders.placed", "k2", "y");
    let run = place.on(&["relay", "--until-empty", "--admin-listen", "off", "--relay-patience", "300ms"]);
    run.ends(1).says(&["messages without a route", "no route leads this topic"]);
    assert!(run.err.contains("delivered 1, retried "), "{}", run.err);
    assert_eq!(place.on(&["status", "--json"]).json()["pending"]["value"], 2);
}
