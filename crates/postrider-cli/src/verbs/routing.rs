//! What the routes lead to, and which of them nothing takes: the doctor's part about routes.

use postrider_core::{Finding, Level};

use super::check::finding;
use crate::config::{Config, Route};

/// One finding for each route, and one for the topics that have none. `waiting` are the topics of messages that wait.
pub(super) fn findings(config: &Config, waiting: &[String]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = config.routes.iter().map(|route| of_route(route, waiting)).collect();
    if config.routes.is_empty() {
        return findings;
    }
    let led = |topic: &&String| config.routes.iter().any(|route| route.leads(topic));
    let alone: Vec<&str> = waiting.iter().filter(|topic| !led(topic)).map(String::as_str).collect();
    if !alone.is_empty() {
        findings.push(finding(
            Level::Warning,
            "routes",
            &format!("no route leads {}, of which messages wait", alone.join(", ")),
            "add a [[route]] for these topics, or one for every topic (topics = \"#\"), and restart the relay",
        ));
    }
    findings
}

fn of_route(route: &Route, waiting: &[String]) -> Finding {
    let subject = format!("route {}", route.name);
    let topics = route.spoken_topics();
    let leads = format!("{topics} to {:?} of the broker {}", route.destination.to_string(), route.broker);
    if waiting.is_empty() || waiting.iter().any(|topic| route.leads(topic)) {
        return finding(Level::Good, &subject, &leads, "");
    }
    let found = format!("{leads}; none of the topics that wait is one of these: {}", some(waiting));
    let advice = "compare the patterns with the topics that the application writes; * stands for one word, # at the end for \
                  any number. Where its messages are still to come, nothing is to be done";
    finding(Level::Warning, &subject, &found, advice)
}

/// The first few of them.
fn some(topics: &[String]) -> String {
    const MOST: usize = 5;
    let more = if topics.len() > MOST { ", ..." } else { "" };
    format!("{}{more}", topics.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", "))
}
