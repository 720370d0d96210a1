//! Bad input, and what it gets: one test per clause that the command line meets. Each is one line that says what and
//! one that says what to do, or a dead letter, and nothing lost.

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};

use crate::harness::{Place, lines, nowhere, until};

/// Waits no longer than it must for a destination that stays away.
const IMPATIENT: [&str; 4] = ["--relay-patience", "300ms", "--relay-max-pause", "100ms"];

#[test]
fn an_unreachable_database() {
    let place = Place::empty();
    let store = format!("postgres://app:canary@{}/db?sslmode=disable", nowhere());
    for verb in [
        &["status"][..],
        &["enqueue", "a", "--payload", "x"],
        &["relay", "--until-empty", "--broker", "stdout:", "--admin-listen", "off"],
        &["dead", "list"],
        &["migrate"],
        &["explain", "k"],
        &["prune", "--dead", "1d"],
    ] {
        place.run(&[verb, &["--store", &store]].concat()).ends(2).says(&[]).hides("canary");
    }
    let status = place.run(&["status", "--json", "--store", &store]);
    let answer = status.ends(2).says(&[]).hides("canary").json();
    assert_eq!(answer["verdict"], "unknown");
    for what in ["cause", "next"] {
        assert!(status.err.contains(answer[what].as_str().unwrap()), "{what}: {answer}");
    }
}

#[test]
fn a_mistyped_command_names_the_nearest_and_whose_help_to_read() {
    let place = Place::empty();
    place.run(&["relya"]).ends(2).says(&["similar subcommand exists: 'relay'", "next: postrider --help"]);
    place
        .run(&["dead", "replay", "--topik", "k"])
        .ends(2)
        .says(&["exists: '--topic'", "next: postrider dead replay --help"]);
    place.run(&["explain"]).ends(2).says(&["required arguments", "next: postrider explain --help"]);
    place.run(&["--help"]).good();
    place.run(&["--version"]).good();
    assert!(place.run(&["status", "--help"]).good().out.contains("Usage: postrider status"));
}

#[test]
fn no_database_named_at_all() {
    Place::empty().run(&["status"]).ends(2).says(&["no outbox is named", "--store URL"]);
}

#[test]
fn an_address_of_no_known_kind() {
    let place = Place::migrated();
    place.run(&["status", "--store", "mongodb://u:canary@db/x"]).ends(2).says(&["mongodb"]).hides("canary");
    place
        .on(&["relay", "--until-empty", "--broker", "natz://u:canary@x"])
        .ends(2)
        .says(&["did you mean nats:"])
        .hides("canary");
    let not_yet = "next: it is not supported yet; README, \"Not there yet\", says what to use until then";
    for broker in ["mqtt://u:canary@x", "amqp://u:canary@x"] {
        let run = place.on(&["relay", "--until-empty", "--broker", broker]);
        run.ends(2).says(&["known schemes", "nats", not_yet]).hides("canary");
    }
    place.on(&["relay", "--until-empty"]).ends(2).says(&["no broker is named"]);
}

#[test]
fn an_address_of_a_kind_that_is_not_built_in_says_which_feature_it_needs() {
    let place = Place::migrated();
    let next = "next: build it with that feature, or name another address; `postrider --version --verbose`";
    // A build with one of them says what is wrong with the address.
    if cfg!(not(feature = "mysql")) {
        for store in ["mysql://u:canary@db/x", "mariadb://u:canary@db/x"] {
            let run = place.run(&["status", "--store", store]);
            run.ends(2).says(&["feature \"mysql\"", "--features mysql", next]).hides("canary");
        }
    }
    if cfg!(not(feature = "kafka")) {
        for broker in ["kafka://u:canary@x", "kafka+ssl://u:canary@x"] {
            let run = place.on(&["relay", "--until-empty", "--broker", broker]);
            run.ends(2).says(&["feature \"kafka\"", "--features kafka", next]).hides("canary");
        }
    }
}

#[test]
fn a_database_without_tables() {
    let place = Place::empty();
    place.on(&["status"]).ends(2).says(&["postrider migrate"]);
    place.on(&["relay", "--broker", "stdout:", "--admin-listen", "off"]).ends(2).says(&["postrider migrate"]);
    assert!(!place.path("app.db").exists(), "a wrong address makes no file");
}

#[test]
fn a_file_that_is_no_database() {
    let place = Place::empty();
    place.write(
        "app.db",
        "this is a text, and a long one, so that nobody takes it for an empty database file. ".repeat(20),
    );
    place.on(&["status"]).ends(2).says(&[]);
    place.on(&["migrate"]).ends(2).says(&[]);
    assert!(place.read("app.db").starts_with("this is a text"));
}

#[test]
fn a_database_file_that_cannot_be_written() {
    let place = Place::empty();
    place.run(&["migrate", "--store", "sqlite:no-such-folder/app.db"]).ends(2).says(&[
        "cannot create no-such-folder/app.db: its folder does not exist, or you may not write to it",
        "next: make the folder",
    ]);
    std::fs::create_dir(place.path("folder.db")).unwrap();
    place.run(&["migrate", "--store", "sqlite:folder.db"]).ends(2).says(&["folder.db"]);
}

