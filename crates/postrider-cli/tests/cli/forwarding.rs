//! A message that is given up is forwarded.

use postrider_testkit::servers::http_receiver::{Answer, HttpReceiver};

use crate::harness::{Place, lines, nowhere, until};

const REFUSED: &str = "[retry]\nmax_attempts = 1\ninitial = \"100ms\"\nmaximum = \"200ms\"\non_dead = \"forward\"\n";

async fn picky() -> HttpReceiver {
    let receiver = HttpReceiver::start().await.unwrap();
    receiver
        .script(|request, _| if request.body.starts_with(b"good") { Answer::Status(204) } else { Answer::Status(422) });
    receiver
}

fn configure(place: &Place, receiver: &HttpReceiver, dead: &str) {
    let text = format!(
        "{REFUSED}\n[broker.out]\nurl = \"{}\"\n\n[broker.letters]\nurl = \"{dead}\"\n\n[[route]]\nbroker = \"out\"\n\n\
         [forward]\nbroker = \"letters\"\n",
        receiver.url()
    );
    place.write("postrider.toml", text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_published_with_its_reason_and_kept() {
    let (place, receiver) = (Place::migrated(), picky().await);
    configure(&place, &receiver, "file:dead.jsonl");
    let id = place.enqueue("orders.placed", "k", "bad");
    place.enqueue("orders.placed", "k", "good");
    place.on(&["relay", "--until-empty", "--admin-listen", "off"]).good();
    let letters = lines(&place.path("dead.jsonl"));
    assert_eq!(letters.len(), 1, "{letters:?}");
    let (letter, headers) = (&letters[0], &letters[0]["headers"]);
    assert_eq!(
        (letter["id"].as_str(), letter["destination"].as_str()),
        (Some(id.as_str()), Some("dead.orders.placed"))
    );
    assert_eq!((&letter["payload"], &headers["postrider-topic"]), (&"bad".into(), &"orders.placed".into()));
    assert_eq!(headers["postrider-dead-reason"], "attempts");
    assert_eq!(headers["postrider-dead-attempts"], "1");
    assert!(headers["postrider-dead-error"].as_str().unwrap().contains("422"), "{headers}");
    assert_eq!(place.on(&["dead", "list", "--json"]).good().json()["total"], 1);
    receiver.script(|_, _| Answer::Status(204));
    place.on(&["dead", "replay", "--id", &id]).good();
    place.on(&["relay", "--until-empty", "--admin-listen", "off"]).good();
    assert_eq!(receiver.requests().last().unwrap().body, "bad", "a replay goes where it was owed");
    assert_eq!(lines(&place.path("dead.jsonl")).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_dead_letters_go_nowhere_nothing_is_lost_and_nothing_else_waits() {
    let (place, receiver) = (Place::migrated(), picky().await);
    configure(&place, &receiver, &format!("http://{}", nowhere()));
    let id = place.enqueue("orders.placed", "k", "bad");
    place.enqueue("orders.placed", "k", "good one");
    let mut command = place.command(&["relay", "--store", "sqlite:app.db", "--admin-listen", "127.0.0.1:0"]);
    let relay = place.start(command.args(["--log-format", "json"]));
    until("its key goes on", || receiver.requests().iter().any(|request| request.body == "good one").then_some(()));
    place.enqueue("orders.placed", "other", "good two");
    until("other keys go on", || receiver.requests().iter().any(|request| request.body == "good two").then_some(()));
    let told = until("it is forwarding", || {
        let told = place.on(&["explain", &id]).out;
        assert!(!told.contains("dead: given up"), "nobody takes its letter, nor refuses it: {told}");
        told.contains("forwarding: given up for attempts").then_some(told)
    });
    assert!(told.contains("owed to: dead-letters"), "{told}");
    drop(relay);
    // As where a row of its key had been set aside for the same pause before.
    let outbox = rusqlite::Connection::open(place.path("app.db")).unwrap();
    outbox.execute("update postrider_outbox set state = 2, next_attempt_at = null", []).unwrap();
    drop(outbox);
    let told = place.on(&["explain", &id]).out;
    assert!(told.contains("forwarding: given up for attempts"), "{told}");
    configure(&place, &receiver, "file:dead.jsonl");
    place.on(&["relay", "--until-empty", "--admin-listen", "off"]).good();
    let letter = &lines(&place.path("dead.jsonl"))[0];
    assert_eq!((letter["id"].as_str(), &letter["headers"]["postrider-dead-reason"]), (Some(&*id), &"attempts".into()));
    assert_eq!(place.on(&["dead", "list", "--json"]).good().json()["total"], 1);
}
