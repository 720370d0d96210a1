//! `postrider inbox`: what the receivers in this database remember, and what they refused.

use clap::{Args, Subcommand};
use postrider_core::{InboxStatus, Measured, MessageId, Operator, RefusedFilter, RefusedGroup, RefusedView, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::dead::payload;
use super::inbox_discard::Discard;
use super::inbox_filter::Filter;
use crate::config::Config;
use crate::config::values::spoken;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::moment::{self, relative, written};
use crate::output::table::Table;
use crate::{output, wiring};

/// So many of the newest records are looked at.
const LOOKED_AT: u32 = 10_000;
/// Of one message there are as many as there are consumers that refused it.
const OF_ONE: u32 = 1_000;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider inbox                       # what each consumer remembers, and how much it refused
  postrider inbox list --consumer billing
  postrider inbox show 01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e
  postrider inbox discard --older-than 30d --dry-run";

/// What consumers in this database handled, and the messages that they refused because nobody can tell whether they were.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Inbox {
    /// What to do; without it, what each consumer remembers and refused
    #[command(subcommand)]
    verb: Option<InboxVerb>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What can be done with refused messages.
#[derive(Debug, Subcommand)]
enum InboxVerb {
    /// Print refused messages, in groups and one by one
    #[command(after_help = "Example:\n  postrider inbox list --consumer billing --older-than 1h")]
    List(List),
    /// Print everything about one, with the beginning of its payload
    #[command(after_help = "Example:\n  postrider inbox show 01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e")]
    Show(Show),
    /// Remove them for good
    #[command(
        after_help = "Examples:\n  postrider inbox discard 01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e\n  postrider inbox discard --consumer billing --older-than 30d --yes"
    )]
    Discard(Discard),
}

/// Prints refused messages.
#[derive(Debug, Args)]
struct List {
    /// Which ones
    #[command(flatten)]
    filter: Filter,
    /// At most so many one by one
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Only the groups
    #[arg(long)]
    groups: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints one refused message.
#[derive(Debug, Args)]
struct Show {
    /// The message id
    id: Uuid,
    /// Only as this consumer refused it
    #[arg(long)]
    consumer: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Inbox {
    /// Does it.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        let mut operator = wiring::operator(config).await?;
        match &self.verb {
            None => {
                let status = operator.inbox(LOOKED_AT).await.map_err(|error| Failure::store(&error))?;
                self.print(config, &status)
            }
            Some(InboxVerb::List(list)) => list.run(&mut *operator).await,
            Some(InboxVerb::Show(show)) => show.run(&mut *operator).await,
            Some(InboxVerb::Discard(discard)) => discard.run(operator).await,
        }
    }

