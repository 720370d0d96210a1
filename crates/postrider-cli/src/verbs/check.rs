//! `postrider check`: the doctor.

use clap::Args;
use postrider_core::{Broker, Finding, Level, TopicPattern};
use serde_json::json;

use crate::config::{BrokerSection, Config, Forward, Route};
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
            let routes: Vec<Route> = ways(config).filter(|route| route.broker == section.name).collect();
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
    let store = wiring::open_promptly(config).await?;
    let mut findings = store.operator().await?.check().await?;
    findings.extend(wiring::agree_on_lanes(config, &*store).err().map(|failure| failed("lanes", &failure)));
    Ok(findings)
}

/// The routes, and the way of dead letters, whose topics are theirs.
fn ways(config: &Config) -> impl Iterator<Item = Route> {
    let topics = config.routes.first().map_or_else(TopicPattern::every, |route| route.topics.clone());
    let forward = config.forward.clone().map(|forward| {
        let Forward { broker, destination } = forward;
        Route { topics, broker, destination }
    });
    config.routes.clone().into_iter().chain(forward)
}

async fn broker_findings(section: &BrokerSection, routes: &[Route]) -> Vec<Finding> {
    let subject = format!("broker {}", section.name);
    let broker = match wiring::broker(section) {
        Ok(broker) => broker,
        Err(failure) => return vec![failed(&subject, &failure)],
    };
    let findings = match along(&*broker, routes).await {
        Ok(findings) if findings.is_empty() => vec![finding(Level::Good, &subject, "reachable", "")],
        Ok(findings) => findings,
        Err(failure) => vec![failed(&subject, &failure)],
    };
    broker.close().await;
    findings
}

/// What the broker says of the places that the routes lead to: one by one, or by the topics where these decide.
async fn along(broker: &dyn Broker, routes: &[Route]) -> Outcome<Vec<Finding>> {
    let (mut places, mut templates) = (Vec::new(), Vec::new());
    for route in routes {
        let template = wiring::template("destination", &route.destination)?;
        match template.fixed() {
            Some(place) => places.push(place),
            None => templates.push((&route.topics, template)),
        }
    }
    let mut findings = broker.check(&places).await.map_err(|error| Failure::broker(&error))?;
    for (topics, template) in templates {
        let found = broker.check_route(topics, &template).await.map_err(|error| Failure::broker(&error))?;
        findings.extend(found.into_iter().filter(|finding| !findings.contains(finding)).collect::<Vec<_>>());
    }
    Ok(findings)
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
