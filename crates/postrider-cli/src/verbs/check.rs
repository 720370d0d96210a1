//! `postrider check`: the doctor.

use clap::Args;
use postrider_core::{Broker, DestinationTemplate, ErrorKind, Finding, Level, TopicPattern};
use serde_json::json;

use super::routing;
use crate::config::{BrokerSection, Config};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::paint::{Colour, paint};
use crate::output::{self, table::Table};
use crate::wiring;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Example:
  postrider check --store postgres://relay@db/shop --broker nats://localhost:4222";

/// Looks at the database, the brokers and the archive, and says what to do about each finding. Exit code 1 when one is a
/// failure.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Looks and prints.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        let (mut findings, topics) = store_findings(config).await?;
        findings.extend(routing::findings(config, &topics));
        for section in &config.brokers {
            let ways: Vec<Way<'_>> = ways(config).filter(|way| way.broker == section.name).collect();
            findings.extend(broker_findings(section, &ways).await);
        }
        if config.brokers.is_empty() {
            findings.push(finding(
                Level::Warning,
                "broker",
                "none is configured",
                "add a [broker.NAME] section, or --broker URL",
            ));
        }
        findings.extend(archive_finding(config).await);
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

/// The findings about the database, and the topics of what waits in it.
async fn store_findings(config: &Config) -> Outcome<(Vec<Finding>, Vec<String>)> {
    wiring::store_url(config)?;
    // A store that cannot be opened is a finding like others: the broker is looked at all the same.
    let opened = opened_findings(config).await;
    Ok(opened.unwrap_or_else(|error| (vec![failed("database", &Failure::store(&error))], Vec::new())))
}

async fn opened_findings(config: &Config) -> postrider_core::Result<(Vec<Finding>, Vec<String>)> {
    let store = wiring::open_promptly(config).await?;
    let mut operator = store.operator().await?;
    let mut findings = operator.check().await?;
    findings.extend(wiring::agree_on_lanes(config, &*store).err().map(|failure| failed("lanes", &failure)));
    // Where the doctor has found that nothing can be read, this cannot be either.
    Ok((findings, operator.topics().await.unwrap_or_default()))
}

/// What messages of some topics take to a place in a broker.
struct Way<'c> {
    broker: &'c str,
    topics: Vec<TopicPattern>,
    destination: &'c DestinationTemplate,
}

/// The routes, and the way of dead letters, whose topics are those of all routes.
fn ways(config: &Config) -> impl Iterator<Item = Way<'_>> {
    let routes = config.routes.iter().map(|route| Way {
        broker: &route.broker,
        topics: route.topics.clone(),
        destination: &route.destination,
    });
    let forward = config.forward.iter().map(|forward| Way {
        broker: &forward.broker,
        topics: config.routes.iter().flat_map(|route| route.topics.clone()).collect(),
        destination: &forward.destination,
    });
    routes.chain(forward)
}

async fn broker_findings(section: &BrokerSection, ways: &[Way<'_>]) -> Vec<Finding> {
    let subject = format!("broker {}", section.name);
    if ways.is_empty() {
        let advice = "write a [[route]] that leads to it, or leave the section out; the relay does not open it";
        return vec![finding(Level::Warning, &subject, "no route leads to it", advice)];
    }
    let broker = match wiring::broker(section) {
        Ok(broker) => broker,
        Err(failure) => return vec![failed(&subject, &failure)],
    };
    let findings = match along(&*broker, &subject, ways).await {
        Ok(findings) if findings.is_empty() => vec![finding(Level::Good, &subject, "reachable", "")],
        Ok(findings) => findings,
        Err(failure) => vec![failed(&subject, &failure)],
    };
    broker.close().await;
    findings
}

/// What the broker says of the places that the ways lead to: one by one, or by the topics where these decide.
async fn along(broker: &dyn Broker, subject: &str, ways: &[Way<'_>]) -> Outcome<Vec<Finding>> {
    let (mut places, mut templates) = (Vec::new(), Vec::new());
    for way in ways {
        match way.destination.places() {
            Some(known) => places.extend(known),
            None => templates.extend(way.topics.iter().map(|topics| (topics, way.destination))),
        }
    }
    let mut findings = match broker.check(&places).await {
        // Which of them, and what of the others.
        Err(error) if error.kind() == ErrorKind::Config && places.len() > 1 => {
            let mut findings = Vec::new();
            for place in &places {
                add(&mut findings, subject, broker.check(std::slice::from_ref(place)).await);
            }
            findings
        }
        answer => answer.map_err(|error| Failure::broker(&error))?,
    };
    for (topics, template) in templates {
        add(&mut findings, subject, broker.check_route(topics, template).await);
    }
    Ok(findings)
}

/// That rows can be archived, where they are to be.
async fn archive_finding(config: &Config) -> Option<Finding> {
    match wiring::try_archive(config).await {
        Ok(false) => None,
        Ok(true) => Some(finding(Level::Good, "archive", "can be written", "")),
        Err(failure) => Some(failed("archive", &failure)),
    }
}

/// What was found, or that it failed, each once.
fn add(findings: &mut Vec<Finding>, subject: &str, answer: postrider_core::Result<Vec<Finding>>) {
    let found = answer.unwrap_or_else(|error| vec![failed(subject, &Failure::broker(&error))]);
    for finding in found {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}

fn failed(subject: &str, failure: &Failure) -> Finding {
    finding(Level::Failure, subject, &failure.what, &failure.next)
}

pub(super) fn finding(level: Level, subject: &str, found: &str, advice: &str) -> Finding {
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
