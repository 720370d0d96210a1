//! `postrider migrate`: the tables.

use clap::Args;

use crate::config::Config;
use crate::config::flags::SettingFlags;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{output, wiring};

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Examples:
  postrider migrate --store sqlite:app.db
  postrider migrate --store postgres://admin@db/shop --print > outbox.sql
  postrider migrate --store postgres://admin@db/shop --roles > roles.sql
  postrider migrate --check        # in CI: exit code 1 when the tables are behind";

/// Creates or upgrades the tables; safe to run by several at once and again.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Print the SQL of new tables and change nothing
    #[arg(long, conflicts_with = "check")]
    print: bool,
    /// Print the SQL of the roles (PostgreSQL: writer, receiver, relay, administrator) and change nothing
    #[arg(long, conflicts_with_all = ["check", "print"])]
    roles: bool,
    /// Change nothing; exit code 1 when the tables are missing or behind
    #[arg(long)]
    check: bool,
    /// The number of lanes of new tables
    #[arg(long, value_name = "N")]
    lanes: Option<String>,
}

impl Migrate {
    /// The settings among the flags.
    pub(crate) fn flags(&self) -> SettingFlags {
        let lanes = self.lanes.iter().map(|lanes| ("outbox.lanes".to_owned(), lanes.clone(), "lanes".to_owned()));
        SettingFlags(lanes.collect())
    }

    /// Prints, checks or migrates.
    pub(crate) async fn run(&self, config: &Config) -> Outcome<Exit> {
        if self.print {
            output::print(wiring::ddl(config)?.trim_end())?;
            return Ok(Exit::Good);
        }
        if self.roles {
            output::print(wiring::roles(config)?.trim_end())?;
            return Ok(Exit::Good);
        }
        if self.check {
            return match wiring::outstanding(config).await? {
                None => {
                    output::print("the tables are up to date")?;
                    Ok(Exit::Good)
                }
                Some(what) => Err(Failure::bad(what, "run `postrider migrate`")),
            };
        }
        output::print(&wiring::migrate(config).await?)?;
        Ok(Exit::Good)
    }
}
