//! What receiving once costs.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "receiving.4",
    says: "each way to receive once beside receiving without it, in one run: the SQL inbox takes at most 1.35 times the plain \
           transaction's time, and forgetting keeps its latency flat over ten times of what it remembers",
    steps: &[Step::Measured {
        does: "each way to remember, in turns with none, and the inbox while it forgets",
        words: &["xtask", "bench", "--only", "receiving"],
        prints: &[
            "a transaction with a round trip more, nothing remembered: p50",
            "a transaction with the inbox, asked with the effect: p50",
            "a transaction with the inbox, asked before the effect: p50",
            "ratio at most 1.35: kept",
            "a transaction with the cursor: p50",
            "a transaction with a token of the same database: p50",
            "a request with an idempotency key, in two transactions: p50",
            "a processor, ids in the document: p50",
            "a processor with known ids: p50",
            "a processor with tokens: p50",
            "the inbox, the last three periods: p99",
            "ratio at most 1.5: kept",
        ],
    }],
};
