//! The operator: now and then heals the broker, and replays the keys that were held meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_testkit::command::command;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::Fallible;
use crate::place::broker::{Broker, Health};
use crate::place::store::Store;
use crate::record::Recorder;
use crate::settings::Settings;

/// How long a key is held, about.
const ROUND: Duration = Duration::from_secs(12);
/// How long the broker stays healed after a replay, so that what was replayed goes.
const HEALED: Duration = Duration::from_secs(2);
/// How often is looked whether the load is over.
const LOOK: Duration = Duration::from_millis(250);
/// How long one replay may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The operator at work.
#[derive(Debug)]
pub struct Operator {
    is_over: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Hands {
    recorder: Arc<Recorder>,
    store: Arc<Store>,
    broker: Arc<Broker>,
    program: PathBuf,
    folder: PathBuf,
    is_over: Arc<AtomicBool>,
}

impl Operator {
    /// Starts.
    pub fn start(settings: &Settings, recorder: &Arc<Recorder>, store: &Arc<Store>, broker: &Arc<Broker>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let hands = Hands {
            recorder: Arc::clone(recorder),
            store: Arc::clone(store),
            broker: Arc::clone(broker),
            program: settings.relay_bin.clone(),
            folder: settings.out.clone(),
            is_over: Arc::clone(&is_over),
        };
        Self { is_over, task: tokio::spawn(hands.work()) }
    }

    /// The load is over: the broker stays healed, and nothing is left held.
    pub fn load_is_over(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Ends it.
    pub async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Hands {
    async fn work(self) {
        loop {
            let mut rested = Duration::ZERO;
            while rested < ROUND && !self.is_over() {
                sleep(LOOK).await;
                rested += LOOK;
            }
            // What fails now, because a server is away, is done in the next round.
            let _ = self.round().await;
            sleep(LOOK).await;
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    async fn round(&self) -> Fallible<()> {
        let held = self.store.held().await?;
        if held.is_empty() {
            return Ok(());
        }
        self.broker.set_health(Health::Healed).await?;
        for key in held {
            self.replay(&key).await?;
        }
        sleep(HEALED).await;
        if !self.is_over() {
            self.broker.set_health(Health::Usual).await?;
        }
        Ok(())
    }

    async fn replay(&self, key: &str) -> Fallible<()> {
        let mut command = command(&self.program.to_string_lossy());
        command.args(["dead", "replay", "--key", key, "--yes", "--store"]).current_dir(&self.folder);
        command.arg(self.store.relay_url(self.store.port().unwrap_or(0), "operator"));
        let mut command = tokio::process::Command::from(command);
        let output = timeout(PATIENCE, command.kill_on_drop(true).output()).await??;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        self.recorder.open().replayed += 1;
        Ok(())
    }
}
