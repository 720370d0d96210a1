//! Receivers: processes that have the effect of each message in a database of their own, and are killed all the while.
//!
//! They read what the relays deliver, through one durable consumer of JetStream. Some messages they leave unacknowledged
//! although they handled them, so that they come again; and a kill hits some between the commit and the acknowledgement. In
//! the end everything that is remembered is forgotten, and the whole stream is read once more from its beginning.

mod books;
mod hands;
pub mod receive;

pub use books::counted_for;

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use postrider_testkit::command::command;
use postrider_testkit::servers::postgres::Postgres;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::Fallible;
use crate::random::Random;
use crate::record::{Effects, Recorder};
use crate::settings::Settings;

use receive::Reads;

/// How they remember what they handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsumerKind {
    /// The inbox, in the transaction of the effect.
    Inbox,
    /// A processor over documents, ids in the document.
    Processor,
    /// A processor over documents, ids in a store of their own.
    KnownIds,
}

impl ConsumerKind {
    /// Its word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Processor => "processor",
            Self::KnownIds => "known-ids",
        }
    }
}

/// How many receive at a time.
const RECEIVERS: u64 = 3;
/// One lives so long at most before it is killed.
const LIVES: Duration = Duration::from_secs(4);
/// And so long at least: it connects first.
const LIVES_AT_LEAST: Duration = Duration::from_millis(150);
/// How long the rest may take to be received when nobody is killed any more.
const ENDS_WITHIN: Duration = Duration::from_secs(240);

/// The receivers of a run.
#[derive(Debug)]
pub struct Receivers {
    kind: ConsumerKind,
    server: Postgres,
    url: String,
    broker: String,
    is_over: watch::Sender<bool>,
    keepers: Vec<JoinHandle<()>>,
    kills: Arc<AtomicU64>,
}

impl Receivers {
    /// Starts them, where some were asked for.
    ///
    /// # Errors
    /// When a server is missing, or the broker is none that they read from.
    pub async fn start(settings: &Settings, broker: Option<String>) -> Fallible<Option<Self>> {
        let Some(kind) = settings.consumer else { return Ok(None) };
        let broker = broker.ok_or("receivers read from NATS alone: --broker nats")?;
        let server = Postgres::start().await?;
        let url = server.fresh_database().await?;
        hands::prepare(kind, &url).await?;
        let (is_over, kills) = (watch::Sender::new(false), Arc::new(AtomicU64::new(0)));
        let mut keepers = Vec::new();
        for number in 0..RECEIVERS {
            let random = Random::new(settings.seed, 100 + number);
            let (url, broker, over) = (url.clone(), broker.clone(), is_over.subscribe());
            keepers.push(tokio::spawn(keep_alive(kind, url, broker, random, over, Arc::clone(&kills))));
        }
        Ok(Some(Self { kind, server, url, broker, is_over, keepers, kills }))
    }

    /// Lets them come to the end of the stream, forgets what they remember, has the stream read once more, and tells what
    /// effects there are.
    ///
    /// # Errors
    /// When the database or the broker does not answer.
    pub async fn finish(self, recorder: &Recorder) -> Fallible<Effects> {
        if !receive::comes_to_its_end(&self.broker, Reads::Once, ENDS_WITHIN).await? {
            recorder.wrong("I5", format!("receivers did not come to the end within {ENDS_WITHIN:?}"));
        }
        self.is_over.send_replace(true);
        for keeper in self.keepers {
            keeper.await?;
        }
        let before = books::effects(self.kind, &self.url).await?;
        hands::forget(self.kind, &self.url).await?;
        let mut again = receiver(self.kind, &self.url, &self.broker, Reads::Again, 0)?;
        if !receive::comes_to_its_end(&self.broker, Reads::Again, ENDS_WITHIN).await? {
            recorder.wrong("I5", format!("the stream was not read again within {ENDS_WITHIN:?}"));
        }
        let _ = again.kill();
        let _ = again.wait();
        let found = books::effects(self.kind, &self.url).await?;
        if found.counts != before.counts {
            recorder.wrong("I5", "the stream was read again, and effects changed".to_owned());
        }
        drop(self.server);
        Ok(Effects { kills: self.kills.load(Ordering::Relaxed), ..found })
    }
}

/// Keeps one receiver alive between its deaths.
async fn keep_alive(
    kind: ConsumerKind,
    url: String,
    broker: String,
    mut random: Random,
    mut over: watch::Receiver<bool>,
    kills: Arc<AtomicU64>,
) {
    while !*over.borrow() {
        let Ok(mut child) = receiver(kind, &url, &broker, Reads::Once, random.bits()) else { break };
        let lives = random.between(LIVES_AT_LEAST, LIVES);
        tokio::select! {
            () = sleep(lives) => {}
            _ = over.changed() => {}
        }
        let _ = child.kill();
        let _ = child.wait();
        kills.fetch_add(1, Ordering::Relaxed);
    }
}

fn receiver(kind: ConsumerKind, url: &str, broker: &str, reads: Reads, seed: u64) -> Fallible<Child> {
    let mut command = command(&std::env::current_exe()?.to_string_lossy());
    command.args([receive::VERB, kind.word(), url, broker, reads.word(), &seed.to_string()]);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn()?)
}
