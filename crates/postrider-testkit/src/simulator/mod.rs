//! Many relays in a simulated world: store, brokers, clocks and faults are drawn from one seed.
//!
//! A world runs the true machine of the core, several relays of it, against a store with the visibility of a database
//! (transactions commit out of order, stay open, roll back), against brokers that accept in part, without an answer or
//! not at all, and in a time of its own that differs from clock to clock. Everything that happens is one queue of
//! events; there is no thread, no clock and no map whose order matters, so that a seed is one world and no other.
//!
//! What must hold is asked at every step (fencing, order within a call, bounds, no repeat of what was acknowledged)
//! and in the end, after everything has healed (nothing lost, nothing invented, order per key and destination,
//! everything drained).

mod broker;
mod campaign;
mod checks;
mod coverage;
mod faults;
mod given_up;
mod happenings;
mod history;
mod holder;
mod judge;
mod lanes;
mod membership;
mod outage;
mod plan;
mod process;
mod rng;
mod source;
mod store;
mod wire;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use campaign::{Campaign, ENOUGH_SEEDS, News};
pub use coverage::{Sight, Sights};
use history::History;
pub use rng::Rng;
pub use world::Violation;
use world::World;

/// The fewest events of a world.
pub const LEAST_EVENTS: u64 = 200;
/// The fewest faults of a world.
pub const LEAST_FAULTS: u32 = 2;
/// The most lines of a history that a failure prints.
const LINES: usize = 160;

/// How a world went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Which one.
    pub seed: u64,
    /// How many events it had.
    pub events: u64,
    /// How many faults struck.
    pub faults: u32,
    /// How long it lasted, in microseconds of its own time.
    pub lasted: u64,
    /// A number that any other course of events would have changed.
    pub hash: u64,
    /// What was to be seen in it.
    pub seen: Sights,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
}

impl Run {
    /// Whether it went to its end and too little happened in it to prove anything.
    pub fn is_thin(&self) -> bool {
        self.violation.is_none() && (self.events < LEAST_EVENTS || self.faults < LEAST_FAULTS)
    }
}

/// Plays the world of a seed.
pub fn run(seed: u64) -> Run {
    play(seed, History::default()).0
}

/// Plays the world of a seed again, and tells what happened in it, line by line.
pub fn replay(seed: u64) -> (Run, Vec<String>) {
    play(seed, History::told())
}

/// Of a history, what is about the rows of a violation, and every fault.
pub fn minimal(history: &[String], violation: &Violation) -> Vec<String> {
    let mentions = |line: &str| {
        let words = line.split(|c: char| !(c.is_ascii_digit() || c == '#'));
        let mut rows = words.filter_map(|word| word.strip_prefix('#')?.parse::<i64>().ok());
        rows.any(|row| violation.rows.contains(&row))
    };
    let matters = |line: &&String| {
        let written = line.contains("** insert") || line.contains("** commit") || line.contains("** rollback");
        mentions(line) || line.contains("!!") || (line.contains("** ") && !written)
    };
    let lines: Vec<String> = history.iter().filter(matters).cloned().collect();
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

fn play(seed: u64, history: History) -> (Run, Vec<String>) {
    let mut world = World::new(seed, history);
    let panicked = catch_unwind(AssertUnwindSafe(|| world.play())).err();
    if let Some(panic) = panicked {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        world.violated("P7", format!("a panic: {said}"), Vec::new());
    }
    let run = Run {
        seed,
        events: world.events,
        faults: world.faults,
        lasted: world.now,
        hash: world.history.hash(),
        seen: world.seen,
        violation: world.violation,
    };
    (run, world.history.lines())
}
