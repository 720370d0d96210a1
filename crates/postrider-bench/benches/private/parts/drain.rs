//! How fast a backlog is drained, beside what the machine can do at all.

use std::sync::Arc;
use std::time::Duration;

use postrider_bench::drain::{Drained, drain};
use postrider_bench::figure::{Demand, Figure};
use postrider_bench::load::Load;
use postrider_brokers::memory::MemoryBroker;
use postrider_core::Broker;

use super::database::Database;
use super::limit;
use super::nats::{Nats, own_bench};
use super::plan::Plan;
use super::runs::{RATE, Runs, rates};

const PART: &str = "drain";
const KEYS: u32 = 10_000;

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let database = Database::start().await;
    let nats = Nats::start().await;
    notes.extend([database.note().await, nats.note()]);
    let uniform = plan.load(plan.backlog, KEYS);
    let hot = plan.load(plan.hot_backlog, 1);
    let all_hot = plan.load(plan.backlog, 1);
    let (mut deletes, mut memory, mut jetstream) = (Vec::new(), Runs::default(), Runs::default());
    let (mut memory_hot, mut jetstream_hot, mut client) = (Runs::default(), Runs::default(), Vec::new());
    for run in 0..plan.runs {
        eprintln!("drain: run {} of {}", run + 1, plan.runs);
        database.fill(&uniform).await;
        deletes.push(per_second(&uniform, limit::server_side(&database.url, &uniform).await));
        database.fill(&uniform).await;
        memory.limit.push(limit::pipeline(&database.url, &uniform, None).await);
        database.fill(&uniform).await;
        memory.ours.push(ours(&database, Arc::new(MemoryBroker::counting()), &uniform).await);
        database.fill(&all_hot).await;
        memory_hot.ours.push(ours(&database, Arc::new(MemoryBroker::counting()), &all_hot).await);
        nats.fresh_stream().await;
        client.push(per_second(&uniform, limit::client_alone(&nats.context, &uniform).await));
        nats.fresh_stream().await;
        database.fill(&uniform).await;
        jetstream.limit.push(limit::pipeline(&database.url, &uniform, Some(&nats.context)).await);
        nats.fresh_stream().await;
        database.fill(&uniform).await;
        jetstream.ours.push(ours(&database, nats.broker(), &uniform).await);
        nats.is_complete(&uniform).await;
        nats.fresh_stream().await;
        database.fill(&hot).await;
        jetstream_hot.ours.push(ours(&database, nats.broker(), &hot).await);
        nats.is_complete(&hot).await;
    }
    let read_and_delete = rates(&memory.limit);
    memory_hot.limit.clone_from(&memory.limit);
    jetstream_hot.limit.clone_from(&jetstream.limit);
    let mut figures = vec![
        memory.figure(PART, "PostgreSQL to memory, 10,000 keys", "limit").demand(Demand::RatioAtLeast(0.5)),
        memory_hot.figure(PART, "PostgreSQL to memory, one hot key", "limit, any keys"),
        jetstream.figure(PART, "PostgreSQL to NATS JetStream, 10,000 keys", "limit").demand(Demand::RatioAtLeast(0.75)),
        jetstream_hot.figure(PART, "PostgreSQL to NATS JetStream, one hot key (one in flight)", "limit, any keys"),
        limit_figure(read_and_delete, deletes),
        Figure::new(PART, "limit: PostgreSQL to NATS JetStream, read, publish, delete", RATE, rates(&jetstream.limit))
            .beside("the same client without a database", client.clone()),
        Figure::new(PART, "limit: the NATS client alone", RATE, client),
    ];
    match own_bench(&nats, plan.backlog) {
        Some(rate) => {
            figures.push(Figure::new(PART, "limit: nats bench, asynchronous, batches of 4,000", RATE, vec![rate]))
        }
        None => notes.push("Not run: `nats bench`, whose program was not found.".to_owned()),
    }
    figures
}

/// The limit is honest when it is fast by itself or beside what the server does without any client.
fn limit_figure(rates: Vec<f64>, deletes: Vec<f64>) -> Figure {
    let figure = Figure::new(PART, "limit: PostgreSQL, read and delete", RATE, rates)
        .beside("server-side DELETE in pages", deletes);
    let fast = figure.ours.median >= 350_000.0;
    figure.demand(if fast { Demand::AtLeast(350_000.0) } else { Demand::RatioAtLeast(0.25) })
}

async fn ours(database: &Database, broker: Arc<dyn Broker>, load: &Load) -> Drained {
    let drained = drain(database.store().await, broker, load, |_| {}).await.unwrap();
    assert_eq!(database.left().await, 0, "settled is gone");
    drained
}

#[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
fn per_second(load: &Load, took: Duration) -> f64 {
    load.messages as f64 / took.as_secs_f64()
}
