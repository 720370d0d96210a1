//! What a transaction costs that somebody holds open for minutes.

use std::sync::Arc;
use std::time::Instant;

use postrider_bench::drain::drain;
use postrider_bench::figure::{Demand, Figure};
use postrider_bench::steady::{Pace, Steady};
use postrider_brokers::memory::MemoryBroker;

use super::database::{Database, connect};
use super::latency::{figures_of, one};
use super::nats::Nats;
use super::plan::{Plan, TOPIC};

const PART: &str = "held";
/// What is demanded: at most so many times what it is without the transaction.
const FACTOR: f64 = 1.5;

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let (database, nats) = (Database::start().await, Nats::start().await);
    notes.extend([database.note().await, nats.note()]);
    let pace = Pace { rate: 1_000, length: plan.steady, payload: 200, keys: 10_000, topic: TOPIC.into() };
    let backlog = plan.load(plan.backlog, 10_000);
    let (mut free, mut held) = (Vec::new(), Vec::new());
    let (mut free_rates, mut held_rates, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.runs {
        free.push(one(&database, &nats, &pace).await);
        free_rates.push(drained(&database, plan).await.rate());
    }
    let holder = connect(&database.url).await;
    holder
        .batch_execute(
            "begin isolation level repeatable read; select count(*) from postrider_lane; create temporary table mine (x int)",
        )
        .await
        .unwrap();
    // The whole time is one steady load; what is compared is the time after it.
    let began = Instant::now();
    let long = Pace { length: plan.held, ..pace.clone() };
    eprintln!("held: a transaction is open, 1,000/s for {} s", plan.held.as_secs());
    nats.fresh_stream().await;
    let all = postrider_bench::steady::steady(database.store().await, nats.broker(), &long).await.unwrap();
    for run in 0..plan.runs {
        eprintln!("held: open for {} s, run {} of {}", began.elapsed().as_secs(), run + 1, plan.runs);
        nats.fresh_stream().await;
        database.flushed().await;
        held.push(postrider_bench::steady::steady(database.store().await, nats.broker(), &pace).await.unwrap());
        database.append(&backlog).await;
        database.flushed().await;
        let run = drain(database.store().await, Arc::new(MemoryBroker::counting()), &backlog, |_| {}).await.unwrap();
        held_rates.push(run.rate());
        verdicts.push(run.verdict);
    }
    holder.batch_execute("commit").await.unwrap();
    let open = "with a transaction open";
    let column = |runs: &[Steady], of: fn(&Steady) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
    let steady_verdicts: Vec<_> = held.iter().map(|run| run.verdict).collect();
    let compared = |what: &str, of: fn(&Steady) -> f64| {
        Figure::new(PART, format!("1,000/s to NATS JetStream {open}: {what}"), "ms", column(&held, of))
            .beside("without", column(&free, of))
            .demand(Demand::RatioAtMost(FACTOR))
            .verdict(&steady_verdicts)
    };
    let mut figures = vec![
        compared("p50", |run| run.p50),
        compared("p99", |run| run.p99),
        Figure::new(PART, format!("drain to memory {open}"), "messages/s", held_rates)
            .beside("without", free_rates)
            .demand(Demand::RatioAtLeast(1.0 / FACTOR))
            .verdict(&verdicts),
    ];
    let what = format!("the {} s at 1,000/s before, {open}", plan.held.as_secs());
    figures.extend(figures_of(PART, &what, &[all], &[], false));
    figures
}

async fn drained(database: &Database, plan: &Plan) -> postrider_bench::drain::Drained {
    let load = plan.load(plan.backlog, 10_000);
    database.fill(&load).await;
    drain(database.store().await, Arc::new(MemoryBroker::counting()), &load, |_| {}).await.unwrap()
}
