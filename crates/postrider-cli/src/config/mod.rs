//! The configuration: read in layers, checked once, then plain values.

mod archive;
mod creds;
pub(crate) mod flags;
mod given_up;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod nearest;
mod reader;
#[cfg(test)]
mod reference;
mod routing;
mod sections;
pub(crate) mod show;
pub(crate) mod template;
mod unknown;
pub(crate) mod values;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::machine::Ordering;
use postrider_core::{DestinationTemplate, LaneCount, OnDead, Retention, RetryPolicy, Secret, TopicPattern};

use layers::Layers;

use crate::failure::Outcome;

/// Where messages wait.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    /// The address, with its password where it has one.
    pub(crate) store: Option<Secret>,
    /// The schema of the tables; none for the store's default.
    pub(crate) schema: Option<String>,
    /// What the tables' names begin with; none for the default.
    pub(crate) prefix: Option<String>,
    /// The number of lanes of new tables; none for the store's default.
    pub(crate) lanes: Option<LaneCount>,
    /// What stands before the database; none for the store's default.
    pub(crate) pooling: Option<String>,
    /// How long delivered messages are kept; none keeps none.
    pub(crate) history: Option<Duration>,
}

/// How the relay runs.
#[derive(Debug, Clone)]
pub(crate) struct Relay {
    /// Its label.
    pub(crate) name: String,
    /// Rows of the window.
    pub(crate) window_rows: usize,
    /// Bytes of the window.
    pub(crate) window_bytes: usize,
    /// Which messages wait for each other.
    pub(crate) ordering: Ordering,
    /// The longest pause between reads.
    pub(crate) poll_interval: Duration,
    /// The lease; none for the store's default.
    pub(crate) lease: Option<Duration>,
    /// How long a graceful stop may take.
    pub(crate) stop_deadline: Duration,
    /// The longest pause between two probes of a destination.
    pub(crate) max_pause: Duration,
    /// How long `--until-empty` waits for a paused destination.
    pub(crate) patience: Duration,
}

/// Where messages go.
#[derive(Debug, Clone)]
pub(crate) struct BrokerSection {
    /// Its name in the configuration.
    pub(crate) name: String,
    /// Its address, with its password where it has one.
    pub(crate) url: Secret,
    /// Its own options, as they were written.
    pub(crate) options: toml::Table,
}

/// Which topics go where: a destination.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// Its name, in the table and in metrics.
    pub(crate) name: String,
    /// The topics.
    pub(crate) topics: Vec<TopicPattern>,
    /// The name of the broker.
    pub(crate) broker: String,
    /// The place in it.
    pub(crate) destination: DestinationTemplate,
}

impl Route {
    /// Whether messages of a topic go there.
    pub(crate) fn leads(&self, topic: &str) -> bool {
        self.topics.iter().any(|pattern| pattern.matches(topic))
    }

    /// The topics, as they were written.
    pub(crate) fn spoken_topics(&self) -> String {
        self.topics.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Where dead letters are forwarded.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    /// The name of the broker.
    pub(crate) broker: String,
    /// The place in it.
    pub(crate) destination: DestinationTemplate,
}

/// What the destination of dead letters is called, in the table and in metrics.
pub(crate) const DEAD_LETTERS: &str = "dead-letters";

/// Who is told of messages that are given up.
#[derive(Debug, Clone)]
pub(crate) struct Notify {
    /// Where.
    pub(crate) url: Secret,
    /// What signs the requests.
    pub(crate) secret: Option<Secret>,
    /// The option `egress` of the http broker.
    pub(crate) egress: serde_json::Value,
}

/// The admin address.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    /// Where it listens; none when it is off.
    pub(crate) listen: Option<SocketAddr>,
    /// What callers present.
    pub(crate) token: Option<Secret>,
}

/// How logs are written.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    /// The level.
    pub(crate) level: String,
    /// `text` or `json`.
    pub(crate) format: String,
}

/// Everything in force.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where messages wait.
    pub(crate) outbox: Outbox,
    /// How the relay runs.
    pub(crate) relay: Relay,
    /// When to try again.
    pub(crate) retry: RetryPolicy,
    /// The same for some topics; the first that matches wins.
    pub(crate) topics: Vec<(TopicPattern, RetryPolicy)>,
    /// What becomes of messages that are given up; the first entry that matches wins, and the last is for every topic.
    pub(crate) on_dead: Vec<(TopicPattern, OnDead)>,
    /// The brokers.
    pub(crate) brokers: Vec<BrokerSection>,
    /// The routes.
    pub(crate) routes: Vec<Route>,
    /// Where dead letters are forwarded, if any are.
    pub(crate) forward: Option<Forward>,
    /// Who is told of messages that are given up, if anybody is.
    pub(crate) notify: Option<Notify>,
    /// How long what is settled is kept.
    pub(crate) retention: Retention,
    /// The address of the archive of what retention removes, if there is one.
    pub(crate) archive: Option<String>,
    /// How long the inbox remembers what was handled; none where the relay leaves that alone.
    pub(crate) inbox: Option<Duration>,
    /// The admin address.
    pub(crate) admin: Admin,
    /// How logs are written.
    pub(crate) log: Log,
    /// Where each value comes from.
    pub(crate) layers: Layers,
}

impl Config {
    /// Checks the layers and reads the values.
    pub(crate) fn from_layers(layers: Layers) -> Outcome<Self> {
        sections::read(layers)
    }

    /// Every secret in it, for the masks.
    pub(crate) fn secrets(&self) -> Vec<String> {
        sections::secrets(self)
    }

    /// The names in it that are no secrets, in lower case: a secret that is also one of them is an ordinary word.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        sections::names(self)
    }
}

/// The file to read: the one named, or the one of the current folder when it is there.
pub(crate) fn file_to_read(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        let default = PathBuf::from(layers::DEFAULT_FILE);
        default.exists().then_some(default)
    })
}
