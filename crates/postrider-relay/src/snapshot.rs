//! What a relay shows of itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::machine::Ordering;
use postrider_core::{DestinationName, ErrorKind, Lane, MessageId, Topic};
use tokio::sync::Notify;

use crate::events::{Listeners, RelayEvents};

/// What a relay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelayState {
    /// Not yet a member.
    #[default]
    Starting,
    /// A member that holds no lane: another relay has them, or their leases have not run out yet.
    Standby,
    /// Reading and publishing.
    Relaying,
    /// The store cannot be reached; it goes on by itself.
    StoreAway,
    /// Finishing what is in flight.
    Stopping,
    /// Ended.
    Stopped,
}

impl RelayState {
    /// The word used in `/status` and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Relaying => "relaying",
            Self::StoreAway => "store-away",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}

/// One destination as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct DestinationSnapshot {
    /// Its name.
    pub name: DestinationName,
    /// Why it pauses and for how long already, if it does.
    pub paused: Option<(ErrorKind, String, Duration)>,
    /// For how long it has answered nothing, if what waits for it leaves memory for that, so that others get room.
    pub silent: Option<Duration>,
    /// Messages accepted since the start.
    pub accepted: u64,
    /// Publishes failed since the start.
    pub failed: u64,
    /// The message that failed there last: of a destination that pauses, the one that it was last tried with, which may
    /// be what is wrong.
    pub last_failed: Option<(MessageId, Topic)>,
}

/// A relay as it is now; at most a tenth of a second old.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RelaySnapshot {
    /// What it is doing.
    pub state: RelayState,
    /// Why the store is away, if it is.
    pub store_error: Option<String>,
    /// What to do about it, where that is known: the end of `store_error`.
    pub store_advice: Option<String>,
    /// The lanes it holds.
    pub lanes: Vec<Lane>,
    /// Which messages wait for each other.
    pub ordering: Ordering,
    /// Messages in memory.
    pub window_rows: usize,
    /// Bytes of them.
    pub window_bytes: usize,
    /// Its destinations.
    pub destinations: Vec<DestinationSnapshot>,
    /// Messages delivered and settled since the start.
    pub delivered: u64,
    /// Retries scheduled since the start.
    pub retried: u64,
    /// Messages given up since the start.
    pub dead: u64,
    /// Messages dropped since the start because their time had passed and `on_expire` says so.
    pub dropped: u64,
    /// When it last recorded what became of a message: delivered, to be tried again, set aside, given up or dropped.
    pub last_progress: Option<Instant>,
}

/// What is left in the outbox when a relay that runs until empty ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Not yet due by their own `deliver_at`.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Dead letters whose key waits for an operator.
    pub holding: u64,
    /// Messages that wait behind them.
    pub held_back: u64,
}

/// What a relay did, said when it ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Messages delivered and settled.
    pub delivered: u64,
    /// Retries scheduled.
    pub retried: u64,
    /// Messages given up.
    pub dead: u64,
    /// Messages dropped because their time had passed and `on_expire` says so.
    pub dropped: u64,
    /// Destinations that were paused at the end, with the cause.
    pub paused: Vec<(DestinationName, String)>,
    /// What is left in the outbox, where the relay ran until empty.
    pub left: Option<Left>,
    /// How many messages no route leads anywhere and what to do about it, where a relay that runs until empty ended
    /// because nothing else was left.
    pub unroutable: Option<(usize, String)>,
    /// Messages that were in flight when the stop's deadline passed: they will be repeated.
    pub abandoned: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    snapshot: Mutex<RelaySnapshot>,
    pub(crate) hint: Notify,
    pub(crate) listeners: Arc<Listeners>,
}

impl Shared {
    pub(crate) fn set(&self, snapshot: RelaySnapshot) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

/// Shows the relay as stopped however it ends: by itself, by an error, or because it or its future was dropped.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        let mut snapshot = self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.state = RelayState::Stopped;
        snapshot.lanes.clear();
        drop(snapshot);
        self.0.listeners.close();
    }
}

/// A hand on a running relay, for the process it runs in.
#[derive(Debug, Clone)]
pub struct RelayHandle(pub(crate) Arc<Shared>);

impl RelayHandle {
    /// Says that there are new messages, so that the relay looks at once. It may be called at any time and be lost
    /// without harm: the relay would find them by itself within its poll interval.
    pub fn hint(&self) {
        self.0.hint.notify_one();
    }

    /// What happens from now on, message by message and lane by lane, bounded: the relay never waits for a listener, and one
    /// that is too slow is told how many events it missed. Who asks before the relay runs hears everything. While nobody
    /// listens it costs nothing; while somebody does, a delivered message stays in memory until that is recorded.
    ///
    /// ```no_run
    /// # use postrider_relay::{Relay, RelayEvent};
    /// # async fn example(relay: Relay) {
    /// let mut events = relay.handle().events();
    /// tokio::spawn(async move {
    ///     while let Some(event) = events.next().await {
    ///         match event {
    ///             RelayEvent::Delivered { id, topic, .. } => println!("{topic} {id} is delivered"),
    ///             RelayEvent::Dead(dead) => println!("given up: {}", dead.error),
    ///             RelayEvent::Missed(count) => println!("{count} events were missed"),
    ///             _ => {}
    ///         }
    ///     }
    /// });
    /// # }
    /// ```
    pub fn events(&self) -> RelayEvents {
        self.0.listeners.listen()
    }

    /// The relay as it is now.
    pub fn snapshot(&self) -> RelaySnapshot {
        self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_word() {
        let states = [
            RelayState::Starting,
            RelayState::Standby,
            RelayState::Relaying,
            RelayState::StoreAway,
            RelayState::Stopping,
            RelayState::Stopped,
        ];
        let words = ["starting", "standby", "relaying", "store-away", "stopping", "stopped"];
        assert_eq!(states.map(RelayState::as_str), words);
    }

    #[test]
    fn a_relay_that_ended_is_shown_as_stopped_and_without_lanes_and_with_what_it_did() {
        let shared = Arc::new(Shared::default());
        let handle = RelayHandle(Arc::clone(&shared));
        let ended = Ended(Arc::clone(&shared));
        let running = RelaySnapshot {
            state: RelayState::Relaying,
            lanes: vec![Lane(0), Lane(3)],
            delivered: 7,
            ..RelaySnapshot::default()
        };
        shared.set(running.clone());
        assert_eq!(handle.snapshot(), running);
        drop(ended);
        let stopped = RelaySnapshot { state: RelayState::Stopped, lanes: Vec::new(), ..running };
        assert_eq!(handle.snapshot(), stopped);
    }
}
