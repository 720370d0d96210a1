//! `postrider init`: a commented configuration file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use postrider_brokers::BrokerConfig;

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
        let lacking = lacking(global.store.as_deref(), global.broker.as_deref())?;
        let text = template::text(global.store.as_deref(), global.broker.as_deref());
        if self.print {
            output::print(text.trim_end())?;
            if !lacking.is_empty() {
                // Standard output is the file.
                let _ = writeln!(std::io::stderr(), "{}", told(&lacking));
            }
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
        output::print(&format!("wrote {shown}\n{}", told(&lacking)))?;
        Ok(Exit::Good)
    }
}

/// The features that the addresses need and this program was built without.
///
/// # Errors
/// Where an address is of a kind that there is not: a file that cannot work anywhere is not written.
fn lacking(store: Option<&str>, broker: Option<&str>) -> Outcome<Vec<&'static str>> {
    let mut features = Vec::new();
    if let Some(store) = store {
        let kind = postrider_stores::kind(store).map_err(|error| Failure::store(&error))?;
        if !kind.is_built_in() {
            features.push(kind.feature);
        }
    }
    if let Some(broker) = broker {
        let found = postrider_brokers::backend(&BrokerConfig::new(broker)).map_err(|error| Failure::broker(&error))?;
        if !found.is_built_in() {
            features.push(found.feature);
        }
    }
    Ok(features)
}

/// What to do with the file, in a program that was built without these features.
fn told(lacking: &[&str]) -> String {
    if lacking.is_empty() {
        return "next: edit it, then `postrider migrate` creates the tables".to_owned();
    }
    let features = lacking.join(",");
    format!(
        "warning: this program was built without what the addresses need; build it with --features {features}\n\
         next: edit it, then `postrider check` of that build says whether it can be used"
    )
}

#[cfg(test)]
mod tests {
    use postrider_stores::KINDS;

    use super::*;

    #[test]
    fn a_file_for_another_build_comes_with_the_features_that_build_needs() {
        assert_eq!(told(&[]), "next: edit it, then `postrider migrate` creates the tables");
        let lines = told(&["owl", "pigeon"]);
        let (warning, next) = lines.split_once('\n').unwrap();
        assert!(warning.starts_with("warning: ") && warning.ends_with("--features owl,pigeon"), "{lines}");
        assert!(next.starts_with("next: ") && next.contains("`postrider check`"), "{lines}");
    }

    /// In every build: what is not there is named, and what is there is not.
    #[test]
    fn an_address_of_a_kind_that_is_not_built_in_needs_its_feature() {
        for kind in KINDS {
            let features = lacking(Some(&format!("{}://u@h/d", kind.schemes[0])), None).unwrap();
            assert_eq!(features, if kind.is_built_in() { vec![] } else { vec![kind.feature] });
        }
        for kind in postrider_brokers::backends() {
            let features = lacking(None, Some(&format!("{}://h", kind.schemes[0]))).unwrap();
            assert_eq!(features, if kind.is_built_in() { vec![] } else { vec![kind.feature] });
        }
    }
}
