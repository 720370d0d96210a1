//! Beside a transaction that is held open.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "fire.6",
    says: "a transaction held open for ten minutes at 1,000 messages a second: drain rate and latency within 1.5 times",
    steps: &[Step::Measured {
        does: "drain rate and latency with and without the transaction",
        words: &["xtask", "bench", "--only", "held"],
        prints: &["lost 0, ghosts 0, order 0", "ratio at most 1.5: kept", "ratio at least 0.67: kept"],
    }],
};
