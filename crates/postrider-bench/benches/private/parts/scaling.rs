//! Several relays share one backlog.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_bench::figure::Figure;
use postrider_bench::load::Load;
use postrider_bench::verdict::Verdict;
use postrider_bench::witness::{Book, Moments, Witness};
use postrider_brokers::memory::MemoryBroker;
use postrider_core::{DestinationName, DestinationTemplate};
use postrider_relay::Relay;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::database::Database;
use super::plan::Plan;

const PART: &str = "scaling";

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let database = Database::start().await;
    notes.push(database.note().await);
    let load = plan.load(plan.backlog, 10_000);
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); plan.relays.len()];
    let mut verdicts: Vec<Vec<Verdict>> = vec![Vec::new(); plan.relays.len()];
    for run in 0..plan.runs {
        for (place, count) in plan.relays.iter().enumerate() {
            eprintln!("scaling: {count} relays, run {} of {}", run + 1, plan.runs);
            let (took, verdict) = shared(&database, &load, *count).await;
            #[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
            rates[place].push(load.messages as f64 / took.as_secs_f64());
            verdicts[place].push(verdict);
        }
    }
    let one = rates.first().cloned().unwrap_or_default();
    let figures = plan.relays.iter().zip(rates).zip(verdicts).map(|((count, runs), verdicts)| {
        let what = format!("relays: {count}, PostgreSQL to memory");
        let figure = Figure::new(PART, what, "messages/s", runs).verdict(&verdicts);
        if *count == 1 { figure } else { figure.beside("one relay", one.clone()) }
    });
    figures.collect()
}

/// From the commit of the whole backlog until the table is empty, with relays that shared the lanes before.
async fn shared(database: &Database, load: &Load, count: usize) -> (Duration, Verdict) {
    database.empty().await;
    let (book, stop) = (Arc::new(Book::new(load.messages, Moments::NotKept)), CancellationToken::new());
    let mut relays = JoinSet::new();
    for place in 0..count {
        let witness = Arc::new(Witness::new(Arc::new(MemoryBroker::counting()), Arc::clone(&book)));
        let relay = Relay::builder(database.store().await)
            .name(format!("bench-{place}"))
            .destination(DestinationName::new("bench"), witness, DestinationTemplate::topic())
            .build()
            .unwrap();
        relays.spawn(relay.run(stop.clone()));
    }
    database.lanes_are_shared_by(count).await;
    database.append(load).await;
    let began = Instant::now();
    database.is_drained().await;
    let took = began.elapsed();
    stop.cancel();
    while let Some(ended) = relays.join_next().await {
        ended.unwrap().unwrap();
    }
    (took, book.verdict(load.messages))
}
