//! Replaying many dead letters: at a rate, with progress, and by two hands at once.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::{Run, until};
use crate::shop::Shop;
use crate::{delivered, on_each_database};

on_each_database! {
    a_replay_of_many_keeps_its_rate_and_each_is_delivered_once
    two_replays_at_once_replay_each_message_once
}

/// How many, and how many of them in a second.
fn scale() -> (usize, usize) {
    if std::env::var_os("POSTRIDER_FULL").is_some() { (10_000, 500) } else { (1_000, 200) }
}

fn ids(run: &Run) -> Vec<String> {
    let json = run.good().json();
    json["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

async fn a_replay_of_many_keeps_its_rate_and_each_is_delivered_once(shop: Shop) {
    let (count, rate) = scale();
    let dead = shop.with_dead(count).await;
    let relay = shop.relay("file:out.jsonl", &[]);
    until("a relay that relays", || (relay.ask("/readyz", None).1 == "relaying\n").then_some(()));
    let asked = ["dead", "replay", "--yes", "--json", "--rate", &rate.to_string(), "--store", &shop.url];
    let child = shop.place.command(&asked).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The rate as the table shows it: between the tenth and the last tenth.
    let left = async || usize::try_from(shop.count("postrider_outbox where state = 1").await).unwrap();
    let (from, until_left) = (count - count / 10, count / 10);
    let start = loop {
        let now = left().await;
        if now <= from {
            break (Instant::now(), now);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let end = loop {
        let now = left().await;
        if now <= until_left {
            break (Instant::now(), now);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let (replayed, took) = (start.1 - end.1, end.0 - start.0);
    let seen = f64::from(u32::try_from(replayed).unwrap()) / took.as_secs_f64();
    let asked_for = f64::from(u32::try_from(rate).unwrap());
    println!("replay of {count} at {rate}/s: {replayed} in {took:?}, {seen:.0}/s");
    assert!((seen / asked_for - 1.0).abs() <= 0.2, "{seen:.0}/s instead of {rate}/s");
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["replayed"], &said["matching"]), (&count.into(), &count.into()), "{output:?}");
    shop.until_count("postrider_outbox", 0).await;
    assert_eq!(delivered(&shop), dead, "each once, under its own id");
}

async fn two_replays_at_once_replay_each_message_once(shop: Shop) {
    let (count, rate) = scale();
    let dead = shop.with_dead(count).await;
    // At a rate, so that neither is through before the other begins.
    let rate = (rate * 2).to_string();
    let replay = || shop.on(&["dead", "replay", "--yes", "--json", "--rate", &rate]);
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(replay);
        let second = scope.spawn(replay);
        (ids(&first.join().unwrap()), ids(&second.join().unwrap()))
    });
    println!("two replays of {count}: {} and {}", first.len(), second.len());
    assert!(!first.is_empty() && !second.is_empty(), "they did not meet");
    let mut replayed = [first, second].concat();
    replayed.sort();
    assert_eq!(replayed, dead, "each message is replayed by one of the two");
    shop.drain("file:out.jsonl", &[]).good();
    assert_eq!(delivered(&shop), dead);
}

/// `script` is part of every Debian; it gives the program a terminal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_replay_shows_its_progress_on_a_terminal() {
    let shop = Shop::sqlite();
    shop.with_dead(60).await;
    let line = format!("{} dead replay --yes --rate 40 --store sqlite:app.db", env!("CARGO_BIN_EXE_postrider"));
    let mut command = postrider_testkit::command::command("script");
    command.args(["-qefc", &line, "/dev/null"]).current_dir(shop.place.path("")).env("TERM", "xterm");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let steps = (1..60).filter(|n| said.contains(&format!(" {n}/60 "))).count();
    assert!(steps >= 2, "no progress was shown: {said:?}");
    assert!(said.contains("replayed 60 of 60"), "{said:?}");
}
