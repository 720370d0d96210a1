//! The parts of the measurement, one after another.

mod cost;
mod database;
mod drain;
mod forgetting;
mod held;
mod kafka;
mod latency;
mod limit;
mod mariadb;
mod memory;
mod mysql_kafka;
mod nats;
pub mod plan;
mod processes;
mod receiving;
mod relay;
mod runs;
mod scaling;
mod transactions;
mod waiting;

use std::time::Instant;

use postrider_bench::page::Measurement;

use plan::{PARTS, Plan};

/// Measures what the plan wants and hands on each part as soon as it is there; whether all of it is as demanded.
pub async fn measure(plan: &Plan, mut keep: impl FnMut(&str, &Measurement)) -> bool {
    let mut well = true;
    for part in PARTS.into_iter().filter(|part| plan.wants(part)) {
        let (began, mut notes) = (Instant::now(), Vec::new());
        let figures = match part {
            "drain" => drain::measure(plan, &mut notes).await,
            "latency" => latency::measure(plan, &mut notes).await,
            "transactions" => transactions::measure(plan, &mut notes).await,
            "cost" => cost::measure(plan, &mut notes).await,
            "memory" => memory::measure(plan, &mut notes).await,
            "scaling" => scaling::measure(plan, &mut notes).await,
            "mysql-kafka" => mysql_kafka::measure(plan, &mut notes).await,
            "receiving" => receiving::measure(plan, &mut notes).await,
            _ => held::measure(plan, &mut notes).await,
        };
        let took = began.elapsed().as_secs();
        if figures.is_empty() {
            println!("{part}: not run: {}", notes.join("; "));
            continue;
        }
        let mut circumstances = plan.build.clone();
        circumstances.append(&mut notes);
        circumstances.push(format!("{} It took {took} s: `{}`.", plan.sizes(), plan.command(part)));
        let measurement = Measurement { circumstances, figures };
        well &= measurement.is_well();
        keep(part, &measurement);
    }
    well
}
