//! The inbox over ten times of what it remembers, while it forgets.

use std::time::{Duration, Instant};

use postrider::{Inbox, MessageId, Outbox, Seen};
use postrider_bench::figure::{Demand, Figure};
use postrider_bench::spread::percentile;
use tokio_util::sync::CancellationToken;

use super::database::{Database, connect};
use super::plan::Plan;

const PART: &str = "receiving";
/// So many times of what is remembered.
const PERIODS: usize = 10;
/// Messages a second.
const RATE: u32 = 400;
/// How often what is older is forgotten, in one of what is remembered.
const FORGETS: u32 = 20;
/// The 99th of a hundred may rise by as much from the first periods in which something is forgotten to the last.
const FLAT: f64 = 1.5;

pub async fn measure(plan: &Plan, database: &Database, notes: &mut Vec<String>) -> Vec<Figure> {
    let keep = (plan.steady / 2).max(Duration::from_secs(1));
    eprintln!("{PART}: {PERIODS} times of {keep:?}");
    let (tables, done) = (Outbox::new().prefix("forgetting_").unwrap(), CancellationToken::new());
    let mut client = connect(&database.url).await;
    tables.migrate(&client).await.unwrap();
    let inbox = Inbox::beside(&tables);
    let forgetting = tokio::spawn(forget(database.url.clone(), inbox.clone(), keep, done.clone()));
    let start = Instant::now();
    let mut periods: Vec<Vec<f64>> = vec![Vec::new(); PERIODS];
    for number in 0.. {
        let due = start + Duration::from_secs(number) / RATE;
        tokio::time::sleep_until(due.into()).await;
        let began = Instant::now();
        let place = (began - start).as_nanos() / keep.as_nanos();
        let Some(period) = usize::try_from(place).ok().and_then(|place| periods.get_mut(place)) else { break };
        let transaction = client.transaction().await.unwrap();
        let seen = inbox.first_seen(&transaction, "bench", MessageId::fresh()).await.unwrap();
        assert_eq!(seen, Seen::First);
        transaction.commit().await.unwrap();
        period.push(began.elapsed().as_secs_f64() * 1_000.0);
    }
    done.cancel();
    let dropped = forgetting.await.unwrap();
    assert!(dropped > 0, "no partition was dropped");
    notes.push(format!(
        "The inbox at {RATE} messages a second over {PERIODS} times of {keep:?}, which it remembers: {dropped} partitions were \
         dropped whole."
    ));
    let p99: Vec<f64> = periods.iter_mut().map(|times| percentile(times, 0.99)).collect();
    let named = |(place, p99): (usize, &f64)| {
        Figure::new(PART, format!("the inbox, period {} of {PERIODS}: p99", place + 1), "ms", vec![*p99])
    };
    let mut figures: Vec<Figure> = p99.iter().enumerate().map(named).collect();
    let last = Figure::new(PART, "the inbox, the last three periods: p99", "ms", p99[PERIODS - 3..].to_vec());
    // In the first one there is nothing to forget.
    figures.push(last.beside("the second to the fourth", p99[1..4].to_vec()).demand(Demand::RatioAtMost(FLAT)));
    figures
}

/// Forgets what is older until it is told to stop: how many partitions were dropped.
async fn forget(url: String, inbox: Inbox, keep: Duration, done: CancellationToken) -> u64 {
    let (mut client, mut dropped) = (connect(&url).await, 0);
    while !done.is_cancelled() {
        loop {
            let transaction = client.transaction().await.unwrap();
            let forgotten = inbox.forget(&transaction, keep).await.unwrap();
            transaction.commit().await.unwrap();
            dropped += forgotten.partitions;
            if !forgotten.more {
                break;
            }
        }
        tokio::select! {
            () = done.cancelled() => {}
            () = tokio::time::sleep(keep / FORGETS) => {}
        }
    }
    dropped
}
