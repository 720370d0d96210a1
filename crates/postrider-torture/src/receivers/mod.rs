//! Receivers: processes that have the effect of each message in a database of their own, and are killed all the while.
//!
//! They read what the relays deliver, with the consumer that the product has, through one durable consumer of JetStream; those
//! with a cursor through a group of Kafka, whose partitions come in order. Of some messages they say that they are not over
//! although they handled them, so that they come again; some they handle twice at the same time; and a kill hits some between the
//! commit and the acknowledgement. Processors send an output for one message of four, which a second stage of them receives in the
//! same way. In the end everything that can be forgotten is, and what was delivered is read once more from its beginning.

mod books;
mod counting;
mod forget;
mod hands;
pub mod receive;
mod stage;
mod tokens;

pub use books::counted_for;

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use postrider::Tokens;
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
use stage::Stage;

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
    /// A processor over documents, with a token for each message.
    Token,
    /// The cursor, in the transaction of the effect; with Kafka.
    Cursor,
}

impl ConsumerKind {
    /// Its word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Processor => "processor",
            Self::KnownIds => "known-ids",
            Self::Token => "token",
            Self::Cursor => "cursor",
        }
    }

    /// The stages that a message goes through.
    const fn stages(self) -> &'static [Stage] {
        match self {
            Self::Inbox | Self::Cursor => &[Stage::First],
            Self::Processor | Self::KnownIds | Self::Token => &[Stage::First, Stage::Second],
        }
    }

    /// Whether what it forgets is refused when it comes again: with tokens and cursors nothing is kept that could be forgotten.
    pub const fn refuses(self) -> bool {
        !matches!(self, Self::Token | Self::Cursor)
    }

    /// Whether an effect belongs to a record of the broker, and not to a message: what a relay published twice has two.
    pub const fn counts_records(self) -> bool {
        matches!(self, Self::Cursor)
    }

    /// The broker that it reads from.
    const fn reads_from(self) -> &'static str {
        match self {
            Self::Inbox | Self::Processor | Self::KnownIds | Self::Token => "nats",
            Self::Cursor => "kafka",
        }
    }

    /// How long a receiver lives at most before it is killed. A group of Kafka gives the partitions of one that died to others
    /// when its session of 6 s has run out: three that live for 10 s each on the average never came to share them.
    const fn lives(self) -> Duration {
        match self {
            Self::Inbox | Self::Processor | Self::KnownIds | Self::Token => Duration::from_secs(4),
            Self::Cursor => Duration::from_secs(60),
        }
    }
}

/// Where receivers work.
#[derive(Debug, Clone)]
struct Place {
    kind: ConsumerKind,
    url: String,
    broker: String,
}

/// How many receive at a time.
const RECEIVERS: u64 = 3;
/// One lives so long at least before it is killed: it connects first.
const LIVES_AT_LEAST: Duration = Duration::from_millis(150);
/// How long the rest may take to be received, and everything to be read again, beside the length of the load.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// The receivers of a run.
#[derive(Debug)]
pub struct Receivers {
    place: Arc<Place>,
    server: Postgres,
    is_over: watch::Sender<bool>,
    keepers: Vec<JoinHandle<()>>,
    kills: Arc<AtomicU64>,
    /// How long they may take to come to an end.
    patience: Duration,
}

impl Receivers {
    /// Starts them, where some were asked for.
    ///
    /// # Errors
    /// When a server is missing, or the broker is none that they read from.
    pub async fn start(settings: &Settings, broker: Option<String>) -> Fallible<Option<Self>> {
        let Some(kind) = settings.consumer else { return Ok(None) };
        let from = format!("{}://", kind.reads_from());
        let broker = broker.filter(|url| url.starts_with(&from));
        let broker = broker.ok_or_else(|| format!("they read from it alone: --broker {}", kind.reads_from()))?;
        let server = Postgres::start().await?;
        let place = Arc::new(Place { kind, url: server.fresh_database().await?, broker });
        hands::prepare(&place).await?;
        let (is_over, kills) = (watch::Sender::new(false), Arc::new(AtomicU64::new(0)));
        let mut keepers = Vec::new();
        for number in 0..RECEIVERS {
            let random = Random::new(settings.seed, 100 + number);
            keepers.push(tokio::spawn(keep_alive(Arc::clone(&place), random, is_over.subscribe(), Arc::clone(&kills))));
        }
        let patience = settings.load() + ENDS_WITHIN;
        Ok(Some(Self { place, server, is_over, keepers, kills, patience }))
    }

