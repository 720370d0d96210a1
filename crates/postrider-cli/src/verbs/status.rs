//! `postrider status`: the outbox in numbers, the relays, and a verdict.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use postrider_core::machine::Ordering;
use postrider_core::{Measured, Operator};
use serde_json::{Value, json};

use super::lanes;
use super::look::Look;
use super::verdict::{self, Verdict, Word};
use crate::admin::ask::ask;
use crate::config::Config;
use crate::config::values::spoken;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::paint::{Colour, paint};
use crate::output::table::visible;
use crate::{output, redact, wiring};

/// Rows that are counted one by one; above it the database's estimate is shown.
const BOUND: u32 = 100_000;
/// How far apart two looks are when one does not tell.
const APART: Duration = Duration::from_secs(2);

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Example:
  postrider status --store sqlite:app.db
Exit codes: 0 moving or idle, 1 stuck, 2 unknown.";

/// Prints backlog, relays and lanes, and ends with a verdict, its cause and the next step.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The admin address of a relay to ask: an IP address and a port, no host name [default: admin.listen]
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<SocketAddr>,
}

impl Status {
    /// Looks, twice where once does not tell, and prints. Who reads JSON reads it also where there is no answer.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        let answer = self.answer(config).await;
        if let Err(failure) = &answer
            && self.json
        {
            output::json::print(&no_answer(config, failure))?;
        }
        answer
    }

    async fn answer(&self, config: &Config) -> Outcome<Exit> {
        let mut operator = wiring::operator(config).await?;
        let first = self.look(config, &mut *operator).await?;
        let (look, verdict) = match verdict::at_once(&first) {
            Some(verdict) => (first, verdict),
            None => {
                tokio::time::sleep(APART).await;
                let second = self.look(config, &mut *operator).await?;
                let verdict = verdict::compared(&first, &second, APART);
                (second, verdict)
            }
        };
        if self.json {
            output::json::print(&as_json(config, &look, &verdict))?;
        } else {
            output::print(&as_text(config, &look, &verdict))?;
        }
        Ok(verdict.word.exit())
    }

    async fn look(&self, config: &Config, operator: &mut dyn Operator) -> Outcome<Look> {
        let store = operator.status(BOUND).await.map_err(|error| Failure::store(&error))?;
        let relay = match self.admin.or(config.admin.listen) {
            Some(address) => ask(address, config.admin.token.as_ref()).await,
            None => Err("admin.listen is off".to_owned()),
        };
        // The answer counts only if it comes from a relay of this outbox; one that is starting is not yet a member.
        let relay = relay.and_then(|report| {
            if store.members.iter().any(|member| member.name == report.relay) {
                Ok(report)
            } else {
                Err(format!("relay {} answers there, and it is not a member of this outbox", report.relay))
            }
        });
        let routes = config.routes.iter().flat_map(|route| route.topics.clone()).collect();
        Ok(Look { store, relay, routes })
    }
}

fn as_text(config: &Config, look: &Look, verdict: &Verdict) -> String {
    let store = &look.store;
    let mut lines = vec![format!("outbox   {}", shown_store(config))];
    let mut parts = Vec::new();
    for (count, what) in [(store.retrying, "retrying"), (store.delayed, "delayed"), (store.set_aside, "set aside")] {
        if count.value() > 0 {
            parts.push(format!("{} {what}", number(count)));
        }
    }
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let oldest = store.oldest_age.map_or(String::new(), |age| format!(", the oldest due for {}", spoken(age)));
    lines.push(format!("pending  {}{parts}{oldest}", number(store.pending)));
    let holding =
        if store.holding.value() > 0 { format!(" ({} holding)", number(store.holding)) } else { String::new() };
    lines.push(format!("dead     {}{holding}", number(store.dead)));
    for held in &store.held {
        let (key, waiting, since) = (visible(held.key.as_str()), number(held.waiting), spoken(held.since));
        lines.push(format!("held     key {key}: {waiting} wait behind {}, given up {since} ago", held.by));
    }
    lines.push(format!("lanes    {}", lanes::owners(store)));
    if let Some(order) = lanes::order(store, ordering(config, look)) {
        lines.push(format!("order    {order}"));
    }
    if !store.members.is_empty() {
        lines.push(String::new());
        lines.push(lanes::members(store));
    }
    lines.push(String::new());
    match &look.relay {
        Ok(report) => {
            lines.push(format!(
                "relay {} ({}): {} delivered, {} retried, {} dead since it started; in its window: {}",
                visible(&report.relay),
                report.state,
                report.delivered,
                report.retried,
                report.dead,
                report.window_rows
            ));
            for destination in &report.destinations {
                let paused = match (destination.paused_seconds, destination.silent_seconds) {
                    (Some(_), _) => {
                        format!(", paused: {}", visible(destination.cause.as_deref().unwrap_or("unknown")))
                    }
                    (None, Some(_)) => ", answers nothing".to_owned(),
                    (None, None) => String::new(),
                };
                lines.push(format!(
                    "  {}: {} accepted, {} failed{paused}",
                    visible(&destination.name),
                    destination.accepted,
                    destination.failed
                ));
            }
        }
        Err(why) => lines.push(format!("the relay could not be asked: {}", visible(why))),
    }
    for error in &store.recent_errors {
        lines.push(format!("recent failure: {}", visible(error)));
    }
    let colour = match verdict.word {
        Word::Moving | Word::Idle => Colour::Green,
        Word::Stuck => Colour::Red,
        Word::Unknown => Colour::Yellow,
    };
    lines.push(String::new());
    lines.push(format!("verdict: {}: {}", paint(colour, &verdict.word.to_string()), verdict.cause));
    lines.push(format!("next: {}", verdict.next));
    lines.join("\n")
}

