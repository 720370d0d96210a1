//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::flags::SettingFlags;
use crate::config::keys::{FORMATS, LEVELS};
use crate::verbs;

/// What makes `--version` tell everything that is built in.
pub(crate) const VERBOSE: &str = "--verbose";

const AFTER: &str = "\
Flags beat variables (POSTRIDER_RETRY__MAX_ATTEMPTS), variables beat postrider.toml.

Exit codes: 0 done or well, 1 a bad answer (stuck, a failed check), 2 no answer (usage, configuration, database away),
3 refused without --yes, 130 ended by a second signal.

Example, without any file:
  postrider migrate --store sqlite:app.db
  postrider enqueue orders.placed --key 42 --payload '{\"order\":1}' --store sqlite:app.db
  postrider relay --store sqlite:app.db --broker stdout: --until-empty
`postrider --version --verbose` lists what is built in.";

/// A transactional outbox: messages written in your database's transactions, delivered at least once and in order.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, about, after_help = AFTER, max_term_width = 110)]
pub(crate) struct Cli {
    /// With --version: also the stores, brokers, TLS, target and features that are built in
    #[arg(long, requires = "version")]
    #[allow(dead_code, reason = "the version is printed before anything else is looked at")]
    verbose: bool,
    /// What every verb takes.
    #[command(flatten, next_help_heading = "Everywhere")]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The flags of every verb.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The configuration file [default: postrider.toml, if it is there; variable POSTRIDER_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where messages wait: postgres://user@host/database, sqlite:FILE, or what else --version --verbose lists
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Where messages go, in place of every [broker] of the file: stdout:, file:PATH, http(s)://..., nats://..., or what
    /// else --version --verbose lists
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) broker: Option<String>,
    /// How much is logged, to standard error
    #[arg(long, global = true, value_name = "LEVEL", value_parser = clap::builder::PossibleValuesParser::new(LEVELS))]
    pub(crate) log_level: Option<String>,
    /// How it is written
    #[arg(long, global = true, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(FORMATS))]
    pub(crate) log_format: Option<String>,
}

impl Global {
    /// The settings among them: path, value, name of the flag.
    pub(crate) fn settings(&self) -> Vec<(String, String, String)> {
        [
            ("outbox.store", &self.store, "store"),
            (crate::config::layers::QUICK_BROKER, &self.broker, "broker"),
            ("log.level", &self.log_level, "log-level"),
            ("log.format", &self.log_format, "log-format"),
        ]
        .into_iter()
        .filter_map(|(path, value, flag)| Some((path.to_owned(), value.clone()?, flag.to_owned())))
        .collect()
    }
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the whole of it at work for 20 seconds, without any server
    #[cfg(feature = "demo")]
    #[command(after_help = verbs::demo::EXAMPLE)]
    Demo(verbs::demo::Demo),
    /// Write a commented postrider.toml
    #[command(after_help = verbs::init::EXAMPLE)]
    Init(verbs::init::Init),
    /// Create or upgrade the tables
    #[command(after_help = verbs::migrate::EXAMPLE)]
    Migrate(verbs::migrate::Migrate),
    /// Run the relay: move messages from the outbox to the broker
    #[command(after_help = verbs::relay::EXAMPLE)]
    Relay(verbs::relay::Relay),
    /// Write messages into the outbox, in one transaction
    #[command(after_help = verbs::enqueue::EXAMPLE)]
    Enqueue(verbs::enqueue::Enqueue),
    /// Show the backlog, the relays and a verdict
    #[command(after_help = verbs::status::EXAMPLE)]
    Status(verbs::status::Status),
    /// Say where a message, or every message of a key, is and why
    #[command(after_help = verbs::explain::EXAMPLE)]
    Explain(verbs::explain::Explain),
    /// Look at dead letters, replay or discard them
    #[command(after_help = verbs::dead::EXAMPLE)]
    Dead(verbs::dead::Dead),
    /// Show what receivers handled and refused; look at what was refused, and discard it
    #[command(after_help = verbs::inbox::EXAMPLE)]
    Inbox(verbs::inbox::Inbox),
    /// Remove what is past its retention, once
    #[command(after_help = verbs::prune::EXAMPLE)]
    Prune(verbs::prune::Prune),
    /// Look for what weakens a promise, and say what to do about it
    #[command(after_help = verbs::check::EXAMPLE)]
    Check(verbs::check::Check),
    /// Measure this installation: drain rate and latency, with a verdict beside each figure
    #[command(after_help = verbs::bench::EXAMPLE)]
    Bench(verbs::bench::Bench),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Print the completions of a shell
    #[command(after_help = verbs::completions::EXAMPLE)]
    Completions(verbs::completions::Completions),
}

/// What can be done with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print what is in force and where it comes from, without secrets
    #[command(after_help = verbs::config::EXAMPLE)]
    Show(verbs::config::Show),
}

impl Verb {
    /// The settings given as flags of the verb itself.
    pub(crate) fn settings(&self) -> Vec<(String, String, String)> {
        let SettingFlags(flags) = match self {
            Self::Relay(relay) => relay.flags(),
            Self::Config(ConfigVerb::Show(show)) => show.settings.clone(),
            Self::Prune(prune) => prune.flags(),
            Self::Migrate(migrate) => migrate.flags(),
            #[cfg(feature = "demo")]
            Self::Demo(_) => SettingFlags::default(),
            Self::Init(_)
            | Self::Enqueue(_)
            | Self::Status(_)
            | Self::Explain(_)
            | Self::Dead(_)
            | Self::Inbox(_)
            | Self::Check(_)
            | Self::Bench(_)
            | Self::Completions(_) => SettingFlags::default(),
        };
        flags
    }
}
