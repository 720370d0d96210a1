//! A message that is given up holds its key: what every verb says of it, and what opens it.

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};

use crate::harness::Place;

const HOLD: [&str; 4] = ["--retry-max-attempts", "1", "--retry-on-dead", "hold"];

/// An outbox in which the key `k` is held with two messages behind it, drained to a receiver that refuses what says
/// `bad`; and the id of the message that holds it.
async fn held() -> (Place, HttpReceiver, String) {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    receiver.script(|request, _| match request.body.starts_with(b"bad") {
        true => Answer::Status(422),
        false => Answer::Status(204),
    });
    let head = place.enqueue("orders.placed", "k", "bad");
    place.enqueue("orders.placed", "k", "first");
    place.enqueue("orders.placed", "k", "second");
    place.enqueue("orders.placed", "other", "free");
    let run = place.drain(&receiver.url(), &HOLD);
    assert!(run.good().err.contains("1 dead, 1 holding (2 wait behind them)"), "{}", run.err);
    (place, receiver, head)
}

fn accepted(receiver: &HttpReceiver) -> Vec<String> {
    let taken = receiver.requests().into_iter().filter(|request| !request.body.starts_with(b"bad"));
    taken.map(|request| String::from_utf8(request.body.to_vec()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_key_is_named_with_what_waits_and_what_to_do() {
    let (place, receiver, head) = held().await;
    assert_eq!(accepted(&receiver), ["free"], "other keys go on");
    let status = place.on(&["status", "--json"]);
    let told = status.ends(1).json();
    assert_eq!([&told["holding"]["value"], &told["held_back"]["value"]], [1, 2]);
    assert_eq!((told["held"][0]["key"].as_str(), told["held"][0]["by"].as_str()), (Some("k"), Some(head.as_str())));
    let text = place.on(&["status"]).ends(1).out.clone();
    for words in ["held     key k: 2 wait behind", "verdict: stuck: the key k is held", "postrider dead replay --key k"]
    {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let told = place.on(&["explain", "k"]);
    for words in ["holding: given up", "its key waits until an operator", "was given up and holds what comes after it"]
    {
        assert!(told.good().out.contains(words), "{words:?} is not in {}", told.out);
    }
    assert_eq!(place.on(&["dead", "list", "--holding", "--json"]).good().json()["total"], 1);
    let again = place.drain(&receiver.url(), &HOLD);
    assert!(again.good().err.contains("1 holding (2 wait behind them)"), "{}", again.err);
    assert_eq!(accepted(&receiver), ["free"], "a relay that starts anew lets nothing pass");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_the_key_delivers_it_in_order() {
    let (place, receiver, head) = held().await;
    receiver.script(|_, _| Answer::Status(204));
    let replayed = place.on(&["dead", "replay", "--key", "k", "--yes", "--json"]);
    assert_eq!(replayed.good().json()["ids"], serde_json::json!([head]));
    let before = receiver.requests().len();
    place.drain(&receiver.url(), &HOLD).good();
    let bodies: Vec<_> = receiver.requests()[before..].iter().map(|request| request.body.clone()).collect();
    assert_eq!(bodies, ["bad", "first", "second"]);
    place.on(&["status"]).ends(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_opens_the_key() {
    let (place, receiver, head) = held().await;
    place.on(&["dead", "discard", "--id", &head]).good();
    place.drain(&receiver.url(), &HOLD).good();
    assert_eq!(accepted(&receiver), ["free", "first", "second"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_of_the_key_drops_what_was_given_up_and_nothing_that_waits() {
    let (place, receiver, head) = held().await;
    let discarded = place.on(&["dead", "discard", "--key", "k", "--yes", "--json"]);
    assert_eq!(discarded.good().json()["ids"], serde_json::json!([head]));
    place.drain(&receiver.url(), &HOLD).good();
    assert_eq!(accepted(&receiver), ["free", "first", "second"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_to_a_key_is_configured_per_topic() {
    let (place, receiver) = (Place::migrated(), HttpReceiver::start().await.unwrap());
    receiver.script(|request, _| match request.body.starts_with(b"bad") {
        true => Answer::Status(422),
        false => Answer::Status(204),
    });
    place.write(
        "postrider.toml",
        "[retry]\nmax_attempts = 1\n\n[[retry.topic]]\npattern = \"money.#\"\non_dead = \"hold\"\n",
    );
    for topic in ["money.paid", "news.read"] {
        place.enqueue(topic, topic, "bad");
        place.enqueue(topic, topic, topic);
    }
    place.drain(&receiver.url(), &[]).good();
    assert_eq!(accepted(&receiver), ["news.read"]);
    let refused = place.drain(&receiver.url(), &["--retry-on-dead", "park"]);
    refused.ends(2).says(&["one of skip, hold"]);
}
