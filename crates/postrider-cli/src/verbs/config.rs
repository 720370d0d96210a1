//! `postrider config show`: what is in force, and why.

use clap::Args;

use crate::config::flags::SettingFlags;
use crate::config::{Config, show};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::{self, json, table::Table};

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Example:
  POSTRIDER_RETRY__MAX_ATTEMPTS=3 postrider config show --store sqlite:app.db";

/// Prints the effective configuration.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Every setting
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

impl Show {
    /// Prints it.
    pub(crate) fn run(&self, config: &Config) -> Outcome<Exit> {
        let lines = show::effective(config);
        if self.json {
            json::print(&serde_json::to_value(&lines).unwrap_or_default())?;
            return Ok(Exit::Good);
        }
        let mut table = Table::new(&["setting", "value", "origin"]);
        for line in lines {
            table.row([line.key, line.value.unwrap_or_else(|| "-".to_owned()), line.origin]);
        }
        output::print(&table.render())?;
        Ok(Exit::Good)
    }
}
