//! Named rows, and breaks.

use super::Show;
use super::step::Step;

/// All tests.
pub const TESTS: Step = Step::Cargo {
    does: "all tests; the table has a row per sentence",
    words: &["xtask", "test"],
    prints: &["named rows:", ", 0 without a case, 0 missing"],
};

/// All breaks.
pub const BREAKS: Step = Step::Cargo {
    does: "one break at least per promise, each red",
    words: &["xtask", "breaks"],
    prints: &[" red, 0 not, 0 promises without a break"],
};

pub const SHOW: Show = Show {
    name: "main.0",
    says: "every promised sentence has its cases, and each promise broken on purpose turns a test red",
    // A break that no longer applies is known before an hour of tests.
    steps: &[BREAKS, TESTS],
};
