//! `postrider dead`: look at dead letters, replay or discard them.

use clap::{Args, Subcommand};
use postrider_core::{DeadFilter, DeadReason, MessageId, Operator, Position, RowId, RowState, RowView};
use serde_json::{Value, json};
use uuid::Uuid;

use super::dead_bulk::{Bulk, Change};
use super::dead_filter::Filter;
use super::standing;
use crate::config::Config;
use crate::config::values::spoken;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::moment;
use crate::output::table::{Table, visible};
use crate::{output, wiring};

/// Bytes of a payload that `show` prints.
const SHOWN_PAYLOAD: usize = 2_048;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider dead list --topic orders.placed
  postrider dead show 01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e
  postrider dead list --holding         # what holds its key
  postrider dead replay --key customer-42 --yes
  postrider dead replay --reason attempts --rate 100 --dry-run
  postrider dead discard --older-than 30d --yes";

/// Dead letters: messages given up on, kept for an operator.
#[derive(Debug, Args)]
pub(crate) struct Dead {
    /// What to do
    #[command(subcommand)]
    verb: DeadVerb,
}

/// What can be done with dead letters.
#[derive(Debug, Subcommand)]
enum DeadVerb {
    /// Print them, in groups and one by one
    #[command(after_help = "Example:\n  postrider dead list --reason attempts --older-than 1h")]
    List(List),
    /// Print everything about one, with the beginning of its payload
    #[command(after_help = "Example:\n  postrider dead show 01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e")]
    Show(Show),
    /// Make them pending again, with the same ids; a key that one of them held goes on behind it
    #[command(
        after_help = "Examples:\n  postrider dead replay 01939f7e-8b1c-7c3a-9b1e-2f6f5a0c1d2e\n  postrider dead replay --topic orders.placed --rate 100 --yes"
    )]
    Replay(Bulk),
    /// Remove them for good; a key that one of them held goes on
    #[command(after_help = "Example:\n  postrider dead discard --older-than 30d --dry-run")]
    Discard(Bulk),
}

/// Prints dead letters.
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

/// Prints one dead letter.
#[derive(Debug, Args)]
struct Show {
    /// The message id
    id: Uuid,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Dead {
    /// Does it.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        match &self.verb {
            DeadVerb::List(list) => list.run(&mut *wiring::operator(config).await?).await,
            DeadVerb::Show(show) => show.run(&mut *wiring::operator(config).await?).await,
            DeadVerb::Replay(bulk) => bulk.run(config, Change::Replay).await,
            DeadVerb::Discard(bulk) => bulk.run(config, Change::Discard).await,
        }
    }
}

impl List {
    async fn run(&self, operator: &mut dyn Operator) -> Outcome<Exit> {
        let filter = self.filter.read()?;
        let groups = operator.dead_groups(&filter).await.map_err(|error| Failure::store(&error))?;
        let rows = if self.groups { Vec::new() } else { page(operator, &filter, self.limit).await? };
        let total: u64 = groups.iter().map(|group| group.count).sum();
        if self.json {
            let groups: Vec<Value> = groups
                .iter()
                .map(|group| {
                    json!({
                        "topic": group.topic, "reason": group.reason.map(DeadReason::as_str), "count": group.count,
                        "oldest_seconds": group.oldest.as_secs(),
                    })
                })
                .collect();
            let now = moment::now();
            let rows: Vec<Value> = rows.iter().map(|row| standing::row_json(row, now)).collect();
            output::json::print(&json!({ "total": total, "groups": groups, "messages": rows }))?;
            return Ok(Exit::Good);
        }
        if total == 0 {
            output::print("no dead letters")?;
            return Ok(Exit::Good);
        }
        output::print(&group_table(&groups))?;
        if !self.groups {
            output::print(&format!("\n{}", row_table(&rows)))?;
            if u64::try_from(rows.len()).unwrap_or(u64::MAX) < total {
                output::print(&format!("{} of {total}; --limit shows more", rows.len()))?;
            }
        }
        Ok(Exit::Good)
    }
}

async fn page(operator: &mut dyn Operator, filter: &DeadFilter, limit: u32) -> Outcome<Vec<RowView>> {
    let position = Position { after: RowId(i64::MIN), limit };
    operator.dead(filter, position).await.map_err(|error| Failure::store(&error))
}

/// The groups as a table.
pub(super) fn group_table(groups: &[postrider_core::DeadGroup]) -> String {
    let mut table = Table::new(&["count", "topic", "reason", "oldest"]);
    for group in groups {
        let reason = group.reason.map_or("unknown", DeadReason::as_str);
        table.row([group.count.to_string(), group.topic.clone(), reason.to_owned(), spoken(group.oldest)]);
    }
    table.render()
}

fn row_table(rows: &[RowView]) -> String {
    let mut table = Table::new(&["id", "topic", "key", "reason", "attempts", "last failure"]);
    for row in rows {
        let message = &row.message;
        let reason = row.dead_reason.map_or("unknown", DeadReason::as_str);
        table.row([
            message.id.to_string(),
            message.topic.to_string(),
            message.key.as_ref().map_or("-".to_owned(), ToString::to_string),
            format!("{reason}{}", if row.state == Some(RowState::Holding) { ", holding" } else { "" }),
            row.attempts.to_string(),
            standing::last_failure(row).unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.render()
}

impl Show {
    async fn run(&self, operator: &mut dyn Operator) -> Outcome<Exit> {
        let filter = DeadFilter { ids: vec![MessageId(self.id)], ..DeadFilter::default() };
        let rows = page(operator, &filter, 10).await?;
        if rows.is_empty() {
            return Err(Failure::bad(
                format!("no dead letter has the id {}", self.id),
                format!("`postrider explain {}` tells where the message is", self.id),
            ));
        }
        let now = moment::now();
        for row in &rows {
            let mut value = standing::row_json(row, now);
            let (text, encoding) = payload(&row.message.payload);
            value["payload"] = json!(text);
            value["payload_encoding"] = json!(encoding);
            if self.json {
                output::json::print(&value)?;
                continue;
            }
            let mut table = Table::new(&["field", "value"]);
            for (name, value) in value.as_object().into_iter().flatten() {
                if name == "errors" {
                    continue;
                }
                let text = match value {
                    Value::Null => continue,
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                table.row([name.clone(), text]);
            }
            for failure in standing::failures(row) {
                let field = |name: &str| {
                    failure.get(name).map_or("?".to_owned(), |v| v.as_str().map_or(v.to_string(), str::to_owned))
                };
                let line = format!("{} {}: {} ({})", field("at"), field("destination"), field("text"), field("kind"));
                table.row(["failed".to_owned(), line]);
            }
            output::print(&table.render())?;
        }
        Ok(Exit::Good)
    }
}

/// The beginning of a payload: as text where it is text, else as base64.
pub(super) fn payload(bytes: &[u8]) -> (String, &'static str) {
    use base64::Engine;
    let part = &bytes[..bytes.len().min(SHOWN_PAYLOAD)];
    match std::str::from_utf8(part) {
        Ok(text) => (visible(text), "text"),
        Err(error) if error.error_len().is_none() && bytes.len() > SHOWN_PAYLOAD => {
            (visible(&String::from_utf8_lossy(&part[..error.valid_up_to()])), "text")
        }
        Err(_) => (base64::engine::general_purpose::STANDARD.encode(part), "base64"),
    }
}
