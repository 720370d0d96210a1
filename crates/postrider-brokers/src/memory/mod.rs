//! A broker in memory, for tests, for measuring the relay alone, and for throwing messages away: `memory:`.
//!
//! **Promises**: messages are recorded in the order in which they were accepted; inside a batch, nothing of a key is
//! accepted after an earlier one of it failed (unless [`MemoryBroker::without_order`] gives that up).
//!
//! **Does not promise**: durability of any kind. Opened by its URL it only counts, so that it can take any number of
//! messages.
//!
//! **Options** (by URL): `delay`, the time each call takes, such as `"10ms"` (none).
//!
//! A test scripts faults per message:
//!
//! ```
//! use postrider_brokers::memory::{Answer, MemoryBroker};
//! use postrider_core::ErrorKind;
//! let broker = MemoryBroker::recording()
//!     .with_script(|outgoing, _nth| match outgoing.message.topic.as_str() {
//!         "poison" => Answer::Fail(ErrorKind::Rejected),
//!         _ => Answer::Accept,
//!     });
//! assert_eq!(broker.accepted(), 0);
//! ```

mod script;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Accepted, Broker, BrokerProfile, Confirmation, Destination, Durability, Error, ErrorKind, Finding, Isolation, Key,
    MessageId, OrderInBatch, Outgoing, Published, Result,
};
use tokio::sync::watch;

pub use script::Answer;

use crate::config::BrokerConfig;
use crate::options::Options;

type Script = dyn Fn(&Outgoing, u64) -> Answer + Send + Sync;

/// A broker in memory.
pub struct MemoryBroker {
    profile: BrokerProfile,
    /// Without one it accepts everything.
    script: Option<Box<Script>>,
    delay: Duration,
    recording: Recording,
    repeats: Repeats,
    state: Mutex<State>,
    released: watch::Sender<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recording {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Kept,
    Dropped,
}

#[derive(Debug, Default)]
struct State {
    messages: Vec<Outgoing>,
    known: HashSet<MessageId>,
    sent: u64,
    accepted: u64,
    calls: u64,
    closed: u64,
}

impl MemoryBroker {
    /// A broker that keeps every message it accepted.
    pub fn recording() -> Self {
        Self::new(Recording::On)
    }

    /// A broker that only counts, whose memory does not grow.
    pub fn counting() -> Self {
        Self::new(Recording::Off)
    }

    fn new(recording: Recording) -> Self {
        Self {
            profile: BrokerProfile {
                name: "memory",
                order: OrderInBatch::Kept,
                isolation: Isolation::PerMessage,
                durability: Durability::None,
                max_batch: 1000,
                max_concurrent: 4,
            },
            script: None,
            delay: Duration::ZERO,
            recording,
            repeats: Repeats::Kept,
            state: Mutex::default(),
            released: watch::Sender::new(0),
        }
    }

    /// The same broker, answering each message by a script: the message and how many were sent before it.
    #[must_use]
    pub fn with_script(mut self, script: impl Fn(&Outgoing, u64) -> Answer + Send + Sync + 'static) -> Self {
        self.script = Some(Box::new(script));
        self
    }

    /// The same broker, taking this long for every call.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same broker with another profile.
    #[must_use]
    pub fn with_profile(mut self, change: impl FnOnce(&mut BrokerProfile)) -> Self {
        change(&mut self.profile);
        self
    }

    /// The same broker, accepting the later messages of a key after an earlier one of the batch failed.
    #[must_use]
    pub fn without_order(self) -> Self {
        self.with_profile(|profile| profile.order = OrderInBatch::NotKept)
    }

    /// The same broker, dropping and reporting a message whose id it has already.
    #[must_use]
    pub fn deduplicating(mut self) -> Self {
        self.repeats = Repeats::Dropped;
        self
    }

    /// Every message accepted, in order, repeats included unless they are dropped. Empty for a broker that only counts.
    pub fn messages(&self) -> Vec<Outgoing> {
        self.state().messages.clone()
    }

    /// How many messages were accepted, repeats included.
    pub fn accepted(&self) -> u64 {
        self.state().accepted
    }

    /// How many messages were handed in, whatever became of them; those not sent are not counted.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// How many times `publish` was called.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// How many times `close` was called.
    pub fn closed(&self) -> u64 {
        self.state().closed
    }

    /// Lets every message that is held by [`Answer::Hold`] go on, and accepts it.
    pub fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, outgoing: &Outgoing) -> Accepted {
        let mut state = self.state();
        state.accepted += 1;
        if self.recording == Recording::Off {
            return Accepted::FRESH;
        }
        if self.repeats == Repeats::Dropped && !state.known.insert(outgoing.message.id) {
            return Accepted { confirmation: Confirmation::Duplicate };
        }
        state.messages.push(outgoing.clone());
        Accepted::FRESH
    }

    async fn answer(&self, outgoing: &Outgoing) -> Published {
        let nth = {
            let mut state = self.state();
            state.sent += 1;
            state.sent - 1
        };
        match self.script.as_ref().map_or(Answer::Accept, |script| script(outgoing, nth)) {
            Answer::Accept => Published::Accepted(self.record(outgoing)),
            Answer::Fail(kind) => Published::Failed(Error::new(kind, "the script of the memory broker says so")),
            Answer::Error(error) => Published::Failed(error),
            Answer::LoseReply => {
                self.record(outgoing);
                Published::Failed(Error::new(ErrorKind::Unknown, "the memory broker lost its reply, as scripted"))
            }
            Answer::Hold => {
                let mut released = self.released.subscribe();
                // The sender lives in self, so this can't end early.
                let _ = released.changed().await;
                Published::Accepted(self.record(outgoing))
            }
        }
    }
}

impl fmt::Debug for MemoryBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBroker").field("profile", &self.profile).finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn profile(&self) -> BrokerProfile {
        self.profile.clone()
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        self.state().calls += 1;
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        if self.script.is_none() && self.recording == Recording::Off {
            let mut state = self.state();
            let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            (state.sent, state.accepted) = (state.sent + count, state.accepted + count);
            return batch.iter().map(|_| Published::Accepted(Accepted::FRESH)).collect();
        }
        let mut broken: HashSet<&Key> = HashSet::new();
        let mut results = Vec::with_capacity(batch.len());
        for outgoing in batch {
            let key = outgoing.message.key.as_ref().filter(|_| self.profile.order == OrderInBatch::Kept);
            if key.is_some_and(|key| broken.contains(key)) {
                results.push(Published::NotSent);
                continue;
            }
            let result = self.answer(outgoing).await;
            if let (Some(key), Published::Failed(_)) = (key, &result) {
                broken.insert(key);
            }
            results.push(result);
        }
        results
    }

    async fn check(&self, _destinations: &[Destination]) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn close(&self) {
        self.state().closed += 1;
    }
}

pub(crate) fn open(config: &BrokerConfig) -> Result<Arc<dyn Broker>> {
    let options = Options::with_query(config);
    let delay = options.duration("delay", Duration::ZERO, Duration::ZERO..=Duration::from_secs(3600))?;
    options.finish()?;
    Ok(Arc::new(MemoryBroker::counting().with_delay(delay)))
}
