//! `kill -9` of the real binary, again and again under load: nothing lost, no ghosts, order kept per key.
//!
//! Eight kills are the miniature; `POSTRIDER_FULL=1` (`cargo xtask show main.3`) makes it a hundred. The writer and
//! the broker's file go on while relays die; the verdict compares the ledger of committed messages with the file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod postgres;
mod sqlite;
mod verdict;

use postrider_testkit::command::command;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use verdict::{Delivered, Ledger};

/// Keys of the load.
const KEYS: u64 = 20;
/// The lease of the relays, as the issue asks.
const LEASE: &str = "2s";

/// Messages still in the outbox.
trait Outbox {
    fn pending(&mut self) -> Vec<String>;
}

fn kills() -> usize {
    if std::env::var_os("POSTRIDER_FULL").is_some() { 100 } else { 8 }
}

fn binary(store: &str) -> Command {
    let mut command = command(env!("CARGO_BIN_EXE_postrider"));
    command.args(["--store", store]).stdin(Stdio::null());
    command
}

fn relay(store: &str, file: &Path, arguments: &[&str], log: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
    binary(store)
        .args(["relay", "--relay-lease", LEASE, "--admin-listen", "127.0.0.1:0"])
        .args(["--broker", &format!("file://{}", file.display())])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// A small generator, so that a run can be repeated: the seed is printed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Kills relays until it was done often enough, then lets one finish, and judges.
fn kill_again_and_again(name: &str, store: &str, folder: &Path, mut outbox: impl Outbox, writer: Writer) {
    let kills = kills();
    let seed = 20_261_120 + u64::try_from(kills).unwrap();
    let (file, log) = (folder.join("delivered.jsonl"), folder.join("relay.log"));
    let mut random = Random(seed);
    let mut delivered = Delivered::new(file.clone());
    let (mut hit, mut unsettled) = (0, 0);
    let started = Instant::now();
    for _ in 0..kills {
        let mut child = relay(store, &file, &[], &log);
        wait_for_growth(&file, &mut child, &log);
        thread::sleep(Duration::from_millis(random.below(60)));
        // In the middle of a delivery: what has just appeared in the file is not settled yet.
        wait_for_growth(&file, &mut child, &log);
        child.kill().unwrap();
        child.wait().unwrap();
        delivered.take_in();
        let pending = outbox.pending();
        let published = pending.iter().filter(|id| delivered.has(id)).count();
        unsettled += published;
        hit += usize::from(published > 0);
    }
    let ledger = writer.stop();
    let mut last = relay(store, &file, &["--until-empty"], &log);
    let status = last.wait().unwrap();
    assert!(status.success(), "the last relay ended with {status}; see {}", tail(&log));
    delivered.take_in();
    let verdict = verdict::judge(&ledger, &delivered);
    println!(
        "{name}: {kills} kills in {:?}, seed {seed}; committed {}, rolled back {}, delivered {}, {verdict}; \
         kills that hit messages published and not settled: {hit}, {unsettled} messages in all ({:.1} repeats per kill)",
        started.elapsed(),
        ledger.committed.len(),
        ledger.rolled_back.len(),
        delivered.count(),
        f64::from(u32::try_from(verdict.repeats).unwrap()) / f64::from(u32::try_from(kills).unwrap()),
    );
    assert!(verdict.holds(), "{verdict}");
    let left = outbox.pending();
    assert!(left.is_empty(), "{} messages are left: {}\n{}", left.len(), dead(store), tail(&log));
    assert!(hit * 100 >= kills * 60, "inconclusive: only {hit} of {kills} kills hit messages in flight");
}

fn dead(store: &str) -> String {
    let listed = binary(store).args(["dead", "list", "--json"]).output().unwrap();
    String::from_utf8_lossy(&listed.stdout).into_owned()
}

fn wait_for_growth(file: &Path, child: &mut Child, log: &Path) {
    let size = || std::fs::metadata(file).map_or(0, |data| data.len());
    let (before, deadline) = (size(), Instant::now() + Duration::from_secs(30));
    while size() <= before {
        assert!(child.try_wait().unwrap().is_none(), "the relay ended by itself: {}", tail(log));
        assert!(Instant::now() < deadline, "the relay delivers nothing: {}", tail(log));
        thread::sleep(Duration::from_micros(100));
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// A load that goes on until it is told to stop, and then hands over its ledger.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Ledger>,
}

impl Writer {
    fn start(write: impl FnOnce(&AtomicBool) -> Ledger + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        Self { stop, thread: thread::spawn(move || write(&asked)) }
    }

    fn stop(self) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn migrate(store: &str) {
    let done = binary(store).arg("migrate").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}
