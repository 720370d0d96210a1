//! `postrider demo`: the main job, to watch.
//!
//! An order service ([`service`]) writes orders and their messages into SQLite, some in transactions that it rolls
//! back. Relays ([`relays`]), the same that `postrider relay` runs, deliver them over HTTP to a [`consumer`] that fails
//! now and then ([`faults`], [`script`]). The [`director`] lets one relay stop gracefully and kills another. In the end
//! Asked to, the consumer ships each order once ([`effects`]), however often its message comes. In the end
//! the [`verdict`] is computed from what the consumer wrote down ([`record`]) and from the application's own table.
//! Nothing here has a special way into the library: it is a user of its public API.

mod consumer;
mod director;
mod effects;
mod faults;
mod numbers;
mod picture;
mod record;
mod relays;
mod screen;
mod script;
mod service;
mod signature;
mod verdict;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postrider::stores::{self, StoreOptions};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::signals;
use consumer::Consumer;
use director::{Cast, Director, TICK};
use effects::Effects;
use picture::Ink;
use relays::Relays;
use screen::Screen;
use service::{Pace, Service};
use signature::Verifier;
use verdict::Verdict;

/// How long to wait at the end until everything is delivered.
const DRAIN: Duration = Duration::from_secs(60);
/// The database's file.
const FILE: &str = "demo.db";
/// That of the consumer, where it has one.
const CONSUMER_FILE: &str = "consumer.db";

/// What was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How long orders are written.
    pub(crate) length: Duration,
    /// Transactions in a second.
    pub(crate) rate: u32,
    /// What every choice is drawn from.
    pub(crate) seed: u64,
    /// What the consumer does with orders.
    pub(crate) orders: Orders,
    /// The folder that keeps the database; none for one that is removed at the end.
    pub(crate) keep: Option<PathBuf>,
}

/// What the consumer does with orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Orders {
    /// It writes down that they came.
    WrittenDown,
    /// It ships each once, by its inbox, and many come again.
    Shipped,
}

/// Where the database is.
#[derive(Debug)]
enum Folder {
    Passing(TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn open(keep: Option<PathBuf>) -> Outcome<Self> {
        let cannot = |what: &str, error: std::io::Error| {
            Failure::usage(format!("cannot create {what}: {error}"), "name a folder that you may write to with --keep")
        };
        let Some(folder) = keep else {
            let passing = tempfile::Builder::new().prefix("postrider-demo-").tempdir();
            return passing.map(Self::Passing).map_err(|error| cannot("a temporary folder", error));
        };
        std::fs::create_dir_all(&folder).map_err(|error| cannot(&folder.display().to_string(), error))?;
        if folder.join(FILE).exists() {
            return Err(Failure::refused(
                format!("{} is there already and is left as it is", folder.join(FILE).display()),
                "name another folder with --keep, or remove the file",
            ));
        }
        Ok(Self::Kept(folder))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Passing(folder) => folder.path(),
            Self::Kept(folder) => folder,
        }
    }
}

/// Runs the demo to its end; the exit is good only when the verdict holds.
///
/// # Errors
/// When the folder, the database or a port cannot be used.
pub(crate) async fn run(plan: Plan) -> Outcome<Exit> {
    let folder = Folder::open(plan.keep.clone())?;
    let mut screen = Screen::new();
    let ink = Ink(screen.has_colours());
    greet(&mut screen, &plan, ink);
    let path = folder.path().join(FILE);
    let began = Instant::now();
    let mut director = prepare(&plan, &path, began, screen).await?;
    let stop = CancellationToken::new();
    signals::watch(stop.clone());
    let writing = write_orders(&director, Pace { rate: plan.rate, seed: plan.seed });
    while began.elapsed() < plan.length && !stop.is_cancelled() && !writing.is_finished() {
        director.turn().await?;
        tokio::time::sleep(TICK).await;
    }
    director.service.stop();
    let written = writing.await;
    written.map_err(|error| {
        Failure::bad(format!("the order service ended unexpectedly: {error}"), "please report this")
    })??;
    finish(&mut director).await?;
    let verdict = Verdict::of(&director.record().await?);
    let lines = verdict.lines();
    let (last, table) = lines.split_last().map_or(("", &lines[..]), |(last, table)| (last.as_str(), table));
    director.screen.keep();
    director.screen.say("");
    table.iter().for_each(|line| director.screen.say(line));
    director.screen.say(&if verdict.holds() { ink.green(last) } else { ink.red(last) });
    director.screen.say(&next_step(&folder));
    Ok(if verdict.holds() { Exit::Good } else { Exit::Bad })
}

fn greet(screen: &mut Screen, plan: &Plan, ink: Ink) {
    let Plan { length, rate, seed, orders, .. } = plan;
    screen.say(&ink.bold("postrider demo: order service -> SQLite -> relay -> HTTP -> consumer"));
    screen.say(&format!(
        "{rate} transactions a second for {} s, one in ten rolled back; the consumer fails now and then (seed {seed})",
        length.as_secs()
    ));
    if *orders == Orders::Shipped {
        screen.say("it ships each order once, by its inbox, and loses so many answers that many orders come again");
    }
    screen.say("");
}

async fn prepare(plan: &Plan, path: &Path, began: Instant, screen: Screen) -> Outcome<Director> {
    let service = Service::open(path, began)?;
    let verifier = Verifier::fresh();
    let secret = verifier.secret();
    let effects = match plan.orders {
        Orders::WrittenDown => None,
        Orders::Shipped => Some(Effects::open(&path.with_file_name(CONSUMER_FILE))?),
    };
    let (consumer, address) = Consumer::start(plan.seed, verifier, began, effects).await?;
    let url = format!("sqlite:{}", path.display());
    let store = stores::open(&url, &StoreOptions::default()).await.map_err(|error| Failure::store(&error))?;
    let operator = store.operator().await.map_err(|error| Failure::store(&error))?;
    let mut relays = Relays::new(url, &address, secret);
    relays.start().await?;
    let expected = u64::from(plan.rate) * plan.length.as_secs() * 9 / 10;
    Ok(Director::new(began, plan.length, expected, Cast { service, consumer, relays, operator, screen }))
}

/// Starts the order service on a thread of its own, as it would have a process of its own.
fn write_orders(director: &Director, pace: Pace) -> JoinHandle<Outcome<()>> {
    let (service, current) = (director.service.clone(), director.relays.current());
    tokio::task::spawn_blocking(move || {
        service.write_orders(pace, || {
            if let Some(relay) = current.borrow().as_ref() {
                relay.hint();
            }
        })
    })
}

/// Waits until everything is delivered, then stops the relay that is left.
async fn finish(director: &mut Director) -> Outcome<()> {
    director.end_the_script();
    let deadline = Instant::now() + DRAIN;
    loop {
        director.turn().await?;
        if director.all_is_done() || Instant::now() > deadline {
            break;
        }
        tokio::time::sleep(TICK).await;
    }
    director.relays.stop();
    while director.relays.are_running() && Instant::now() < deadline {
        tokio::time::sleep(TICK).await;
        director.turn().await?;
    }
    Ok(())
}

fn next_step(folder: &Folder) -> String {
    match folder {
        Folder::Kept(folder) => {
            let url = format!("sqlite:{}", folder.join(FILE).display());
            format!(
                "next: `postrider dead list --store {url}` shows what was given up on, `postrider status --store {url}` the rest"
            )
        }
        Folder::Passing(_) => {
            "next: `postrider demo --keep DIR` leaves the database to look at; README.md shows how to use it from Rust, SQL and the shell"
                .to_owned()
        }
    }
}
