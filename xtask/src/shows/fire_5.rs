//! How fast, how soon, and at whose cost.

use super::Show;
use super::step::Step;

/// One part of the measurement: it fails where a figure is not as demanded or its verdict does not hold.
const fn part(does: &'static str, words: &'static [&'static str], prints: &'static [&'static str]) -> Step {
    Step::Measured { does, words, prints }
}

pub const SHOW: Show = Show {
    name: "fire.5",
    says: "drain at least half of the limit to memory and three quarters of it to NATS JetStream; latency, cost, memory",
    steps: &[
        part(
            "drain rates beside their limits, with a verdict",
            &["xtask", "bench", "--only", "drain"],
            &["lost 0, ghosts 0, order 0", "ratio at least 0.5: kept", "ratio at least 0.75: kept", "one in flight"],
        ),
        part(
            "latency at steady rates",
            &["xtask", "bench", "--only", "latency"],
            &["lost 0, ghosts 0, order 0", "at most 5: kept", "at most 25: kept"],
        ),
        part(
            "write-ahead log, dead rows and processor time of a message",
            &["xtask", "bench", "--only", "cost"],
            &["ratio at most 1.3: kept", "refused once and tried again: WAL", "set aside behind a held message"],
        ),
        part(
            "the application's own transactions",
            &["xtask", "bench", "--only", "transactions"],
            &["ratio at most 1.2: kept", "lost 0, ghosts 0"],
        ),
        part(
            "peak memory at backlogs of every size",
            &["xtask", "bench", "--only", "memory"],
            &["backlog of 10,000,000: peak memory", "at most 100: kept", "lost 0, ghosts 0"],
        ),
        part(
            "one, two and four relays on one backlog",
            &["xtask", "bench", "--only", "scaling"],
            &["relays: 1", "relays: 2", "relays: 4", "lost 0, ghosts 0, order 0"],
        ),
    ],
};
