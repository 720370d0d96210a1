//! The operator's verbs on the real binary, on SQLite and on PostgreSQL: history and retention, `prune`,
//! `relay --until-empty`, `dead replay` of many at a rate and twice at once, and `explain` of every standing.
//!
//! A thousand dead letters are the miniature; `POSTRIDER_FULL=1` (`cargo xtask show main.7`) makes it ten thousand.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../cli/harness.rs"]
#[allow(dead_code, reason = "the other tests of the binary use the rest")]
mod harness;
mod replaying;
mod shop;

use harness::{lines, nowhere, until};
use postrider_testkit::servers::http_receiver::HttpReceiver;
use shop::Shop;

/// One test on each database.
macro_rules! on_each_database {
    ($($name:ident)*) => { $(
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(crate::shop::Shop::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgresql() {
                super::$name(crate::shop::Shop::postgres().await).await;
            }
        }
    )* };
}
use on_each_database;

on_each_database! {
    history_is_found_by_explain_and_goes_when_its_time_is_over
    prune_dry_run_says_what_would_go_and_changes_nothing_and_prune_removes_that
    until_empty_ends_with_0_and_counts_what_is_left_on_its_last_line
    until_empty_ends_with_1_when_the_destination_stays_paused
    explain_tells_a_delivered_a_set_aside_a_retrying_and_a_dead_message_apart
    explain_names_a_destination_that_is_paused
    status_is_stuck_where_messages_wait_whose_topic_has_no_route
}

