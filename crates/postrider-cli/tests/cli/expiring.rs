//! Messages with an end, from the shell: written, seen, given up, dropped.

use crate::harness::{Place, nowhere, until};

/// A receiver that is not there.
fn nobody() -> String {
    format!("http://{}/", nowhere())
}

fn pending(place: &Place) -> u64 {
    place.on(&["status", "--json"]).json()["pending"]["value"].as_u64().unwrap()
}

fn given_up(place: &Place) -> u64 {
    place.on(&["dead", "list", "--reason", "expired", "--json"]).good().json()["total"].as_u64().unwrap()
}

#[test]
fn a_message_that_ends_during_an_outage_is_a_dead_letter_and_says_when_it_ends() {
    let place = Place::migrated();
    let written = place.on(&["enqueue", "prices", "--key", "k", "--payload", "1", "--expires-in", "1500ms"]);
    let id = written.good().out.trim().to_owned();
    let lasting = place.enqueue("prices", "k", "2");
    let told = place.on(&["explain", &id]);
    assert!(told.good().out.contains("expires: "), "{}", told.out);
    let relay = place.relay(&nobody(), &[]);
    until("a dead letter", || (given_up(&place) == 1).then_some(()));
    let metrics = relay.ask("/metrics", None).1;
    assert!(metrics.contains("postrider_dead_total{reason=\"expired\"} 1"), "{metrics}");
    let told = place.on(&["explain", &lasting]);
    assert!(told.good().out.contains("pending: waiting"), "what has no end waits: {}", told.out);
}

#[test]
fn a_maximum_age_with_drop_removes_what_is_too_old_and_counts_it() {
    let place = Place::migrated();
    let lines = "{\"topic\":\"a\",\"key\":\"k\",\"payload\":\"x\"}\n{\"topic\":\"b\",\"payload\":\"x\",\"retry\":{\"max_age_ms\":0}}";
    place.run_fed(lines.as_bytes(), &["enqueue", "--json-lines", "--store", "sqlite:app.db"]).good();
    let relay = place.relay(&nobody(), &["--retry-max-age", "1s", "--retry-on-expire", "drop"]);
    until("a dropped message", || relay.ask("/metrics", None).1.contains("postrider_dropped_total 1").then_some(()));
    assert_eq!(given_up(&place), 0);
    assert_eq!(pending(&place), 1, "the one that never ends");
}

#[test]
fn an_end_that_lies_behind_the_beginning_or_is_none_is_refused() {
    let place = Place::migrated();
    let enqueue = |more: &[&str]| place.on(&[&["enqueue", "t", "--payload", "x"], more].concat());
    enqueue(&["--expires-in", "1m", "--delay", "2m"]).ends(2).says(&["before it could be sent"]);
    enqueue(&["--expires-at", "2001-01-01T00:00:00Z"]).ends(2).says(&["before it could be sent"]);
    enqueue(&["--expires-at", "soon"]).ends(2).says(&["no moment", "--expires-at"]);
    enqueue(&["--expires-in", "soon"]).ends(2).says(&["no length of time", "--expires-in"]);
    place.run(&["config", "show", "--retry-max-age", "0s"]).ends(2).says(&["retry.max_age", "zero"]);
    place.run(&["config", "show", "--retry-on-expire", "burn"]).ends(2);
    assert_eq!(pending(&place), 0);
}
