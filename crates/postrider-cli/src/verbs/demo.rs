//! `postrider demo`: the main job without any server, with faults, to watch.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::Global;
use crate::config::Log;
use crate::demo::{self, Orders, Plan};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::logs;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider demo
  postrider demo --seconds 60 --rate 500
  postrider demo --consumer
  postrider demo --keep /tmp/demo && postrider dead list --store sqlite:/tmp/demo/demo.db
It reads no configuration and needs no server. Ctrl-C ends the writing early; what was written is still delivered and
judged. Exit codes: 0 the verdict holds, 1 it does not, 2 the demo could not run.";

/// Shows an order service, relays and a consumer on SQLite and HTTP, with faults, and judges what arrived.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How long orders are written, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3_600))]
    seconds: u64,
    /// Transactions a second
    #[arg(long, value_name = "RATE", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// What faults and choices are drawn from; the same seed draws the same ones
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Let the consumer ship each order once, by its inbox, while many messages come again
    #[arg(long)]
    consumer: bool,
    /// Keep the database in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

impl Demo {
    /// Runs it.
    pub(crate) async fn run(&self, global: &Global) -> Outcome<Exit> {
        if global.store.is_some() || global.broker.is_some() {
            return Err(Failure::usage(
                "the demo brings its own database and its own consumer",
                "leave out --store and --broker; --keep DIR keeps the database",
            ));
        }
        // Logs would tear the picture, so there are none unless they are asked for.
        if let Some(level) = global.log_level.clone() {
            let format = global.log_format.clone().unwrap_or_else(|| "text".to_owned());
            logs::start(&Log { level, format });
        }
        let length = Duration::from_secs(self.seconds);
        let orders = if self.consumer { Orders::Shipped } else { Orders::WrittenDown };
        demo::run(Plan { length, rate: self.rate, seed: self.seed, orders, keep: self.keep.clone() }).await
    }
}
