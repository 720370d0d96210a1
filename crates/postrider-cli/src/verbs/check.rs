//! `postrider check`: the doctor.

use clap::Args;
use postrider_core::{Finding, Level};
use serde_json::json;

use super::{routing, ways};
use crate::config::Config;
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
            findings.extend(ways::findings(config, section, &topics).await);
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
    if config.inbox.is_some() {
        let found = operator.check_inbox().await;
        findings.extend(found.unwrap_or_else(|error| vec![failed("inbox", &Failure::store(&error))]));
    }
    findings.extend(wiring::agree_on_lanes(config, &*store).err().map(|failure| failed("lanes", &failure)));
    // Where the doctor has found that nothing can be read, this cannot be either.
    Ok((findings, operator.topics().await.unwrap_or_default()))
}

/// That rows can be archived, where they are to be.
async fn archive_finding(config: &Config) -> Option<Finding> {
    match wiring::try_archive(config).await {
        Ok(false) => None,
        Ok(true) => Some(finding(Level::Good, "archive", "can be written", "")),
        Err(failure) => Some(failed("archive", &failure)),
    }
}

pub(super) fn failed(subject: &str, failure: &Failure) -> Finding {
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
