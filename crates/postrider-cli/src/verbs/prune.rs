//! `postrider prune`: retention, once, for cron.

use std::time::Duration;

use clap::Args;
use postrider_core::{Archive, Operator, Pruned, Retention};
use postrider_relay::Archiving;
use serde_json::json;

use crate::config::flags::SettingFlags;
use crate::config::{Config, values};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{output, wiring};

/// Rows of each kind that one transaction removes: small, so that the application never waits for it.
const BATCH: u32 = 1_000;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Example:
  postrider prune --delivered 7d --dead 90d --dry-run
  postrider prune --dead 90d --archive 'file:archive.jsonl?rotate_size=64MiB'";

/// Removes delivered messages and dead letters that are past their retention, in small transactions.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Count, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How long delivered messages are kept (retention.delivered)
    #[arg(long, value_name = "TIME")]
    delivered: Option<String>,
    /// How long dead letters are kept (retention.dead)
    #[arg(long, value_name = "TIME")]
    dead: Option<String>,
    /// Where rows are kept before they are removed (retention.archive): file:PATH
    #[arg(long, value_name = "URL")]
    archive: Option<String>,
}

impl Prune {
    /// The settings among the flags.
    pub(crate) fn flags(&self) -> SettingFlags {
        let flags = [
            ("retention.delivered", &self.delivered, "delivered"),
            ("retention.dead", &self.dead, "dead"),
            ("retention.archive", &self.archive, "archive"),
        ];
        let given = flags
            .into_iter()
            .filter_map(|(path, value, flag)| value.clone().map(|value| (path.to_owned(), value, flag.to_owned())));
        SettingFlags(given.collect())
    }

    /// Counts or removes.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        let retention = config.retention;
        if retention == Retention::default() {
            return Err(Failure::usage(
                "nothing has a retention: everything is kept for ever",
                "say what may go: --delivered 7d, --dead 90d, or [retention] in postrider.toml",
            ));
        }
        let archive = wiring::archive(config)?;
        let mut operator = wiring::operator(config).await?;
        let pruned = if self.dry_run {
            operator.prunable(&retention).await.map_err(|error| Failure::store(&error))?
        } else {
            remove(&mut *operator, &retention, archive.as_deref()).await?
        };
        if self.json {
            output::json::print(&json!({
                "dry_run": self.dry_run, "delivered": pruned.delivered, "dead": pruned.dead,
            }))?;
            return Ok(Exit::Good);
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        let kept = |time: Option<Duration>| {
            time.map_or("kept for ever".to_owned(), |time| format!("older than {}", values::spoken(time)))
        };
        output::print(&format!(
            "{verb} {} delivered ({}) and {} dead ({})",
            pruned.delivered,
            kept(retention.delivered),
            pruned.dead,
            kept(retention.dead)
        ))?;
        Ok(Exit::Good)
    }
}

async fn remove(operator: &mut dyn Operator, retention: &Retention, archive: Option<&dyn Archive>) -> Outcome<Pruned> {
    let mut total = Pruned::default();
    let mut archiving = Archiving::default();
    loop {
        let pruned = match archive {
            Some(archive) => archiving.prune(operator, archive, retention, Duration::MAX).await,
            None => operator.prune(retention, BATCH).await,
        };
        let pruned = pruned.map_err(|error| Failure::store(&error))?;
        total.delivered += pruned.delivered;
        total.dead += pruned.dead;
        if pruned.delivered == 0 && pruned.dead == 0 {
            return Ok(total);
        }
    }
}
