//! What a run is asked to be.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::plan::Kind;
use crate::receivers::ConsumerKind;

/// Where messages wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// A private PostgreSQL.
    Postgres,
    /// A private MariaDB.
    Mariadb,
    /// A private MySQL.
    Mysql,
    /// A file.
    Sqlite,
}

/// Where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BrokerKind {
    /// A private NATS with JetStream.
    Nats,
    /// A receiver inside this program.
    Http,
    /// A file of JSON lines; one relay at a time.
    File,
    /// A private Kafka of one node.
    Kafka,
    /// A private Kafka of three nodes, of which two must have a message; one of them is hurt at a time, in turn.
    Kafka3,
}

impl BrokerKind {
    /// Whether it is ended at once now and then, and not only stopped in good order.
    pub fn is_killed(self) -> bool {
        matches!(self, Self::Nats | Self::Kafka | Self::Kafka3)
    }
}

/// Real relays, real servers, faults by a seed, and a verdict.
#[derive(Debug, Clone, Parser)]
#[command(name = "torture", about = "Real relays, real servers, faults drawn from a seed, and a verdict", after_help = EXITS)]
pub struct Settings {
    /// Fixes the load and the faults; the machine's scheduling stays free
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How long the load lasts, in minutes
    #[arg(long, default_value_t = 2.0)]
    pub minutes: f64,
    /// Where messages wait
    #[arg(long, value_enum, default_value = "postgres")]
    pub store: StoreKind,
    /// Where they go
    #[arg(long, value_enum, default_value = "nats")]
    pub broker: BrokerKind,
    /// Receivers with one effect for each message, killed all the while; with NATS, a cursor with Kafka
    #[arg(long, value_enum)]
    pub consumer: Option<ConsumerKind>,
    /// Relays at a time
    #[arg(long, default_value_t = 3)]
    pub relays: usize,
    /// Writers at a time
    #[arg(long, default_value_t = 8)]
    pub writers: usize,
    /// Transactions per second, of all writers
    #[arg(long, default_value_t = 100)]
    pub rate: u32,
    /// Keys of the serialised writers
    #[arg(long, default_value_t = 100)]
    pub keys: u16,
    /// The lease of the relays, in milliseconds
    #[arg(long, default_value_t = 3000)]
    pub lease_ms: u64,
    /// The mean time between the beginnings of two faults, in milliseconds
    #[arg(long, default_value_t = 3500)]
    pub mean_gap_ms: u64,
    /// Fault kinds, parted by commas; all, or none. A kind with - in front is left out of all
    #[arg(long, default_value = "all", allow_hyphen_values = true)]
    pub faults: String,
    /// The relay's program
    #[arg(long, value_name = "FILE")]
    pub relay_bin: PathBuf,
    /// A second program; every other relay runs it, as in a rolling upgrade
    #[arg(long, value_name = "FILE")]
    pub other_relay_bin: Option<PathBuf>,
    /// The commit of the second program, for the report
    #[arg(long, requires = "other_relay_bin")]
    pub other_commit: Option<String>,
    /// Where logs, report.json and report.svg go
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// The commit that is tortured, for the report
    #[arg(long, default_value = "unknown")]
    pub commit: String,
    /// The build that is tortured, for the report
    #[arg(long, default_value = "release")]
    pub build: String,
}

/// For `--help`.
const EXITS: &str = "Exit codes: 0 pass, 1 violation, 2 harness error, 3 inconclusive";

impl Settings {
    /// How long the load lasts.
    pub fn load(&self) -> Duration {
        Duration::from_secs_f64(self.minutes.clamp(0.1, 24.0 * 60.0) * 60.0)
    }

    /// The lease of the relays.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The kinds of faults that were chosen.
    ///
    /// # Errors
    /// When a name is not one of a kind, or the kind makes no sense here.
    pub fn kinds(&self) -> Result<Vec<Kind>, String> {
        let possible: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| kind.fits(self.store, self.broker)).collect();
        let words: Vec<&str> = self.faults.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let find = |name: &str| {
            possible.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
                let names: Vec<_> = possible.iter().map(|kind| kind.name()).collect();
                format!("there is no fault {name:?} here; there are: {}", names.join(", "))
            })
        };
        let mut chosen = Vec::new();
        for word in words {
            match word.strip_prefix('-') {
                Some(name) => {
                    let out = find(name)?;
                    chosen.retain(|kind| *kind != out);
                }
                None if word == "all" => chosen = possible.clone(),
                None if word == "none" => chosen.clear(),
                None => chosen.push(find(word)?),
            }
        }
        Ok(chosen)
    }
}
