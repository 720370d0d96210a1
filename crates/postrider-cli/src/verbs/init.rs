//! `postrider init`: a commented configuration file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use postrider_brokers::BrokerConfig;
use postrider_stores::MigrateOptions;

use crate::cli::Global;
use crate::config::layers::DEFAULT_FILE;
use crate::config::template;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output;

/// For `--help`.
pub(crate) const EXAMPLE: &str = "Example:
  postrider init --store postgres://app@localhost/shop --broker nats://localhost:4222";

/// Writes a commented postrider.toml and never overwrites one.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Where to write it [default: postrider.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print it instead
    #[arg(long)]
    print: bool,
}

impl Init {
    /// Writes or prints the file.
    pub(crate) fn run(&self, global: &Global) -> Outcome<Exit> {
        can_be_used(global)?;
        let text = template::text(global.store.as_deref(), global.broker.as_deref());
        if self.print {
            output::print(text.trim_end())?;
            return Ok(Exit::Good);
        }
        let path = self.file.clone().or_else(|| global.config.clone()).unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // The store's address may hold a password.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Failure::refused(
                format!("{shown} is there already and is left as it is"),
                "name another file, or print the example with `postrider init --print`",
            ),
            _ => Failure::usage(
                format!("cannot write {shown}: {error}"),
                "name a file in a folder that you may write to",
            ),
        })?;
        file.write_all(text.as_bytes()).map_err(|error| {
            Failure::usage(format!("cannot write {shown}: {error}"), "free the disk, then run this again")
        })?;
        output::print(&format!("wrote {shown}\nnext: edit it, then `postrider migrate` creates the tables"))?;
        Ok(Exit::Good)
    }
}

/// That the addresses are of kinds that there are: a file that cannot work is not written.
fn can_be_used(global: &Global) -> Outcome<()> {
    if let Some(store) = &global.store {
        postrider_stores::ddl(store, &MigrateOptions::default()).map_err(|error| Failure::store(&error))?;
    }
    if let Some(broker) = &global.broker {
        postrider_brokers::backend(&BrokerConfig::new(broker)).map_err(|error| Failure::broker(&error))?;
    }
    Ok(())
}
