//! What a receiver remembers and refused: shown, discarded, and forgotten by a relay.

use std::time::Duration;

use postrider::{Inbox, Message, MessageId, Seen};
use rusqlite::Connection;

use crate::harness::{Place, until};

/// The application's connection.
fn application(place: &Place) -> Connection {
    let connection = Connection::open(place.path("app.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

/// An inbox in which a consumer handled two messages, and two consumers refused three; the ids of these.
fn received() -> (Place, Vec<String>) {
    let place = Place::migrated();
    let (mut connection, inbox) = (application(&place), Inbox::new());
    let tx = connection.transaction().unwrap();
    for _ in 0..2 {
        assert_eq!(inbox.first_seen(&tx, "billing", MessageId::fresh()).unwrap(), Seen::First);
    }
    let messages = ["a", "b", "c"].map(|key| Message::new("orders.placed", format!("order {key}")).key(key));
    let ids = messages.iter().map(|message| message.id.to_string()).collect();
    for (consumer, message) in ["billing", "billing", "mail"].into_iter().zip(messages) {
        inbox.refuse(&tx, consumer, message, "older than what is remembered").unwrap();
    }
    tx.commit().unwrap();
    (place, ids)
}

#[test]
fn each_consumer_is_shown_with_what_it_remembers_and_refused() {
    let (place, _) = received();
    let shown = place.on(&["inbox", "--json"]).good().json();
    assert_eq!((&shown["since"], &shown["keep_seconds"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    let consumers = shown["consumers"].as_array().unwrap();
    let seen = consumers.iter().map(|one| (&one["consumer"], &one["remembered"]["value"], &one["refused"]));
    let expected = [("billing", 2, 2), ("mail", 0, 1)].map(|(name, handled, refused)| {
        (serde_json::json!(name), serde_json::json!(handled), serde_json::json!(refused))
    });
    assert!(seen.eq(expected.iter().map(|(name, handled, refused)| (name, handled, refused))), "{shown}");
    assert_eq!(consumers[0]["remembered"]["exact"], true);
    let text = place.on(&["inbox"]);
    for word in ["everything that was handled", "inbox.keep is not set", "billing", "postrider inbox list"] {
        assert!(text.good().out.contains(word), "{word:?} is not in {}", text.out);
    }
    let none = Place::migrated().on(&["inbox"]);
    assert!(none.good().out.contains("no consumer has handled"), "{}", none.out);
}

#[test]
fn refused_messages_are_listed_filtered_and_shown() {
    let (place, ids) = received();
    for (filter, count) in [
        (&[][..], 3),
        (&["--consumer", "billing"], 2),
        (&["--topic", "orders.paid"], 0),
        (&["--older-than", "1h"], 0),
        (&["--id", &ids[0], "--id", &ids[2]], 2),
        (&["--id", &ids[0], "--consumer", "mail"], 0),
    ] {
        let run = place.on(&[&["inbox", "list", "--json"], filter].concat());
        assert_eq!(run.good().json()["total"], count, "{filter:?}");
    }
    let text = place.on(&["inbox", "list", "--limit", "1"]);
    for word in ["older than what is remembered", &ids[0], "1 of 3; --limit shows more"] {
        assert!(text.good().out.contains(word), "{word:?} is not in {}", text.out);
    }
    assert!(place.on(&["inbox", "list", "--consumer", "nobody"]).good().out.contains("no refused messages"));
    let shown = place.on(&["inbox", "show", &ids[2], "--json"]).good().json();
    let fields = ["payload", "consumer", "reason", "key"].map(|name| shown[name].as_str().unwrap().to_owned());
    assert_eq!(fields, ["order c", "mail", "older than what is remembered", "c"]);
    assert!(place.on(&["inbox", "show", &ids[2]]).good().out.contains("next: look whether its effect is there"));
    place.on(&["inbox", "show", &ids[2], "--consumer", "billing"]).ends(1).says(&["no refused message has the id"]);
    place.on(&["inbox", "list", "--older-than", "soon"]).ends(2).says(&["is no length of time", "--older-than 30m"]);
}

#[test]
fn refused_messages_are_discarded_when_that_is_confirmed() {
    let (place, ids) = received();
    let run = place.on(&["inbox", "discard", "--consumer", "billing"]);
    run.ends(3).says(&["2 refused messages match and nothing was changed", "--yes"]);
    assert!(place.on(&["inbox", "discard", "--dry-run"]).good().out.contains("3 would be discarded"));
    let run = place.on(&["inbox", "discard", "--id", &ids[2], "--json"]);
    assert_eq!(run.good().json()["ids"][0], ids[2].as_str());
    place.on(&["inbox", "discard", &ids[2]]).ends(1).says(&["no refused message matches"]);
    assert!(place.on(&["inbox", "discard", "--yes"]).good().out.contains("discarded 2 of 2"));
    assert_eq!(place.on(&["inbox", "discard", "--yes", "--json"]).ends(1).json()["discarded"], 0);
    assert_eq!(place.on(&["inbox", "--json"]).good().json()["consumers"][0]["refused"], 0);
}

/// What one consumer handled, the other may not have.
#[test]
fn a_message_that_two_consumers_refused_is_discarded_for_the_one_that_is_named() {
    let place = Place::migrated();
    let (mut connection, inbox) = (application(&place), Inbox::new());
    let message = Message::new("orders.placed", "order a");
    let id = message.id.to_string();
    let tx = connection.transaction().unwrap();
    for consumer in ["billing", "shipping"] {
        inbox.refuse(&tx, consumer, message.clone(), "older than what is remembered").unwrap();
    }
    tx.commit().unwrap();
    let run = place.on(&["inbox", "discard", "--id", &id]);
    run.ends(3).says(&["2 refused messages match and nothing was changed", "--consumer"]);
    place.on(&["inbox", "discard", "--id", &id, "--consumer", "billing"]).good();
    assert_eq!(place.on(&["inbox", "list", "--json"]).good().json()["total"], 1);
    place.on(&["inbox", "discard", "--id", &id]).good();
}

#[test]
fn a_relay_forgets_what_its_configuration_says_and_counts_it() {
    let place = Place::migrated();
    let (mut connection, inbox) = (application(&place), Inbox::new());
    let (old, kept) = (MessageId(uuid::Uuid::new_v4()), MessageId::fresh());
    let tx = connection.transaction().unwrap();
    for id in [old, kept] {
        assert_eq!(inbox.first_seen(&tx, "billing", id).unwrap(), Seen::First);
    }
    tx.execute("update postrider_inbox_foreign set seen_at = seen_at - 864000000000", ()).unwrap();
    tx.commit().unwrap();
    let relay = place.relay("file:out.jsonl", &["--inbox-keep", "7d"]);
    let counted = "postrider_inbox_forgotten_total{what=\"records\"} 1";
    until("a record that is forgotten", || relay.ask("/metrics", None).1.contains(counted).then_some(()));
    let shown = place.run_with(&[("POSTRIDER_INBOX__KEEP", "7d")], &["inbox", "--store", "sqlite:app.db", "--json"]);
    let shown = shown.good().json();
    assert_eq!((&shown["consumers"][0]["remembered"]["value"], &shown["keep_seconds"]), (&1.into(), &604_800.into()));
    assert!(shown["since"].is_string(), "{shown}");
}

#[test]
fn too_short_a_memory_is_refused_with_what_to_write() {
    let place = Place::migrated();
    place.write("postrider.toml", "[inbox]\nkeep = \"10ms\"\n");
    place.on(&["check"]).ends(2).says(&["inbox.keep", "is too short", "14d"]);
    place.write("postrider.toml", "[inbox]\nkep = \"7d\"\n");
    place.on(&["check"]).ends(2).says(&["inbox.kep", "keep"]);
}
