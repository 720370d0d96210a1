//! What `/status` says: the relay's own memory as JSON. The names are a promise (docs/compatibility.md).

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the relay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RelayState {
    /// The outbox is not open yet.
    Starting,
    /// Other relays have every lane: it takes over when one of them ends.
    Standby,
    /// It moves messages, or has none to move.
    Relaying,
    /// The outbox cannot be reached.
    StoreAway,
    /// It finishes what is in flight.
    Stopping,
    /// It has ended.
    Stopped,
}

impl fmt::Display for RelayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Relaying => "relaying",
            Self::StoreAway => "store away",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        })
    }
}

/// One destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DestinationReport {
    /// Its name.
    pub(crate) name: String,
    /// For how long it has been paused; none when it is not.
    pub(crate) paused_seconds: Option<f64>,
    /// For how long it has answered nothing, where what waits for it left memory for that.
    #[serde(default)]
    pub(crate) silent_seconds: Option<f64>,
    /// Why it is paused.
    pub(crate) cause: Option<String>,
    /// The kind of that failure.
    pub(crate) kind: Option<String>,
    /// Messages accepted there.
    pub(crate) accepted: u64,
    /// Attempts that failed there.
    pub(crate) failed: u64,
    /// The message that failed there last; none where none did.
    #[serde(default)]
    pub(crate) last_failed_id: Option<String>,
    /// Its topic.
    #[serde(default)]
    pub(crate) last_failed_topic: Option<String>,
}

/// One relay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Its label.
    pub(crate) relay: String,
    /// The program's version.
    pub(crate) version: String,
    /// What it is doing.
    pub(crate) state: RelayState,
    /// Why it is in this state, where that needs telling.
    pub(crate) because: Option<String>,
    /// What to do about it, where that is known: the end of `because`.
    #[serde(default)]
    pub(crate) next: Option<String>,
    /// Lanes it holds.
    pub(crate) lanes: u64,
    /// Which messages wait for each other; none while that is not known.
    #[serde(default)]
    pub(crate) ordering: Option<String>,
    /// Messages in its window.
    pub(crate) window_rows: u64,
    /// Bytes in its window.
    pub(crate) window_bytes: u64,
    /// Messages delivered since it started.
    pub(crate) delivered: u64,
    /// Attempts that were recorded to be repeated.
    pub(crate) retried: u64,
    /// Messages given up.
    pub(crate) dead: u64,
    /// Messages dropped because they had expired.
    #[serde(default)]
    pub(crate) dropped: u64,
    /// How long ago something was last delivered, or found to be done.
    pub(crate) last_progress_seconds: Option<f64>,
    /// The destinations.
    pub(crate) destinations: Vec<DestinationReport>,
}

impl Report {
    /// The report of a relay that has not opened its outbox yet.
    pub(crate) fn starting(relay: &str, because: Option<String>) -> Self {
        Self {
            relay: relay.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: RelayState::Starting,
            because,
            next: None,
            lanes: 0,
            ordering: None,
            window_rows: 0,
            window_bytes: 0,
            delivered: 0,
            retried: 0,
            dead: 0,
            dropped: 0,
            last_progress_seconds: None,
            destinations: Vec::new(),
        }
    }
}
