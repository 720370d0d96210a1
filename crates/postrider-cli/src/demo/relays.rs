//! The relays of the demo, each with a store and a broker of its own as if it were a process of its own.

use std::time::Duration;

use postrider::brokers::{self, BrokerConfig};
use postrider::stores::{self, StoreOptions};
use postrider::{
    Attempts, CancellationToken, DestinationName, DestinationTemplate, OnExpire, Relay, RelayHandle, RelaySnapshot,
    RelayState, RetryPolicy, Summary, TopicPattern,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::failure::{Failure, Outcome};

/// A message that is refused this often is dead: soon enough to be seen, and far more often than a good one is
/// unlucky.
const POLICY: RetryPolicy = RetryPolicy {
    initial: Duration::from_millis(100),
    maximum: Duration::from_millis(800),
    multiplier: 2.0,
    attempts: Attempts::AtMost(6),
    max_age: None,
    on_expire: OnExpire::Dead,
};
/// The longest pause between two probes of a consumer that is down.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// One relay that runs, or ran.
#[derive(Debug)]
struct Running {
    name: String,
    handle: RelayHandle,
    stop: CancellationToken,
    task: Option<JoinHandle<postrider::Result<Summary>>>,
}

/// Every relay there was.
#[derive(Debug)]
pub(super) struct Relays {
    store: String,
    broker: BrokerConfig,
    all: Vec<Running>,
    current: watch::Sender<Option<RelayHandle>>,
}

/// What a relay is doing, for the picture.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// Its name.
    pub(super) name: String,
    /// Its own account.
    pub(super) snapshot: RelaySnapshot,
}

impl Relays {
    /// None yet, for this outbox and this consumer.
    pub(super) fn new(store: String, consumer: &str, secret: String) -> Self {
        let broker = BrokerConfig::new(consumer).option("secret", secret);
        Self { store, broker, all: Vec::new(), current: watch::Sender::new(None) }
    }

    /// Starts one more; answers its name.
    ///
    /// # Errors
    /// When the outbox cannot be opened.
    pub(super) async fn start(&mut self) -> Outcome<String> {
        let name = format!("relay-{}", self.all.len() + 1);
        let store =
            stores::open(&self.store, &StoreOptions::default()).await.map_err(|error| Failure::store(&error))?;
        let broker = brokers::open(&self.broker).map_err(|error| Failure::broker(&error))?;
        let relay = Relay::builder(store)
            .name(&name)
            .destination(DestinationName::new("consumer"), broker, DestinationTemplate::topic())
            .retry(TopicPattern::every(), POLICY)
            .max_pause(MAX_PAUSE)
            .build()
            .map_err(|error| Failure::store(&error))?;
        let (handle, stop) = (relay.handle(), CancellationToken::new());
        self.current.send_replace(Some(handle.clone()));
        let task = Some(tokio::spawn(relay.run(stop.clone())));
        self.all.push(Running { name: name.clone(), handle, stop, task });
        Ok(name)
    }

    /// Who is to be told of new messages.
    pub(super) fn current(&self) -> watch::Receiver<Option<RelayHandle>> {
        self.current.subscribe()
    }

    /// Starts another one and asks those before it to stop.
    ///
    /// # Errors
    /// When the outbox cannot be opened.
    pub(super) async fn hand_over(&mut self) -> Outcome<String> {
        let name = self.start().await?;
        let before = self.all.len().saturating_sub(1);
        self.all.iter().take(before).for_each(|relay| relay.stop.cancel());
        Ok(name)
    }

    /// Kills the youngest one where it stands, as a crash would; answers its name.
    pub(super) async fn crash(&mut self) -> Option<String> {
        let relay = self.all.last_mut()?;
        let task = relay.task.take()?;
        task.abort();
        // The answer is that it was cancelled; what counts is that its future is gone.
        let _ = task.await;
        Some(relay.name.clone())
    }

    /// Those that have ended since the last question, with what they did.
    ///
    /// # Errors
    /// When one ended by itself with an error.
    pub(super) async fn ended(&mut self) -> Outcome<Vec<(String, Summary)>> {
        let mut ended = Vec::new();
        for relay in &mut self.all {
            let Some(task) = relay.task.take_if(|task| task.is_finished()) else { continue };
            match task.await {
                Ok(Ok(summary)) => ended.push((relay.name.clone(), summary)),
                Ok(Err(error)) => return Err(Failure::store(&error)),
                Err(error) => {
                    let what = format!("{} ended unexpectedly: {error}", relay.name);
                    return Err(Failure::bad(what, "please report this, with what was printed above it"));
                }
            }
        }
        Ok(ended)
    }

    /// Asks all to stop.
    pub(super) fn stop(&self) {
        self.all.iter().for_each(|relay| relay.stop.cancel());
    }

    /// Whether one still runs.
    pub(super) fn are_running(&self) -> bool {
        self.all.iter().any(|relay| relay.task.is_some())
    }

    /// Those that run.
    pub(super) fn standing(&self) -> Vec<Standing> {
        let running = self.all.iter().filter(|relay| relay.task.is_some());
        running.map(|relay| Standing { name: relay.name.clone(), snapshot: relay.handle.snapshot() }).collect()
    }

    /// Whether one holds lanes and delivers.
    pub(super) fn are_relaying(&self) -> bool {
        self.standing().iter().any(|relay| relay.snapshot.state == RelayState::Relaying)
    }

    /// Retries scheduled by all of them.
    pub(super) fn retried(&self) -> u64 {
        self.all.iter().map(|relay| relay.handle.snapshot().retried).sum()
    }
}
