//! The relay as a process of its own, at backlogs of every size: its peak memory and its processor time.

use postrider_bench::figure::{Demand, Figure, number};
use postrider_bench::verdict::Verdict;

use super::database::Database;
use super::plan::Plan;
use super::relay::RelayProcess;

const PART: &str = "memory";

pub async fn measure(plan: &Plan, notes: &mut Vec<String>) -> Vec<Figure> {
    let Some(postrider) = &plan.postrider else {
        notes.push("it needs --postrider PROGRAM".to_owned());
        return Vec::new();
    };
    let database = Database::start().await;
    notes.push(database.note().await);
    let mut figures = Vec::new();
    for backlog in &plan.backlogs {
        let load = plan.load(*backlog, 10_000);
        let (mut peak, mut cpu, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..plan.runs {
            eprintln!("memory: backlog of {backlog}, run {} of {}", run + 1, plan.runs);
            database.fill(&load).await;
            let relay = RelayProcess::start(postrider, &database.url, "memory:", &["--until-empty"]);
            let used = relay.ended().await;
            verdicts.push(Verdict::counted(*backlog, used.delivered, database.left().await));
            #[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
            let messages = *backlog as f64;
            peak.push(used.megabytes);
            cpu.push(used.seconds / messages * 1e6);
        }
        #[allow(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let what = format!("backlog of {}", number(*backlog as f64));
        let figure = |of: &str, unit, runs| Figure::new(PART, format!("{what}: {of}"), unit, runs).verdict(&verdicts);
        figures.push(figure("peak memory", "MB", peak).demand(Demand::AtMost(100.0)));
        figures.push(figure("relay CPU", "µs/message", cpu));
    }
    figures
}
