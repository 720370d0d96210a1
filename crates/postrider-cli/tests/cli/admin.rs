//! The admin address of a running relay.

use crate::harness::{Place, lines, nowhere, until};

#[test]
fn metrics_liveness_readiness_and_status_are_served() {
    let place = Place::migrated();
    let relay = place.relay("file:out.jsonl", &["--relay-name", "one"]);
    until("readiness", || (relay.ask("/readyz", None) == (200, "relaying\n".to_owned())).then_some(()));
    assert_eq!(relay.ask("/livez", None).0, 200);
    place.enqueue("a", "k", "x");
    until("a line", || (lines(&place.path("out.jsonl")).len() == 1).then_some(()));
    let metrics = until("a count", || {
        let (code, text) = relay.ask("/metrics", None);
        (code == 200 && text.contains("postrider_delivered_total 1")).then_some(text)
    });
    assert!(metrics.contains("postrider_publish_seconds_bucket"), "{metrics}");
    let (code, body) = relay.ask("/status", None);
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["relay"], &status["state"]), (200, &"one".into(), &"relaying".into()), "{body}");
    assert_eq!(relay.ask("/nowhere", None).0, 404);
}

#[test]
fn readiness_does_not_depend_on_the_broker() {
    let place = Place::migrated();
    place.enqueue("a", "k", "x");
    let relay = place.relay(&format!("http://{}/", nowhere()), &[]);
    until("a paused destination", || relay.ask("/status", None).1.contains("\"cause\":\"").then_some(()));
    assert_eq!(relay.ask("/readyz", None).0, 200);
    assert_eq!(relay.ask("/livez", None).0, 200);
    let (_, metrics) = relay.ask("/metrics", None);
    assert!(metrics.contains("postrider_destination_paused{destination=\"default\"} 1"), "{metrics}");
}

#[test]
fn a_token_guards_what_tells_something() {
    let place = Place::migrated();
    place.write("token", "s3cret-canary\n");
    let relay = place.relay("file:out.jsonl", &["--admin-token-file", "token"]);
    until("readiness", || (relay.ask("/readyz", None).0 == 200).then_some(()));
    for path in ["/metrics", "/status"] {
        assert_eq!(relay.ask(path, None).0, 401, "{path}");
        assert_eq!(relay.ask(path, Some("Bearer wrong")).0, 401, "{path}");
        assert_eq!(relay.ask(path, Some("Bearer s3cret-canary")).0, 200, "{path}");
    }
    assert_eq!(relay.ask("/livez", None).0, 200);
    assert!(!relay.log().contains("canary"), "{}", relay.log());
    let without = place.on(&["status", "--admin", &relay.admin, "--json"]);
    assert!(without.json()["relay_not_asked"].as_str().unwrap().contains("token"), "{}", without.out);
    let with = place.run_with(
        &[("POSTRIDER_ADMIN__TOKEN", "s3cret-canary")],
        &["status", "--admin", &relay.admin, "--json", "--store", "sqlite:app.db"],
    );
    assert_eq!(with.json()["relay"]["state"], "relaying");
}

#[test]
fn a_daemon_waits_for_a_database_that_is_away_and_is_alive_but_not_ready() {
    let place = Place::empty();
    let mut command =
        place.command(&["relay", "--admin-listen", "127.0.0.1:0", "--broker", "stdout:", "--log-format", "json"]);
    let store = format!("postgres://app:s3cret-canary@{}/db?sslmode=disable", nowhere());
    let relay = place.start(command.args(["--store", &store]));
    until("a reason", || relay.ask("/status", None).1.contains("\"because\":\"").then_some(()));
    assert_eq!(relay.ask("/livez", None).0, 200);
    assert_eq!(relay.ask("/readyz", None), (503, "starting\n".to_owned()));
    assert!(!relay.log().contains("canary") && !relay.ask("/status", None).1.contains("canary"), "{}", relay.log());
    relay.terminate();
    let mut relay = relay;
    assert_eq!(relay.ended(), 0);
}

#[test]
fn an_address_that_is_taken_is_an_error_when_somebody_chose_it() {
    let place = Place::migrated();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place
        .on(&["relay", "--until-empty", "--broker", "stdout:", "--admin-listen", &address])
        .ends(2)
        .says(&["admin.listen", "--admin-listen"]);
}

#[test]
fn a_caller_that_sends_nothing_does_not_keep_others_out() {
    let place = Place::migrated();
    let relay = place.relay("file:out.jsonl", &[]);
    let _slow: Vec<_> = (0..10).map(|_| std::net::TcpStream::connect(&relay.admin).unwrap()).collect();
    assert_eq!(relay.ask("/livez", None).0, 200);
}