#[test]
fn a_broker_that_is_down_at_the_start_and_stays_down() {
    let place = Place::migrated();
    place.enqueue("a", "k", "x");
    let run = place.drain(&format!("http://{}/", nowhere()), &IMPATIENT);
    run.ends(1).says(&["destination default stays paused"]);
    let status = place.on(&["status", "--json"]).json();
    assert_eq!((&status["pending"]["value"], &status["dead"]["value"]), (&1.into(), &0.into()));
    place.drain("file:out.jsonl", &[]).good();
    assert_eq!(lines(&place.path("out.jsonl")).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_goes_down_during_the_run_and_comes_back() {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    let relay = place.relay(&receiver.url(), &["--relay-max-pause", "200ms"]);
    place.enqueue("a", "k", "1");
    until("the first message", || (receiver.requests().len() == 1).then_some(()));
    receiver.stop().await;
    place.enqueue("a", "k", "2");
    until("a pause", || relay.ask("/status", None).1.contains("\"cause\":\"").then_some(()));
    receiver.restart().await.unwrap();
    until("the second message", || {
        let bodies: Vec<_> = receiver.requests().iter().map(|request| request.body.clone()).collect();
        bodies.iter().any(|body| body.as_ref() == b"2").then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_404_410_500_or_redirects_pauses_and_kills_nothing() {
    let receiver = HttpReceiver::start().await.unwrap();
    for code in [301, 404, 410, 500] {
        receiver.script(move |_, _| Answer::Status(code));
        let place = Place::migrated();
        place.enqueue("a", "k", "x");
        let run = place.drain(&receiver.url(), &IMPATIENT);
        run.ends(1).says(&["stays paused", &code.to_string()]);
        assert_eq!(place.on(&["dead", "list", "--json"]).json()["total"], 0, "{code}");
        assert_eq!(place.on(&["status", "--json"]).json()["pending"]["value"], 1, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_400_makes_a_dead_letter_of_that_message_alone() {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    receiver.script(|request, _| Answer::Status(if request.body.as_ref() == b"bad" { 400 } else { 204 }));
    place.enqueue("a", "k1", "bad");
    place.enqueue("a", "k2", "good");
    let run = place.drain(&receiver.url(), &["--retry-max-attempts", "2", "--retry-initial", "10ms"]);
    assert!(
        run.good().err.contains("delivered 1, retried 1, given up 1; left in the outbox: 0 delayed, 1 dead"),
        "{}",
        run.err
    );
    let status = place.on(&["status"]);
    assert!(
        status.good().out.contains("verdict: idle: nothing is due, 1 dead\nnext: `postrider dead list`"),
        "{}",
        status.out
    );
}

/// Every verb that goes by the number of lanes refuses one that the tables do not have; without the setting, or with the
/// right one, they decide.
pub fn lanes_that_contradict_the_tables(place: &Place, store: &str) {
    let on = |lanes: &str, verb: &[&str]| {
        let setting = [("POSTRIDER_OUTBOX__LANES", lanes), ("POSTRIDER_OUTBOX__STORE", store)];
        place.run_with(if lanes.is_empty() { &setting[1..] } else { &setting }, verb)
    };
    on("4", &["migrate"]).good();
    let relay = ["relay", "--until-empty", "--broker", "file:out.jsonl", "--admin-listen", "off"];
    let daemon = ["relay", "--broker", "file:out.jsonl", "--admin-listen", "off"];
    let check = ["check", "--broker", "file:out.jsonl", "--json"];
    let words = ["has 4 lanes and 9 were asked for", "next: set outbox.lanes to 4 or remove the setting"];
    for verb in [&relay[..], &daemon, &["migrate", "--check"], &["migrate"]] {
        on("9", verb).ends(2).says(&words);
    }
    let findings = on("9", &check).ends(1).json();
    let failed: Vec<_> =
        findings["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "failure").collect();
    assert_eq!((failed.len(), &failed[0]["subject"]), (1, &"lanes".into()), "{findings}");
    assert!(failed[0]["advice"].as_str().unwrap().contains("set outbox.lanes to 4"), "{findings}");
    for lanes in ["4", ""] {
        for verb in [&relay[..], &["migrate", "--check"], &["migrate"], &check] {
            on(lanes, verb).good();
        }
    }
}

#[test]
fn a_setting_of_lanes_that_contradicts_the_tables_is_refused_on_sqlite() {
    lanes_that_contradict_the_tables(&Place::empty(), "sqlite:app.db");
}

#[test]
fn a_payload_one_byte_over_the_limit() {
    let place = Place::migrated();
    place.write("payload", vec![b'x'; postrider_core::MAX_PAYLOAD + 1]);
    place.on(&["enqueue", "a", "--payload-file", "payload"]).ends(2).says(&["payload is", "nothing was written"]);
    assert_eq!(place.on(&["status", "--json"]).json()["pending"]["value"], 0);
}

#[test]
fn a_row_over_the_windows_byte_limit_travels_alone() {
    let place = Place::migrated();
    for n in 0..3 {
        place.enqueue("a", &format!("k{n}"), &"x".repeat(10_000));
    }
    place.drain("file:out.jsonl", &["--relay-window-bytes", "1KiB"]).good();
    assert_eq!(lines(&place.path("out.jsonl")).len(), 3);
}

#[test]
fn nul_cr_lf_and_invalid_utf8_in_keys_and_headers() {
    let place = Place::migrated();
    for arguments in [
        &["--key", "a\nb"][..],
        &["--key", "a\rb"],
        &["--key", ""],
        &["--header", "a=b\r\nc: d"],
        &["--header", "a b=c"],
        &["--header", "postrider-id=x"],
        &["--header", "novalue"],
        &["--header", "a=1", "--header", "a=2"],
        &["--content-type", "nonsense"],
    ] {
        place.on(&[&["enqueue", "a", "--payload", "x"], arguments].concat()).ends(2).says(&[]);
    }
    place.on(&["enqueue", "a", "--payload", "x", "--key", ""]).ends(2).says(&["1 to 512 bytes"]);
    let colon = ["enqueue", "a", "--payload", "x", "--header", "postrider-id: 3"];
    place.on(&colon).ends(2).says(&["next: write NAME=VALUE, with ="]);
    for line in [
        &b"{\"topic\":\"a\",\"key\":\"a\\u0000b\"}"[..],
        b"{\"topic\":\"a\",\"headers\":{\"h\":\"\\u0000\"}}",
        b"{\"topic\":\"a\",\"key\":\"\xff\"}",
    ] {
        place.run_fed(line, &["enqueue", "--json-lines", "--store", "sqlite:app.db"]).ends(2).says(&["line 1"]);
    }
    assert_eq!(place.on(&["status", "--json"]).json()["pending"]["value"], 0);
}

#[test]
fn a_topic_an_id_or_a_moment_that_is_none() {
    let place = Place::migrated();
    place.on(&["enqueue", "not a topic", "--payload", "x"]).ends(2).says(&["topic"]);
    place.on(&["enqueue", "a", "--payload", "x", "--deliver-at", "tomorrow"]).ends(2).says(&["2030-01-31T12:00:00Z"]);
    place.on(&["enqueue", "a", "--payload", "x", "--delay", "soon"]).ends(2).says(&["--delay 90s"]);
    place.on(&["enqueue", "a", "--payload", "x", "--id", "7"]).ends(2);
}

#[test]
fn two_relays_started_with_the_same_name() {
    let place = Place::migrated();
    let first = place.relay("file:out.jsonl", &["--relay-name", "twin"]);
    until("readiness", || (first.ask("/readyz", None).1 == "relaying\n").then_some(()));
    let second = place.relay("file:other.jsonl", &["--relay-name", "twin"]);
    until("another one", || (second.ask("/readyz", None).1 == "relaying\n").then_some(()));
    let shares = || -> Vec<(String, usize)> {
        let status = place.on(&["status", "--json", "--admin", &first.admin]).json();
        let share = |member: &serde_json::Value| {
            (member["id"].as_str().unwrap().to_owned(), member["lanes"].as_array().unwrap().len())
        };
        status["members"].as_array().unwrap().iter().map(share).collect()
    };
    let even = until("even shares", || Some(shares()).filter(|all| all.len() == 2 && all[0].1 == all[1].1));
    assert_ne!(even[0].0, even[1].0);
    let shown = place.on(&["status", "--admin", &first.admin]).out;
    assert!(even.iter().all(|(id, _)| shown.lines().any(|line| line.contains("twin") && line.contains(id))), "{shown}");
    for n in 0..20 {
        place.enqueue("a", &format!("k{n}"), "x");
    }
    let delivered = |name: &str| lines(&place.path(name)).len();
    until("the messages", || (delivered("out.jsonl") + delivered("other.jsonl") == 20).then_some(()));
    assert!(delivered("out.jsonl") > 0 && delivered("other.jsonl") > 0, "each relays its share");
}

#[test]
fn a_relay_that_is_killed_loses_nothing() {
    let place = Place::migrated();
    for n in 0..50 {
        place.enqueue("a", &format!("k{}", n % 5), &n.to_string());
    }
    for _ in 0..3 {
        let relay = place.relay("file:out.jsonl", &["--relay-lease", "500ms"]);
        until("some lines or an end", || (!lines(&place.path("out.jsonl")).is_empty()).then_some(()));
        drop(relay);
    }
    place.drain("file:out.jsonl", &["--relay-lease", "500ms"]).good();
    let mut payloads: Vec<String> =
        lines(&place.path("out.jsonl")).iter().map(|line| line["payload"].as_str().unwrap().to_owned()).collect();
    payloads.sort();
    payloads.dedup();
    assert_eq!(payloads.len(), 50);
}
