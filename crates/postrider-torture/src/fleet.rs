//! The relays: real processes, each behind proxies of its own.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use postrider_testkit::command::command;
use postrider_testkit::proxy::Passage;
use postrider_testkit::servers::process::{Signal, signal};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{sleep, timeout};

use crate::Fallible;
use crate::place::broker::Broker;
use crate::place::store::Store;
use crate::settings::Settings;
use crate::ways::Ways;
use crate::writers::HOLD;

/// What the preload of a clock that is off is called, where Debian puts it.
pub fn faketime() -> PathBuf {
    PathBuf::from(format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH))
}
/// Every message waits at least this long at the broker, so that a fault finds some in flight.
const LATENCY: Duration = Duration::from_millis(4);
/// Longer than a relay's own deadline for a graceful stop.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// The most messages that one relay has in its hands: a bulk transaction fills it.
pub const WINDOW_ROWS: u64 = 1024;

/// What the relays of one run have in common.
#[derive(Debug)]
pub struct Fleet {
    settings: Settings,
    store: Arc<Store>,
    broker: Arc<Broker>,
    slots: Vec<Arc<Slot>>,
}

/// A place for one relay at a time.
#[derive(Debug)]
pub struct Slot {
    /// Its number.
    pub number: usize,
    /// Between the relay and the database.
    pub store: Ways,
    /// Between the relay and the broker.
    pub broker: Ways,
    generation: AtomicUsize,
    process: Arc<Mutex<Option<Running>>>,
    facts: Lock<Option<Facts>>,
}

/// What can be known about a relay without stopping anybody.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Its label.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its admin address, once it has said so.
    pub admin: Option<String>,
    log: PathBuf,
}

/// A relay that runs. Killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Its label.
    pub name: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The right to do something to a slot's process.
pub type Held = OwnedMutexGuard<Option<Running>>;

/// What `/status` says.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Messages in the window.
    pub window: u64,
    /// Lanes held.
    pub lanes: u64,
    /// Messages delivered since it started.
    pub delivered: u64,
}

impl Fleet {
    /// Slots for the relays and one more, all empty.
    ///
    /// # Errors
    /// When no port can be had for a proxy.
    pub async fn prepare(settings: &Settings, store: &Arc<Store>, broker: &Arc<Broker>) -> Fallible<Arc<Self>> {
        let mut slots = Vec::new();
        for number in 0..=settings.relays {
            let slot = Slot {
                number,
                store: Ways::to(store.port()).await?,
                broker: broker.ways(number).await?,
                generation: AtomicUsize::new(0),
                process: Arc::default(),
                facts: Lock::default(),
            };
            slot.calm();
            slots.push(Arc::new(slot));
        }
        let (store, broker) = (Arc::clone(store), Arc::clone(broker));
        Ok(Arc::new(Self { settings: settings.clone(), store, broker, slots }))
    }

    /// The slots that have a relay in ordinary times.
    pub fn regular(&self) -> &[Arc<Slot>] {
        &self.slots[..self.settings.relays]
    }

    /// The slot for a relay that comes and goes.
    pub fn spare(&self) -> Option<&Arc<Slot>> {
        self.slots.last()
    }

    /// All slots.
    pub fn slots(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    /// Starts a relay in a slot; its clock is off by these seconds.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(&self, slot: &Slot, held: &mut Held, clock: i64) -> Fallible<()> {
        let generation = slot.generation.fetch_add(1, Ordering::SeqCst);
        let name = format!("r{}-{generation}", slot.number);
        let (config, log) =
            (self.settings.out.join(format!("{name}.toml")), self.settings.out.join(format!("{name}.log")));
        let mut text = format!(
            "[outbox]\nstore = \"{}\"\n[relay]\nname = \"{name}\"\nlease = \"{}ms\"\nmax_pause = \"1s\"\n\
             window_rows = {WINDOW_ROWS}\nstop_deadline = \"10s\"\n[retry]\nmax_attempts = 4\ninitial = \"100ms\"\nmaximum = \"1s\"\n\
             [[retry.topic]]\npattern = \"{HOLD}\"\nmax_attempts = 2\non_dead = \"hold\"\n\
             [retention]\ndead = \"1h\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n[broker.events]\n{}",
            self.store.relay_url(slot.store.ports().first().copied().unwrap_or(0), &name),
            self.settings.lease_ms,
            self.broker.section(&slot.broker.ports()),
        );
        writeln!(text)?;
        fs::write(&config, text)?;
        let program = match &self.settings.other_relay_bin {
            Some(other) if slot.number % 2 == 1 => other,
            _ => &self.settings.relay_bin,
        };
        let mut command = command(&program.to_string_lossy());
        command.args(["relay", "--config"]).arg(&config).stdout(Stdio::null()).stderr(File::create(&log)?);
        if clock != 0 {
            command.env("LD_PRELOAD", faketime()).env("FAKETIME", format!("{clock:+}s"));
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("FAKETIME_DONT_RESET", "1");
        }
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let facts = Facts { name: name.clone(), pid: child.id(), admin: None, log };
        *slot.facts.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
        **held = Some(Running { child, name });
        Ok(())
    }

