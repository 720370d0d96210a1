//! From commit to acknowledgement, at rates and payloads that are given.

use std::sync::Arc;
use std::time::Duration;

use postrider_bench::figure::{Demand, Figure};
use postrider_bench::steady::{Pace, Steady, book, measured, steady};
use tokio_util::sync::CancellationToken;

use super::database::Database;
use super::limit;
use super::nats::Nats;
use super::plan::{Plan, TOPIC};

const PART: &str = "latency";
const KEYS: u32 = 10_000;
/// How long the limit waits where it found nothing.
const LIMIT_PAUSE: Duration = Duration::from_millis(1);

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let (database, nats) = (Database::start().await, Nats::start().await);
    notes.extend([database.note().await, nats.note()]);
    let mut figures = Vec::new();
    for payload in &plan.payloads {
        for rate in &plan.rates {
            let pace = Pace { rate: *rate, length: plan.steady, payload: *payload, keys: KEYS, topic: TOPIC.into() };
            let (mut runs, mut limit) = (Vec::new(), Vec::new());
            for run in 0..plan.runs {
                eprintln!("latency: {rate}/s of {payload} B, run {} of {}", run + 1, plan.runs);
                limit.push(at_the_limit(&database, &nats, &pace).await);
                runs.push(one(&database, &nats, &pace).await);
            }
            let what = format!("{rate}/s of {payload} B to NATS JetStream");
            figures.extend(figures_of(PART, &what, &runs, &limit, *rate == 1_000));
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

/// The same with the minimal pipeline in the relay's place.
async fn at_the_limit(database: &Database, nats: &Nats, pace: &Pace) -> Steady {
    database.empty().await;
    nats.fresh_stream().await;
    let (book, stop) = (book(pace), CancellationToken::new());
    let (url, context) = (database.url.clone(), Some(nats.context.clone()));
    let pipeline = limit::steadily(url, context, limit::Pace::Eager(LIMIT_PAUSE), Arc::clone(&book), stop.clone());
    let pipeline = tokio::spawn(pipeline);
    let run = measured(&database.store().await, pace, &book).await.unwrap();
    stop.cancel();
    pipeline.await.unwrap();
    nats.is_complete(&pace.load()).await;
    assert!(run.verdict.holds(), "a limit that loses messages is none: {}", run.verdict);
    run
}

/// Three figures of some runs beside the limit, where it was measured, and the rate that was reached.
pub fn figures_of(part: &str, what: &str, runs: &[Steady], limit: &[Steady], demanded: bool) -> Vec<Figure> {
    let verdicts: Vec<_> = runs.iter().map(|run| run.verdict).collect();
    let figure = |name: &str, unit: &str, of: fn(&Steady) -> f64| {
        let column = |runs: &[Steady]| runs.iter().map(of).collect();
        let figure = Figure::new(part, format!("{what}: {name}"), unit, column(runs)).verdict(&verdicts);
        if limit.is_empty() { figure } else { figure.beside("limit", column(limit)) }
    };
    let at_most = |most: f64, figure: Figure| if demanded { figure.demand(Demand::AtMost(most)) } else { figure };
    vec![
        at_most(5.0, figure("p50", "ms", |run| run.p50)),
        at_most(25.0, figure("p99", "ms", |run| run.p99)),
        figure("p99.9", "ms", |run| run.p999),
        figure("rate reached", "messages/s", |run| run.rate),
    ]
}
