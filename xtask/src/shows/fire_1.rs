//! Torture.

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::Result;
use crate::reliability;

/// What the kept reports must come to.
const MINUTES: f64 = 120.0;
const SEEDS: usize = 8;

pub const SHOW: Show = Show {
    name: "fire.1",
    says: "real processes under faults drawn from a seed: nothing lost, no ghost, order kept, every repeat explained",
    steps: &[
        Step::Measured {
            does: "ten minutes of PostgreSQL to NATS with three relays",
            words: &[
                "xtask",
                "torture",
                "--seed",
                "1",
                "--minutes",
                "10",
                "--relays",
                "3",
                "--store",
                "postgres",
                "--broker",
                "nats",
            ],
            prints: &["verdict: Pass"],
        },
        Step::Measured {
            does: "ten minutes of SQLite to HTTP with three relays",
            words: &[
                "xtask",
                "torture",
                "--seed",
                "1",
                "--minutes",
                "10",
                "--relays",
                "3",
                "--store",
                "sqlite",
                "--broker",
                "http",
            ],
            prints: &["verdict: Pass"],
        },
        Step::Tests {
            does: "every failpoint with every fault, over PostgreSQL and SQLite",
            package: "postrider-cli",
            target: "failpoints",
            filter: "every_point",
        },
        Step::Look { does: "all kept runs together", look: together },
    ],
};

fn together(scene: &Scene<'_>) -> Result<Seen> {
    let kept = reliability::kept(scene.tree)?;
    let said = format!(
        "{:.0} minutes over {} seeds, {MINUTES:.0} over {SEEDS} are wanted; {} of {} runs passed\n\n{}",
        kept.minutes,
        kept.seeds,
        kept.passed,
        kept.runs,
        reliability::text(scene.tree)?
    );
    let well = kept.minutes >= MINUTES && kept.seeds >= SEEDS && kept.passed == kept.runs;
    Ok(if well { Seen::well(said) } else { Seen::wrong(said) })
}