    /// Ends a relay in good order; what is to say about it if it does not end with exit code 0 in time.
    pub async fn terminate(slot: &Slot, held: &mut Held) -> Option<String> {
        let running = held.as_mut()?;
        let pid = running.child.id();
        let _ = signal(pid, Signal::Terminate);
        let until = Instant::now() + STOPS_WITHIN;
        let code = loop {
            match running.child.try_wait() {
                Ok(Some(status)) => break status.code(),
                Ok(None) if Instant::now() < until => sleep(Duration::from_millis(10)).await,
                _ => break None,
            }
        };
        let wrong = (code != Some(0)).then(|| {
            let what = code.map_or("did not end in time".to_owned(), |code| format!("ended with exit code {code}"));
            format!("{} {what} after SIGTERM: {}", running.name, slot.log_end(6))
        });
        slot.forget(held);
        wrong
    }

    /// Ends a relay at once.
    pub fn kill(slot: &Slot, held: &mut Held) {
        slot.forget(held);
    }
}

impl Slot {
    /// Waits for the right to do something to its process.
    pub async fn hold(&self) -> Held {
        Arc::clone(&self.process).lock_owned().await
    }

    /// The right to do something to its process, if nobody has it.
    pub fn try_hold(&self) -> Option<Held> {
        Arc::clone(&self.process).try_lock_owned().ok()
    }

    /// What is known about its relay.
    pub fn facts(&self) -> Option<Facts> {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = facts.as_mut()?;
        if facts.admin.is_none() {
            facts.admin = logged(&facts.log, "address");
        }
        Some(facts.clone())
    }

    /// Sends its process a signal.
    pub fn signal(&self, what: Signal) {
        if let Some(facts) = self.facts() {
            let _ = signal(facts.pid, what);
        }
    }

    /// Nothing is in the way any more, but for the broker's ordinary latency.
    pub fn calm(&self) {
        self.store.pass(Passage::Open);
        self.broker.pass(Passage::Slow(LATENCY));
    }

    /// What its relay says of itself; none while it does not answer.
    pub async fn report(&self) -> Option<Report> {
        let admin = self.facts()?.admin?;
        let text = timeout(Duration::from_millis(500), ask(&admin, "/status")).await.ok()?.ok()?;
        let json: Value = serde_json::from_str(&text).ok()?;
        let number = |name: &str| json[name].as_u64().unwrap_or(0);
        Some(Report { window: number("window_rows"), lanes: number("lanes"), delivered: number("delivered") })
    }

    /// Its relay's metrics.
    pub async fn metrics(&self) -> Option<String> {
        let admin = self.facts()?.admin?;
        timeout(Duration::from_secs(2), ask(&admin, "/metrics")).await.ok()?.ok()
    }

    /// Whether its process has ended by itself: then its code, or the signal's number.
    pub fn ended(held: &mut Held) -> Option<String> {
        let status = held.as_mut()?.child.try_wait().ok()??;
        Some(status.to_string())
    }

    /// The last lines of its relay's log.
    pub fn log_end(&self, lines: usize) -> String {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = facts.and_then(|facts| fs::read_to_string(facts.log).ok()).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn forget(&self, held: &mut Held) {
        **held = None;
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Bytes of memory and open files of a process.
pub fn usage(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |list| list.count() as u64);
    (kilobytes.unwrap_or(0_u64) * 1024, files)
}

/// A field of the first log line that has it.
fn logged(log: &PathBuf, field: &str) -> Option<String> {
    let text = fs::read_to_string(log).ok()?;
    text.lines().find_map(|line| serde_json::from_str::<Value>(line).ok()?.get(field)?.as_str().map(str::to_owned))
}

async fn ask(address: &str, path: &str) -> Fallible<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