/// Which messages wait for each other: what the relay says that was asked, or what is configured here.
fn ordering<'l>(config: &Config, look: &'l Look) -> &'l str {
    let told = look.relay.as_ref().ok().and_then(|report| report.ordering.as_deref());
    told.unwrap_or_else(|| match config.relay.ordering {
        Ordering::Key if look.store.lanes.len() == 1 => Ordering::Everything.as_str(),
        ordering => ordering.as_str(),
    })
}

fn shown_store(config: &Config) -> String {
    config.outbox.store.as_ref().map(|store| redact::address(store.reveal())).unwrap_or_default()
}

fn number(measured: Measured) -> String {
    match measured {
        Measured::Exact(n) => n.to_string(),
        Measured::Estimated(n) => format!("about {n}"),
    }
}

fn no_answer(config: &Config, failure: &Failure) -> Value {
    json!({
        "outbox": shown_store(config),
        "verdict": Word::Unknown.to_string(), "cause": failure.what, "next": failure.next,
    })
}

fn as_json(config: &Config, look: &Look, verdict: &Verdict) -> Value {
    let store = &look.store;
    let count =
        |measured: Measured| json!({ "value": measured.value(), "exact": matches!(measured, Measured::Exact(_)) });
    let members: Vec<Value> = store
        .members
        .iter()
        .map(|member| {
            json!({
                "id": member.id.to_string(), "name": member.name, "lease_left_seconds": member.lease_left.as_secs_f64(),
                "lanes": lanes::owned_by(store, member.id).map(|lane| lane.lane.0).collect::<Vec<_>>(),
            })
        })
        .collect();
    let owners: Vec<Value> = store
        .lanes
        .iter()
        .map(|lane| {
            json!({
                "lane": lane.lane.0, "owner": lane.owner.map(|owner| owner.to_string()), "term": lane.term.0,
            })
        })
        .collect();
    json!({
        "outbox": shown_store(config),
        "pending": count(store.pending), "retrying": count(store.retrying), "delayed": count(store.delayed),
        "set_aside": count(store.set_aside), "dead": count(store.dead), "holding": count(store.holding),
        "held_back": count(store.held_back),
        "held": store.held.iter().map(|held| json!({
            "key": held.key.as_str(), "by": held.by.to_string(), "since_seconds": held.since.as_secs_f64(),
            "waiting": count(held.waiting),
        })).collect::<Vec<_>>(),
        "due": look.due(), "oldest_due_seconds": store.oldest_age.map(|age| age.as_secs_f64()),
        "recent_errors": store.recent_errors, "unrouted": store.unrouted,
        "lanes": {
            "total": store.lanes.len(),
            "owned": store.lanes.iter().filter(|lane| lane.owner.is_some()).count(),
            "owners": owners,
        },
        "ordering": ordering(config, look),
        "members": members,
        "relay": look.relay.as_ref().ok(), "relay_not_asked": look.relay.as_ref().err(),
        "verdict": verdict.word.to_string(), "cause": verdict.cause, "next": verdict.next,
    })
}
