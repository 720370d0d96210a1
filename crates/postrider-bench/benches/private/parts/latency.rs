//! From commit to acknowledgement, at rates and payloads that are given.

use postrider_bench::figure::{Demand, Figure};
use postrider_bench::steady::{Pace, Steady, steady};

use super::database::Database;
use super::nats::Nats;
use super::plan::{Plan, TOPIC};

const PART: &str = "latency";
const KEYS: u32 = 10_000;

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let (database, nats) = (Database::start().await, Nats::start().await);
    notes.extend([database.note().await, nats.note()]);
    let mut figures = Vec::new();
    for payload in &plan.payloads {
        for rate in &plan.rates {
            let pace = Pace { rate: *rate, length: plan.steady, payload: *payload, keys: KEYS, topic: TOPIC.into() };
            let mut runs = Vec::new();
            for run in 0..plan.runs {
                eprintln!("latency: {rate}/s of {payload} B, run {} of {}", run + 1, plan.runs);
                runs.push(one(&database, &nats, &pace).await);
            }
            figures.extend(figures_of(
                PART,
                &format!("{rate}/s of {payload} B to NATS JetStream"),
                &runs,
                *rate == 1_000,
            ));
        }
    }
    figures
}

pub async fn one(database: &Database, nats: &Nats, pace: &Pace) -> Steady {
    database.empty().await;
    nats.fresh_stream().await;
    let run = steady(database.store().await, nats.broker(), pace).await.unwrap();
    nats.is_complete(&pace.load()).await;
    run
}

/// Three figures of some runs, and the rate that was reached.
pub fn figures_of(part: &str, what: &str, runs: &[Steady], demanded: bool) -> Vec<Figure> {
    let verdicts: Vec<_> = runs.iter().map(|run| run.verdict).collect();
    let figure = |name: &str, of: fn(&Steady) -> f64, most: Option<f64>| {
        let figure =
            Figure::new(part, format!("{what}: {name}"), "ms", runs.iter().map(of).collect()).verdict(&verdicts);
        match most {
            Some(most) if demanded => figure.demand(Demand::AtMost(most)),
            _ => figure,
        }
    };
    vec![
        figure("p50", |run| run.p50, Some(5.0)),
        figure("p99", |run| run.p99, Some(25.0)),
        figure("p99.9", |run| run.p999, None),
        Figure::new(part, format!("{what}: rate reached"), "messages/s", runs.iter().map(|run| run.rate).collect())
            .verdict(&verdicts),
    ]
}
