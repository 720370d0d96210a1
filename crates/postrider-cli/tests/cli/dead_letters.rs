//! `explain` of every standing, and the dead letters: list, show, replay, discard.

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};

use crate::harness::{Place, Run, lines};

/// The broker options that make a rejected message dead at once.
const AT_ONCE: [&str; 2] = ["--retry-max-attempts", "1"];

/// A receiver that accepts what says `good` and rejects the rest.
async fn picky() -> HttpReceiver {
    let receiver = HttpReceiver::start().await.unwrap();
    receiver
        .script(|request, _| if request.body.starts_with(b"good") { Answer::Status(204) } else { Answer::Status(422) });
    receiver
}

/// An outbox with so many dead letters of `topic`, and their ids.
async fn with_dead(count: usize) -> (Place, HttpReceiver, Vec<String>) {
    let (place, receiver) = (Place::migrated(), picky().await);
    let bad = |n| format!("{{\"topic\":\"orders.placed\",\"key\":\"k{n}\",\"payload\":\"bad\"}}\n");
    // Others that are accepted between them show that the destination is well.
    let good = |n| format!("{{\"topic\":\"orders.paid\",\"key\":\"g{n}\",\"payload\":\"good\"}}\n");
    let lines: String = (0..count).map(|n| bad(n) + &good(n)).collect();
    let run = place.run_fed(lines.as_bytes(), &["enqueue", "--json-lines", "--store", "sqlite:app.db"]);
    let ids = run.good().out.lines().step_by(2).map(str::to_owned).collect();
    place.drain(&receiver.url(), &AT_ONCE).good();
    (place, receiver, ids)
}

