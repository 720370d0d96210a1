//! Many seeds, one after another or several at once: how they went, and what was to be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{LEAST_EVENTS, LEAST_FAULTS, Run, Sight, Violation, minimal, replay, run};

/// Seeds that a thread takes at once.
const CHUNK: u64 = 64;
/// After so many failures nothing more is to be learned.
const ENOUGH_FAILURES: usize = 20;
/// From so many seeds on, the coverage is judged.
pub const ENOUGH_SEEDS: u64 = 1_000;

/// What is told while seeds are played.
#[derive(Debug)]
pub enum News<'a> {
    /// So many are done.
    Played(u64),
    /// This one broke a promise.
    Broken(u64, &'a Violation),
}

/// How many seeds went.
#[derive(Debug, Default)]
pub struct Campaign {
    /// How many were played.
    pub seeds: u64,
    /// How many events they had in all.
    pub events: u64,
    /// How many faults.
    pub faults: u64,
    /// How long the worlds lasted in their own time, in microseconds.
    pub simulated: u64,
    /// The fewest events of one.
    pub least_events: u64,
    /// The fewest faults of one.
    pub least_faults: u32,
    /// In how many of them each thing was to be seen.
    pub seen: BTreeMap<Sight, u64>,
    /// Those that broke a promise, by seed.
    pub failures: BTreeMap<u64, Violation>,
    /// Those in which too little happened to prove anything.
    pub thin: BTreeSet<u64>,
    /// All hashes as one number, whatever the order of the runs.
    pub hash: u64,
    /// How long it took.
    pub took: Duration,
}

impl Campaign {
    /// Plays these seeds with so many threads. `tell` hears how it goes.
    pub fn play(seeds: Range<u64>, threads: usize, tell: impl Fn(News<'_>) + Sync) -> Self {
        let started = Instant::now();
        let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
        let whole = Mutex::new(Self { least_events: u64::MAX, least_faults: u32::MAX, ..Self::default() });
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    loop {
                        let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                        if first >= seeds.end {
                            return;
                        }
                        let runs: Vec<Run> = (first..seeds.end.min(first + CHUNK)).map(run).collect();
                        let count = runs.len() as u64;
                        for run in &runs {
                            run.violation.iter().for_each(|violation| tell(News::Broken(run.seed, violation)));
                        }
                        let mut whole = whole.lock().expect("no thread panics with it");
                        runs.into_iter().for_each(|run| whole.add(run));
                        if whole.failures.len() >= ENOUGH_FAILURES {
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                        drop(whole);
                        tell(News::Played(done.fetch_add(count, Ordering::Relaxed) + count));
                    }
                });
            }
        });
        let mut whole = whole.into_inner().expect("no thread panicked with it");
        whole.took = started.elapsed();
        whole
    }

    fn add(&mut self, run: Run) {
        self.seeds += 1;
        self.events += run.events;
        self.faults += u64::from(run.faults);
        self.simulated += run.lasted;
        self.least_events = self.least_events.min(run.events);
        self.least_faults = self.least_faults.min(run.faults);
        self.hash ^= run.hash.wrapping_mul(run.seed.wrapping_mul(2).wrapping_add(1));
        for sight in Sight::ALL.iter().filter(|sight| run.seen.has(**sight)) {
            *self.seen.entry(*sight).or_default() += 1;
        }
        if run.is_thin() {
            self.thin.insert(run.seed);
        }
        if let Some(violation) = run.violation {
            self.failures.insert(run.seed, violation);
        }
    }

    /// What was to be seen in one of a hundred seeds or fewer, where there were enough of them to say so.
    pub fn unseen(&self) -> Vec<Sight> {
        let rare = |sight: &Sight| self.seen.get(sight).copied().unwrap_or(0) * 100 <= self.seeds;
        let judged = Sight::ALL.iter().copied().filter(|_| self.seeds >= ENOUGH_SEEDS);
        judged.filter(rare).collect()
    }

    /// Whether every promise held, and enough happened.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty() && self.thin.is_empty() && self.unseen().is_empty()
    }

    /// The whole of it as text.
    pub fn report(&self) -> String {
        let mut text = String::new();
        let percent = |sight: &Sight| {
            let count = self.seen.get(sight).copied().unwrap_or(0);
            (count, count as f64 * 100.0 / self.seeds.max(1) as f64)
        };
        let width = Sight::ALL.iter().map(|sight| sight.words().len()).max().unwrap_or(0);
        let _ = writeln!(text, "{:<width$}  {:>9}  of the seeds", "what was to be seen", "seeds");
        for sight in Sight::ALL {
            let (count, percent) = percent(sight);
            let mark = if self.unseen().contains(sight) { "  TOO RARE" } else { "" };
            let _ = writeln!(text, "{:<width$}  {count:>9}  {percent:>6.2} %{mark}", sight.words());
        }
        for (seed, violation) in &self.failures {
            let _ = writeln!(text, "\nseed {seed} broke {}: {}", violation.promise, violation.text);
        }
        if let Some((seed, violation)) = self.failures.first_key_value() {
            let (_, history) = replay(*seed);
            let _ = writeln!(text, "\nthe history of seed {seed}, as far as it matters:");
            minimal(&history, violation).iter().for_each(|line| text.push_str(&format!("{line}\n")));
            let _ = writeln!(text, "\nthe whole of it: cargo xtask simulate --seed {seed}");
        }
        let seconds = self.took.as_secs_f64().max(0.001);
        let _ = writeln!(
            text,
            "\n{} seeds in {:.1} s: {:.0} seeds per second, {:.0} simulated seconds in every second",
            self.seeds,
            seconds,
            self.seeds as f64 / seconds,
            self.simulated as f64 / 1e6 / seconds,
        );
        let _ = writeln!(
            text,
            "{} events and {} faults; at least {} events and {} faults in a seed ({LEAST_EVENTS} and {LEAST_FAULTS} are \
             demanded), fewer in {}",
            self.events,
            self.faults,
            self.least_events,
            self.least_faults,
            self.thin.len()
        );
        let _ = writeln!(
            text,
            "{} broken promises, {} of {} interesting events in one of a hundred seeds or fewer",
            self.failures.len(),
            self.unseen().len(),
            Sight::ALL.len()
        );
        text
    }
}
