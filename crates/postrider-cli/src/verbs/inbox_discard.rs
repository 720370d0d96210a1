//! Discarding refused messages: counted first, confirmed, in small transactions.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use postrider_core::{MessageId, Operator, RefusedFilter};
use serde_json::json;
use tokio::time::Instant;

use super::inbox::group_table;
use super::inbox_filter::Filter;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Rows that one transaction removes: small, so that the application never waits for it.
const BATCH: u32 = 500;

/// Which refused messages, and how.
#[derive(Debug, Args)]
pub(crate) struct Discard {
    /// Which ones
    #[command(flatten)]
    filter: Filter,
    /// Count, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Needed unless single messages are named, of one consumer
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Discard {
    /// Counts, asks for the confirmation, removes.
    pub(crate) async fn run(&self, mut operator: Box<dyn Operator>) -> Outcome<Exit> {
        let (filter, started) = (self.filter.read()?, Instant::now());
        let groups = operator.refused_groups(&filter).await.map_err(|error| Failure::store(&error))?;
        let total: u64 = groups.iter().map(|group| group.count).sum();
        if total == 0 {
            return self.nothing();
        }
        // What one consumer handled another one may not have: an id alone names the message of each.
        let consumers: BTreeSet<&str> = groups.iter().map(|group| group.consumer.as_str()).collect();
        let is_plain = self.filter.names_messages() && consumers.len() == 1;
        if self.dry_run || !(self.yes || is_plain) {
            if self.json {
                output::json::print(&json!({ "dry_run": true, "matching": total }))?;
            } else {
                output::print(&format!("{}\n{total} would be discarded", group_table(&groups)))?;
            }
            return if self.dry_run {
                Ok(Exit::Good)
            } else {
                let next = if self.filter.names_messages() {
                    "several consumers refused it: name one of them with --consumer, or repeat it with --yes for all"
                } else {
                    "repeat `postrider inbox discard` with --yes"
                };
                Err(Failure::refused(format!("{total} refused messages match and nothing was changed"), next))
            };
        }
        let ids = remove(&mut *operator, &filter, started).await?;
        if self.json {
            let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
            output::json::print(&json!({ "discarded": ids.len(), "matching": total, "ids": texts }))?;
        } else {
            output::print(&format!("discarded {} of {total}", ids.len()))?;
        }
        Ok(Exit::Good)
    }

    /// Nothing found is a bad answer, however it was looked for.
    fn nothing(&self) -> Outcome<Exit> {
        if self.json {
            output::json::print(&json!({ "discarded": 0, "matching": 0, "ids": [] }))?;
            return Ok(Exit::Bad);
        }
        let next = "`postrider inbox list` shows the refused messages there are; somebody else may have been faster";
        Err(Failure::bad("no refused message matches", next))
    }
}

/// Only what was refused when this began: nobody has seen what came since.
async fn remove(operator: &mut dyn Operator, filter: &RefusedFilter, started: Instant) -> Outcome<Vec<MessageId>> {
    let mut ids = Vec::new();
    loop {
        let age: Duration = filter.older_than.unwrap_or_default() + started.elapsed();
        let before = RefusedFilter { older_than: Some(age), ..filter.clone() };
        let some = operator.discard_refused(&before, BATCH).await.map_err(|error| Failure::store(&error))?;
        if some.is_empty() {
            return Ok(ids);
        }
        ids.extend(some);
    }
}