fn total(run: &Run) -> u64 {
    run.good().json()["total"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_tells_a_delivered_a_waiting_a_retrying_and_a_dead_message_apart() {
    let (place, receiver) = (Place::migrated(), picky().await);
    let history = ["--outbox-history", "7d"];
    let delivered = place.enqueue("a", "delivered", "good");
    place.drain(&receiver.url(), &history).good();
    let dead = place.enqueue("a", "dead", "bad");
    place.drain(&receiver.url(), &[&AT_ONCE[..], &history].concat()).good();
    let retrying = place.enqueue("a", "retrying", "bad");
    let behind = place.enqueue("a", "retrying", "good");
    let relay = place.relay(&receiver.url(), &["--retry-initial", "5m"]);
    crate::harness::until("a retrying message", || {
        let run = place.on(&["explain", &retrying, "--json"]);
        (run.json()["found"][0]["state"] == "retrying").then_some(())
    });
    drop(relay);
    let waiting = place.enqueue("a", "waiting", "good");
    place.write("postrider.toml", "[outbox]\nhistory = \"7d\"\n");
    for (id, words) in [
        (&delivered, &["delivered: settled"][..]),
        (&dead, &["dead: given up", "attempts after 1 attempt, ", "422", "postrider dead replay --id"]),
        (&retrying, &["retrying: 1 charged attempt, the next in ", "last failure: default:", "422"]),
        (&waiting, &["pending: waiting to be delivered", "next: "]),
    ] {
        let run = place.on(&["explain", id]);
        run.good();
        for word in words {
            assert!(run.out.contains(word), "{word:?} is not in {}", run.out);
        }
        assert!(run.err.contains("ended after 10s"), "{}", run.err);
    }
    let run = place.on(&["explain", "retrying", "--json"]);
    let found = run.good().json()["found"].clone();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    let second = found.as_array().unwrap().iter().find(|one| one["id"] == behind.as_str()).unwrap();
    assert_eq!(second["behind"], retrying.as_str(), "{found}");
    place.on(&["explain", "nobody"]).ends(1).says(&["no message of key"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_in_groups_filtered_and_shown() {
    let (place, _receiver, ids) = with_dead(3).await;
    let run = place.on(&["dead", "list", "--json"]);
    assert_eq!(total(&run), 3);
    assert_eq!(run.json()["groups"][0]["topic"], "orders.placed");
    assert_eq!(run.json()["groups"][0]["reason"], "attempts");
    for (filter, count) in [
        (&["--topic", "orders.placed"][..], 3),
        (&["--topic", "orders.paid"], 0),
        (&["--key", "k1"], 1),
        (&["--reason", "expired"], 0),
        (&["--older-than", "1h"], 0),
        (&["--id", &ids[0], "--id", &ids[2]], 2),
        (&[&ids[0], "--id", &ids[2]], 2),
        (&[&ids[0], &ids[1], "--key", "k1"], 1),
    ] {
        assert_eq!(total(&place.on(&[&["dead", "list", "--json"], filter].concat())), count, "{filter:?}");
    }
    let text = place.on(&["dead", "list"]);
    assert!(text.good().out.contains(&ids[1]) && text.out.contains("422"), "{}", text.out);
    let shown = place.on(&["dead", "show", &ids[1], "--json"]);
    assert_eq!(shown.good().json()["payload"], "bad");
    assert_eq!(shown.json()["errors"].as_array().unwrap().len(), 1);
    assert!(place.on(&["dead", "show", &ids[1]]).good().out.contains("rejected"));
    place.on(&["dead", "list", "--reason", "atempts"]).ends(2).says(&["did you mean attempts?"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_replay_is_counted_confirmed_and_keeps_the_ids() {
    let (place, _receiver, mut ids) = with_dead(5).await;
    let run = place.on(&["dead", "replay", "--topic", "orders.placed"]);
    run.ends(3).says(&["5 dead letters match and nothing was changed", "--yes"]);
    let run = place.on(&["dead", "replay", "--dry-run"]);
    assert!(run.good().out.contains("5 would be replayed"), "{}", run.out);
    assert_eq!(total(&place.on(&["dead", "list", "--json"])), 5);
    let run = place.on(&["dead", "replay", "--yes", "--rate", "50", "--json"]);
    assert_eq!(run.good().json()["replayed"], 5);
    assert_eq!(place.on(&["dead", "replay", "--yes", "--json"]).ends(1).json()["replayed"], 0);
    place.drain("file:out.jsonl", &[]).good();
    let mut arrived: Vec<String> =
        lines(&place.path("out.jsonl")).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    arrived.sort();
    ids.sort();
    assert_eq!(arrived, ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_is_replayed_or_discarded_without_confirmation() {
    let (place, _receiver, ids) = with_dead(2).await;
    place.on(&["dead", "discard", "--id", &ids[0]]).good();
    place.on(&["dead", "discard", "--id", &ids[0]]).ends(1).says(&["no dead letter matches"]);
    place.on(&["dead", "replay", "k1"]).ends(2).says(&["[ID]", "k1"]);
    place.on(&["dead", "replay", &ids[1]]).good();
    assert_eq!(total(&place.on(&["dead", "list", "--json"])), 0);
    let status = place.on(&["status", "--json"]).json();
    assert_eq!(status["pending"]["value"], 1);
}

#[test]
fn a_change_that_matches_nothing_ends_with_1() {
    let place = Place::migrated();
    for verb in ["replay", "discard"] {
        for filter in [&["--key", "k"][..], &["--key", "k", "--yes"], &["--topic", "a", "--dry-run"]] {
            let asked = [&["dead", verb], filter].concat();
            place.on(&asked).ends(1).says(&["no dead letter matches", "next: `postrider dead list`"]);
            assert_eq!(place.on(&[&asked[..], &["--json"]].concat()).ends(1).json()["matching"], 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_is_kept() {
    let (place, _receiver, _) = with_dead(6).await;
    let start = std::time::Instant::now();
    place.on(&["dead", "replay", "--yes", "--rate", "4"]).good();
    // Six at four a second, the first share at once: not before one second.
    assert!(start.elapsed() >= std::time::Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replays_at_once_replay_each_message_once() {
    let (place, _receiver, ids) = with_dead(40).await;
    let arguments = ["dead", "replay", "--yes", "--rate", "100", "--json", "--store", "sqlite:app.db"];
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| place.run(&arguments));
        let second = scope.spawn(|| place.run(&arguments));
        (first.join().unwrap(), second.join().unwrap())
    });
    let ids_of = |run: &Run| run.json()["ids"].as_array().unwrap().clone();
    let mut replayed = [ids_of(&first), ids_of(&second)].concat();
    assert_eq!(replayed.len(), ids.len());
    replayed.sort_by_key(ToString::to_string);
    replayed.dedup();
    assert_eq!(replayed.len(), ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_dies_again_during_a_replay_is_not_replayed_twice() {
    let (place, receiver, mut ids) = with_dead(10).await;
    let relay = place.relay(&receiver.url(), &AT_ONCE);
    crate::harness::until("readiness", || (relay.ask("/readyz", None).1 == "relaying\n").then_some(()));
    let run = place.on(&["dead", "replay", "--yes", "--rate", "10", "--json"]);
    let mut replayed: Vec<String> =
        run.good().json()["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    replayed.sort();
    ids.sort();
    assert_eq!(replayed, ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_names_the_failure_of_what_is_being_retried() {
    let (place, receiver) = (Place::migrated(), picky().await);
    place.enqueue("a", "bad", "bad");
    place.enqueue("a", "good", "good");
    let relay = place.relay(&receiver.url(), &["--retry-initial", "5m"]);
    crate::harness::until("a retry", || relay.ask("/status", None).1.contains("\"retried\":1").then_some(()));
    let run = place.on(&["status", "--admin", &relay.admin]);
    assert!(run.good().out.contains("verdict: moving: 1 message is being retried: default:"), "{}", run.out);
    assert!(run.out.contains("422"), "{}", run.out);
}
