//! `postrider check`: the doctor.

use clap::Args;
use postrider_core::{Destination, Finding, Level};
use serde_json::json;

use crate::config::{Config, Route};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::paint::{Colour, paint};
use crate::output::{self, table::Table};
use crate::wiring;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Example:
  postrider check --store postgres://relay@db/shop --broker nats://localhost:4222";

/// Looks at the database and the broker, and says what to do about each finding. Exit code 1 when one is a failure.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Looks and prints.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        let mut findings = store_findings(config).await?;
        for section in &config.brokers {
            let routes: Vec<&Route> = config.routes.iter().filter(|route| route.broker == section.name).collect();
            findings.extend(broker_findings(section, &routes).await);
        }
        if config.brokers.is_empty() {
            findings.push(finding(
                Level::Warning,
                "broker",
                "none is configured",
                "add a [broker.NAME] section, or --broker URL",
            ));
        }
        let failed = findings.iter().any(|finding| finding.level == Level::Failure);
        if self.json {
            let list: Vec<_> = findings
                .iter()
                .map(|f| {
                    json!({
                        "level": word(f.level).to_lowercase(), "subject": f.subject, "found": f.found, "advice": f.advice,
                    })
                })
                .collect();
            output::json::print(&json!({ "failed": failed, "findings": list }))?;
        } else {
            output::print(&rendered(&findings))?;
        }
        Ok(if failed { Exit::Bad } else { Exit::Good })
    }
}

async fn store_findings(config: &Config) -> Outcome<Vec<Finding>> {
    wiring::store_url(config)?;
    // A store that cannot be opened is a finding like others: the broker is looked at all the same.
    Ok(opened_findings(config).await.unwrap_or_else(|error| vec![failed("database", &Failure::store(&error))]))
}

async fn opened_findings(config: &Config) -> postrider_core::Result<Vec<Finding>> {
    let store = wiring::open(config).await?;
    let mut findings = store.operator().await?.check().await?;
    findings.extend(wiring::agree_on_lanes(config, &*store).err().map(|failure| failed("lanes", &failure)));
    Ok(findings)
}

async fn broker_findings(section: &crate::config::BrokerSection, routes: &[&Route]) -> Vec<Finding> {
    let subject = format!("broker {}", section.name);
    let broker = match wiring::broker(section) {
        Ok(broker) => broker,
        Err(failure) => return vec![failed(&subject, &failure)],
    };
    // A template with a placeholder names no single place that could be looked at.
    let places: Vec<Destination> = routes
        .iter()
        .filter(|route| !route.destination.contains('{'))
        .map(|route| Destination::new(&route.destination))
        .collect();
    let findings = match broker.check(&places).await {
        Ok(findings) if findings.is_empty() => vec![finding(Level::Good, &subject, "reachable", "")],
        Ok(findings) => findings,
        Err(error) => vec![failed(&subject, &Failure::broker(&error))],
    };
    broker.close().await;
    findings
}

fn failed(subject: &str, failure: &Failure) -> Finding {
    finding(Level::Failure, subject, &failure.what, &failure.next)
}

fn finding(level: Level, subject: &str, found: &str, advice: &str) -> Finding {
    Finding { level, subject: subject.to_owned(), found: found.to_owned(), advice: advice.to_owned() }
}

fn rendered(findings: &[Finding]) -> String {
    let mut table = Table::new(&["", "subject", "found"]);
    for finding in findings {
        table.row([word(finding.level).to_owned(), finding.subject.clone(), finding.found.clone()]);
    }
    let mut lines: Vec<String> = table.render().lines().map(str::to_owned).collect();
    // Advice stands below its row; from the last row up, so that the places stay right.
    for (place, finding) in findings.iter().enumerate().rev() {
        if !finding.advice.is_empty() && finding.level != Level::Good {
            lines.insert(place + 2, format!("         next: {}", output::table::visible(&finding.advice)));
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (failures, warnings) = (count(Level::Failure), count(Level::Warning));
    let colour = if failures > 0 {
        Colour::Red
    } else if warnings > 0 {
        Colour::Yellow
    } else {
        Colour::Green
    };
    lines.push(paint(
        colour,
        &format!("{} good, {warnings} to be looked at, {failures} that stop the relay", count(Level::Good)),
    ));
    lines.join("\n")
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Warning => "warning",
        Level::Failure => "FAILURE",
    }
}
