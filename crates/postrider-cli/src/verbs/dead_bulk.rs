//! Changing many dead letters: counted first, confirmed, at a bounded rate, with progress.

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use postrider_core::{DeadFilter, MessageId, Operator, RowState};
use serde_json::json;
use tokio::time::Instant;

use super::dead::group_table;
use super::dead_filter::Filter;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::progress;
use crate::{output, wiring};

/// Rows that one transaction changes: small, so that the application never waits for it.
const BATCH: u32 = 500;
/// How often a bounded rate hands out its share.
const TICK: Duration = Duration::from_millis(100);

/// Which dead letters, and how.
#[derive(Debug, Args)]
pub(crate) struct Bulk {
    /// Which ones
    #[command(flatten)]
    filter: Filter,
    /// Count, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Needed unless single messages are named
    #[arg(long, short)]
    yes: bool,
    /// At most so many per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is done to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Made pending again.
    Replay,
    /// Removed for good.
    Discard,
}

impl Change {
    const fn past(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::Discard => "discarded",
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Discard => "discard",
        }
    }

    /// What is printed behind the count.
    const fn next(self) -> &'static str {
        match self {
            Self::Replay => "\nnext: a running relay sends them; `postrider status` shows how far it is",
            Self::Discard => "",
        }
    }

    /// What is changed one after the other. What holds a key is replayed last, so that every other dead letter of the
    /// key stands in its place before anything behind the head goes.
    fn passes(self, filter: &DeadFilter) -> Vec<DeadFilter> {
        let in_state = |state| DeadFilter { state: Some(state), ..filter.clone() };
        match (self, filter.state) {
            (Self::Replay, None) => vec![in_state(RowState::Dead), in_state(RowState::Holding)],
            (Self::Replay, Some(_)) | (Self::Discard, _) => vec![filter.clone()],
        }
    }

    async fn batch(self, operator: &mut dyn Operator, filter: &DeadFilter, limit: u32) -> Outcome<Vec<MessageId>> {
        let changed = match self {
            Self::Replay => operator.replay(filter, limit).await,
            Self::Discard => operator.discard(filter, limit).await,
        };
        changed.map_err(|error| Failure::store(&error))
    }
}

/// How far it has come.
struct Run {
    operator: Box<dyn Operator>,
    total: u64,
    started: Instant,
    bar: ProgressBar,
    ids: Vec<MessageId>,
}

impl Bulk {
    /// Counts, asks for the confirmation, changes.
    pub(crate) async fn run(&self, config: &Config, change: Change) -> Outcome<Exit> {
        let filter = self.filter.read()?;
        let mut operator = wiring::operator(config).await?;
        let started = Instant::now();
        let groups = operator.dead_groups(&filter).await.map_err(|error| Failure::store(&error))?;
        let total: u64 = groups.iter().map(|group| group.count).sum();
        if total == 0 {
            return self.nothing(change);
        }
        if self.dry_run || !(self.yes || self.filter.names_messages()) {
            if self.json {
                output::json::print(&json!({ "dry_run": true, "matching": total }))?;
            } else {
                output::print(&format!("{}\n{total} would be {}", group_table(&groups), change.past()))?;
            }
            return if self.dry_run {
                Ok(Exit::Good)
            } else {
                Err(Failure::refused(
                    format!("{total} dead letters match and nothing was changed"),
                    format!("repeat `postrider dead {}` with --yes", change.verb()),
                ))
            };
        }
        let bar = progress::bar(total, change.past());
        let mut run = Run { operator, total, started, bar, ids: Vec::new() };
        for filter in change.passes(&filter) {
            self.change(&mut run, change, &filter).await?;
        }
        run.bar.finish_and_clear();
        let ids = run.ids;
        if self.json {
            let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
            output::json::print(&json!({ change.past(): ids.len(), "matching": total, "ids": texts }))?;
        } else {
            output::print(&format!("{} {} of {total}{}", change.past(), ids.len(), change.next()))?;
        }
        Ok(Exit::Good)
    }

    /// Nothing found is a bad answer, however it was looked for.
    fn nothing(&self, change: Change) -> Outcome<Exit> {
        if self.json {
            output::json::print(&json!({ change.past(): 0, "matching": 0, "ids": [] }))?;
            return Ok(Exit::Bad);
        }
        let next = if self.filter.names_messages() {
            "`postrider explain ID` tells where the message is; somebody else may have been faster"
        } else {
            "`postrider dead list` shows the dead letters there are; somebody else may have been faster"
        };
        Err(Failure::bad("no dead letter matches", next))
    }

    /// Changes what the filter means, some at a time.
    async fn change(&self, run: &mut Run, change: Change, filter: &DeadFilter) -> Outcome<()> {
        loop {
            let done = u64::try_from(run.ids.len()).unwrap_or(u64::MAX);
            let left = u32::try_from(run.total.saturating_sub(done)).unwrap_or(u32::MAX);
            let allowed = self.allowed(done, run.started.elapsed()).min(left);
            if left == 0 {
                return Ok(());
            }
            if allowed == 0 {
                tokio::time::sleep(TICK).await;
                continue;
            }
            let batch = change.batch(&mut *run.operator, &since(filter, run.started.elapsed()), allowed).await?;
            if batch.is_empty() {
                return Ok(());
            }
            run.bar.inc(u64::try_from(batch.len()).unwrap_or(0));
            run.ids.extend(batch);
        }
    }

    /// How many may go now: the rate's share of the time that has passed, without a burst above one second's share.
    fn allowed(&self, done: u64, elapsed: Duration) -> u32 {
        let Some(rate) = self.rate else { return BATCH };
        let share = u128::from(rate) * (elapsed + TICK).as_millis() / 1_000;
        let share = share.max(1).saturating_sub(u128::from(done));
        u32::try_from(share).unwrap_or(u32::MAX).min(rate).min(BATCH)
    }
}

/// Only what was dead when this began: a message that dies again meanwhile is not replayed twice, and does not keep
/// the others from their turn.
fn since(filter: &DeadFilter, elapsed: Duration) -> DeadFilter {
    DeadFilter { older_than: Some(filter.older_than.unwrap_or_default() + elapsed), ..filter.clone() }
}