/// What the file of the broker `file:out.jsonl` says was delivered, by id, sorted.
fn delivered(shop: &Shop) -> Vec<String> {
    let lines = lines(&shop.place.path("out.jsonl"));
    let mut ids: Vec<String> = lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

async fn history_is_found_by_explain_and_goes_when_its_time_is_over(shop: Shop) {
    let ids = shop.enqueue(&[("a", "k", "one"), ("a", "k", "two"), ("b", "other", "three")]);
    shop.drain("file:out.jsonl", &["--outbox-history", "7d"]).good();
    shop.place.write("postrider.toml", "[outbox]\nhistory = \"7d\"\n");
    for id in &ids {
        let told = shop.on(&["explain", id]);
        assert!(told.good().out.contains("delivered: settled "), "{}", told.out);
    }
    let found = shop.on(&["explain", "k", "--json"]).good().json()["found"].clone();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    assert!(found.as_array().unwrap().iter().all(|one| one["state"] == "delivered"), "{found}");

    let relay = shop.relay("file:out.jsonl", &[]);
    until("a relay that relays", || (relay.ask("/readyz", None).1 == "relaying\n").then_some(()));
    assert_eq!(shop.count("postrider_delivered").await, 3, "within seven days nothing goes");
    drop(relay);
    let relay = shop.relay("file:out.jsonl", &["--outbox-history", "1s", "--relay-lease", "1s"]);
    shop.until_count("postrider_delivered", 0).await;
    drop(relay);
    shop.on(&["explain", &ids[0]]).ends(1).says(&["its time in the history has passed"]);
}

async fn prune_dry_run_says_what_would_go_and_changes_nothing_and_prune_removes_that(shop: Shop) {
    let receiver = shop::picky().await;
    shop.enqueue(&[
        ("a", "k1", "good"),
        ("a", "k2", "bad"),
        ("a", "k3", "good"),
        ("a", "k4", "bad"),
        ("a", "k5", "good"),
    ]);
    shop.drain(&receiver.url(), &["--retry-max-attempts", "1", "--outbox-history", "7d"]).good();
    shop.enqueue(&[("a", "k6", "good")]);
    let before = shop.contents().await;
    let asked = ["prune", "--delivered", "1ms", "--dead", "1ms"];
    let said = shop.on(&[&asked[..], &["--dry-run"]].concat());
    assert!(said.good().out.contains("would remove 3 delivered (older than 1ms) and 2 dead"), "{}", said.out);
    assert_eq!(shop.contents().await, before, "a dry run changed something");
    let long = shop.on(&["prune", "--delivered", "7d", "--dead", "7d", "--json"]);
    assert_eq!((&long.good().json()["delivered"], &long.json()["dead"]), (&0.into(), &0.into()));
    assert_eq!(shop.contents().await, before, "what is younger than its time was touched");
    let said = shop.on(&asked);
    assert!(said.good().out.contains("removed 3 delivered (older than 1ms) and 2 dead"), "{}", said.out);
    assert_eq!((shop.count("postrider_delivered").await, shop.count("postrider_outbox").await), (0, 1));
    shop.drain("file:out.jsonl", &[]).good();
    assert_eq!(delivered(&shop).len(), 1, "what was pending is delivered");
}

async fn until_empty_ends_with_0_and_counts_what_is_left_on_its_last_line(shop: Shop) {
    let receiver = shop::picky().await;
    shop.enqueue(&[("a", "k1", "bad"), ("a", "k2", "bad"), ("a", "k3", "good")]);
    shop.drain(&receiver.url(), &["--retry-max-attempts", "1"]).good();
    // No relay of this version makes a dead letter hold its key; the state is a part of the table all the same.
    shop.sql("update postrider_outbox set state = 3 where id = (select max(id) from postrider_outbox)").await;
    shop.on(&["enqueue", "a", "--payload", "later", "--delay", "1h"]).good();
    shop.enqueue(&[("a", "k4", "good")]);
    let run = shop.drain("file:out.jsonl", &[]);
    let last = run.good().err.lines().last().unwrap_or_default();
    assert_eq!(last, "delivered 1, retried 0, given up 0; left in the outbox: 1 delayed, 2 dead, 1 holding");
    let run = shop.drain("file:out.jsonl", &[]);
    let last = run.good().err.lines().last().unwrap_or_default();
    assert_eq!(last, "delivered 0, retried 0, given up 0; left in the outbox: 1 delayed, 2 dead, 1 holding");
}

async fn until_empty_ends_with_1_when_the_destination_stays_paused(shop: Shop) {
    shop.enqueue(&[("a", "k", "one"), ("a", "k", "two")]);
    let away = format!("http://{}/", nowhere());
    let run = shop.drain(&away, &["--relay-patience", "300ms", "--relay-max-pause", "100ms"]);
    run.ends(1).says(&["destination default stays paused", "postrider check"]);
    assert!(run.err.contains("delivered 0, retried 0, given up 0"), "{}", run.err);
    shop.drain("file:out.jsonl", &[]).good();
    assert_eq!(delivered(&shop).len(), 2);
}

async fn explain_tells_a_delivered_a_set_aside_a_retrying_and_a_dead_message_apart(shop: Shop) {
    let receiver: HttpReceiver = shop::picky().await;
    let settled = shop.enqueue(&[("a", "delivered", "good"), ("a", "dead", "bad")]);
    shop.drain(&receiver.url(), &["--retry-max-attempts", "1", "--outbox-history", "7d"]).good();
    let waiting = shop.enqueue(&[("a", "k", "bad"), ("a", "k", "good")]);
    let relay = shop.relay(
        &receiver.url(),
        &["--retry-initial", "5m", "--relay-name", "mover", "--outbox-history", "7d", "--relay-lease", "2s"],
    );
    until("a message behind a retrying one", || {
        (shop.on(&["explain", &waiting[1], "--json"]).json()["found"][0]["state"] == "set aside").then_some(())
    });
    let behind = format!("behind: message {} goes first", waiting[0]);
    let next = format!("next: `postrider explain {}` tells what holds it", waiting[0]);
    for (id, words) in [
        (&settled[0], &["delivered: settled "][..]),
        (
            &settled[1],
            &["dead: given up", "for attempts after 1 attempt, ", "422", "next: `postrider dead replay --id"],
        ),
        (
            &waiting[0],
            &["retrying: 1 charged attempt, the next in ", "last failure: default:", "422", "relayed by mover"],
        ),
        (&waiting[1], &["set aside: waiting to be delivered", &behind, &next, "relayed by mover"]),
    ] {
        let told = shop.on(&["explain", id]);
        for word in words {
            assert!(told.good().out.contains(word), "{word:?} is not in {}", told.out);
        }
    }
    drop(relay);
    assert!(shop.on(&["explain", &waiting[0]]).good().out.contains("the next in "));
    let told = until("a lease that has run out", || {
        let told = shop.on(&["explain", &waiting[0]]).good().out.clone();
        told.contains("the lease of its relay mover has run out").then_some(told)
    });
    assert!(told.contains("next: start a relay") && !told.contains("relayed by"), "{told}");
}

async fn explain_names_a_destination_that_is_paused(shop: Shop) {
    let away = format!("http://{}/", nowhere());
    let text = |topics: &str, url: &str, name: &str| {
        format!("[broker.{name}]\nurl = \"{url}\"\n[[route]]\nbroker = \"{name}\"\ntopics = \"{topics}\"\n")
    };
    shop.place.write("postrider.toml", text("orders.#", &away, "shop") + &text("later.#", "file:out.jsonl", "books"));
    let ids = shop.enqueue(&[("orders.placed", "k", "x"), ("later.on", "k", "behind it")]);
    let relay = shop.configured();
    let explain = |id: &str, more: &[&str]| shop.on(&[&["explain", id][..], more].concat()).good().out.clone();
    let told = until("a paused destination", || {
        let told = explain(&ids[0], &["--admin", &relay.admin]);
        told.contains("halted: destination shop has been paused for ").then_some(told)
    });
    assert!(told.contains("next: bring the broker back; the relay goes on by itself"), "{told}");
    let json = shop.on(&["explain", &ids[0], "--json", "--admin", &relay.admin]).good().json();
    assert!(json["found"][0]["halted"][0].as_str().unwrap().contains("destination shop"), "{json}");
    // Nobody is asked, or another destination has it.
    assert!(!explain(&ids[0], &[]).contains("halted"));
    let behind = shop.on(&["explain", &ids[1], "--admin", &relay.admin]);
    assert!(!behind.out.contains("destination shop"), "{}", behind.out);
}

async fn status_is_stuck_where_messages_wait_whose_topic_has_no_route(shop: Shop) {
    let routed = |topics: &str| {
        let text = format!("[broker.out]\nurl = \"file:out.jsonl\"\n[[route]]\ntopics = \"{topics}\"\n");
        shop.place.write("postrider.toml", text);
    };
    routed("orders.#");
    shop.enqueue(&[("mail.sent", "k", "x"), ("mail.sent", "k", "behind it"), ("orders.placed", "k2", "y")]);
    let relay = shop.configured();
    let status = || shop.on(&["status", "--admin", &relay.admin]);
    let stuck = until("a verdict", || Some(status()).filter(|run| run.code == 1 && run.out.contains("no route")));
    let words = ["verdict: stuck: no route of the relay leads the topic mail.sent", "next: add a route for the topic"];
    assert!(words.iter().all(|word| stuck.out.contains(word)), "{}", stuck.out);
    let json = shop.on(&["status", "--json", "--admin", &relay.admin]).ends(1).json();
    assert_eq!((&json["verdict"], &json["unrouted"]), (&"stuck".into(), &serde_json::json!(["mail.sent"])), "{json}");
    routed("#");
    assert!(status().ends(1).out.contains("next: the configuration read here has a route: restart the relay"));
    drop(relay);
    let mended = shop.configured();
    shop.sql("update postrider_outbox set next_attempt_at = created_at where next_attempt_at is not null").await;
    until("an idle outbox", || {
        Some(shop.on(&["status", "--admin", &mended.admin])).filter(|run| run.out.contains("verdict: idle"))
    });
}