    /// Where writers make the tokens of their messages, if these need some.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub async fn tokens(&self) -> Fallible<Option<Tokens>> {
        Ok(match self.place.kind {
            ConsumerKind::Token => Some(counting::tokens(&self.place).await?),
            ConsumerKind::Inbox | ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Cursor => None,
        })
    }

    /// Lets them come to the end of the streams, forgets what they remember, has the streams read once more, and tells what
    /// effects there are.
    ///
    /// # Errors
    /// When the database or the broker does not answer.
    pub async fn finish(self, recorder: &Recorder) -> Fallible<Effects> {
        let (place, patience) = (&*self.place, self.patience);
        if !comes_to_rest(place, Reads::Once, patience).await? {
            recorder.wrong("I5", format!("receivers did not come to the end within {patience:?}"));
        }
        self.is_over.send_replace(true);
        for keeper in self.keepers {
            keeper.await?;
        }
        let revoked = match place.kind {
            ConsumerKind::Token => tokens::revoke(place, recorder).await?,
            ConsumerKind::Inbox | ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Cursor => 0,
        };
        let before = books::effects(place).await?;
        forget::forget(place).await?;
        let mut readers = Vec::new();
        for number in 0..RECEIVERS {
            readers.push(receiver(place, Reads::Again, number)?);
        }
        if !comes_to_rest(place, Reads::Again, patience).await? {
            recorder.wrong("I5", format!("the streams were not read again within {patience:?}"));
        }
        for mut reader in readers {
            let _ = reader.kill();
            let _ = reader.wait();
        }
        let found = books::effects(place).await?;
        if found.counts != before.counts {
            recorder.wrong("I5", "the streams were read again, and effects changed".to_owned());
        }
        drop(self.server);
        Ok(Effects { kills: self.kills.load(Ordering::Relaxed), revoked, ..found })
    }
}

/// Waits until each stage has come to the end of its stream and left nothing unfinished; whether it came to that.
async fn comes_to_rest(place: &Place, reads: Reads, within: Duration) -> Fallible<bool> {
    let until = Instant::now() + within;
    'again: while Instant::now() < until {
        sleep(Duration::from_millis(500)).await;
        for stage in place.kind.stages() {
            if !receive::is_at_the_end(place, *stage, reads).await? || books::unfinished(place).await? > 0 {
                continue 'again;
            }
        }
        return Ok(true);
    }
    Ok(false)
}

/// Keeps one receiver alive between its deaths.
async fn keep_alive(place: Arc<Place>, mut random: Random, mut over: watch::Receiver<bool>, kills: Arc<AtomicU64>) {
    while !*over.borrow() {
        let Ok(mut child) = receiver(&place, Reads::Once, random.bits()) else { break };
        let lives = random.between(LIVES_AT_LEAST, place.kind.lives());
        tokio::select! {
            () = sleep(lives) => {}
            _ = over.changed() => {}
        }
        let _ = child.kill();
        let _ = child.wait();
        kills.fetch_add(1, Ordering::Relaxed);
    }
}

fn receiver(place: &Place, reads: Reads, seed: u64) -> Fallible<Child> {
    let mut command = command(&std::env::current_exe()?.to_string_lossy());
    command.args([receive::VERB, place.kind.word(), &place.url, &place.broker, reads.word(), &seed.to_string()]);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn()?)
}