    fn print(&self, config: &Config, status: &InboxStatus) -> Outcome<Exit> {
        let now = moment::now();
        if self.json {
            output::json::print(&status_json(config, status))?;
            return Ok(Exit::Good);
        }
        let since = match status.since {
            Some(since) => format!("since {} ({})", written(since), relative(since, now)),
            None => "everything that was handled".to_owned(),
        };
        let keep = match config.inbox {
            Some(keep) => format!("a relay with this configuration forgets what is older than {}", spoken(keep)),
            None => "no relay with this configuration forgets anything (inbox.keep is not set)".to_owned(),
        };
        output::print(&format!("remembered: {since}; {keep}"))?;
        if status.consumers.is_empty() {
            output::print("no consumer has handled or refused anything that is remembered")?;
            return Ok(Exit::Good);
        }
        let mut table = Table::new(&["consumer", "remembered", "last handled", "refused"]);
        for one in &status.consumers {
            let remembered = match one.remembered {
                Measured::Exact(count) => count.to_string(),
                Measured::Estimated(count) => format!("{count} of the newest {LOOKED_AT}"),
            };
            let last = one.last.map_or("-".to_owned(), |last| relative(last, now));
            table.row([one.consumer.clone(), remembered, last, one.refused.to_string()]);
        }
        output::print(&format!("\n{}", table.render()))?;
        if status.consumers.iter().any(|one| one.refused > 0) {
            output::print("next: `postrider inbox list` shows what was refused")?;
        }
        Ok(Exit::Good)
    }
}

fn status_json(config: &Config, status: &InboxStatus) -> Value {
    let consumers: Vec<Value> = status
        .consumers
        .iter()
        .map(|one| {
            let is_exact = matches!(one.remembered, Measured::Exact(_));
            json!({
                "consumer": one.consumer, "remembered": { "value": one.remembered.value(), "exact": is_exact },
                "last_handled_at": one.last.map(written), "refused": one.refused,
            })
        })
        .collect();
    json!({
        "since": status.since.map(written), "keep_seconds": config.inbox.map(|keep| keep.as_secs()),
        "consumers": consumers,
    })
}

impl List {
    async fn run(&self, operator: &mut dyn Operator) -> Outcome<Exit> {
        let filter = self.filter.read()?;
        let groups = operator.refused_groups(&filter).await.map_err(|error| Failure::store(&error))?;
        let views = if self.groups { Vec::new() } else { page(operator, &filter, self.limit).await? };
        let total: u64 = groups.iter().map(|group| group.count).sum();
        if self.json {
            let groups: Vec<Value> = groups
                .iter()
                .map(|group| {
                    json!({
                        "consumer": group.consumer, "reason": group.reason, "count": group.count,
                        "oldest_seconds": group.oldest.as_secs(),
                    })
                })
                .collect();
            let messages: Vec<Value> = views.iter().map(view_json).collect();
            output::json::print(&json!({ "total": total, "groups": groups, "messages": messages }))?;
            return Ok(Exit::Good);
        }
        if total == 0 {
            output::print("no refused messages")?;
            return Ok(Exit::Good);
        }
        output::print(&group_table(&groups))?;
        if !self.groups {
            output::print(&format!("\n{}", view_table(&views, moment::now())))?;
            if u64::try_from(views.len()).unwrap_or(u64::MAX) < total {
                output::print(&format!("{} of {total}; --limit shows more", views.len()))?;
            }
        }
        Ok(Exit::Good)
    }
}

async fn page(operator: &mut dyn Operator, filter: &RefusedFilter, limit: u32) -> Outcome<Vec<RefusedView>> {
    operator.refused(filter, limit).await.map_err(|error| Failure::store(&error))
}

/// The groups as a table.
pub(super) fn group_table(groups: &[RefusedGroup]) -> String {
    let mut table = Table::new(&["count", "consumer", "oldest", "reason"]);
    for group in groups {
        table.row([group.count.to_string(), group.consumer.clone(), spoken(group.oldest), group.reason.clone()]);
    }
    table.render()
}

fn view_table(views: &[RefusedView], now: Timestamp) -> String {
    let mut table = Table::new(&["id", "consumer", "topic", "key", "refused", "times", "reason"]);
    for view in views {
        let message = &view.message;
        table.row([
            message.id.to_string(),
            view.consumer.clone(),
            message.topic.to_string(),
            message.key.as_ref().map_or("-".to_owned(), ToString::to_string),
            relative(view.refused_at, now),
            view.times.to_string(),
            view.reason.clone(),
        ]);
    }
    table.render()
}

/// A refused message; the payload only as its size.
fn view_json(view: &RefusedView) -> Value {
    let message = &view.message;
    json!({
        "id": message.id.to_string(), "consumer": view.consumer, "reason": view.reason,
        "refused_at": written(view.refused_at), "times": view.times,
        "topic": message.topic.as_str(), "key": message.key.as_ref().map(postrider_core::Key::as_str),
        "payload_bytes": message.payload.len(), "content_type": message.content_type, "headers": message.headers,
    })
}

impl Show {
    async fn run(&self, operator: &mut dyn Operator) -> Outcome<Exit> {
        let filter = RefusedFilter {
            ids: vec![MessageId(self.id)],
            consumer: self.consumer.clone(),
            ..RefusedFilter::default()
        };
        let views = page(operator, &filter, OF_ONE).await?;
        if views.is_empty() {
            return Err(Failure::bad(
                format!("no refused message has the id {}", self.id),
                "`postrider inbox list` shows those that there are; somebody else may have discarded it",
            ));
        }
        for view in &views {
            let mut value = view_json(view);
            let (text, encoding) = payload(&view.message.payload);
            value["payload"] = json!(text);
            value["payload_encoding"] = json!(encoding);
            if self.json {
                output::json::print(&value)?;
                continue;
            }
            let mut table = Table::new(&["field", "value"]);
            for (name, value) in value.as_object().into_iter().flatten() {
                match value {
                    Value::Null => {}
                    Value::String(text) => table.row([name.clone(), text.clone()]),
                    value => table.row([name.clone(), value.to_string()]),
                }
            }
            output::print(&table.render())?;
        }
        if !self.json {
            output::print(
                "next: look whether its effect is there. If it is, `postrider inbox discard --consumer NAME --id ID`; if \
                 not, handle it under a fresh id first (docs/exactly-once.md, \"What was refused\")",
            )?;
        }
        Ok(Exit::Good)
    }
}
