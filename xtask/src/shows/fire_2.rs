//! The torturer tested, and the tests.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "fire.2",
    says: "products with one bug each: torture finds every one of them within five minutes; with one place changed: a test does, or it \
           is known why none can",
    steps: &[
        Step::Cargo {
            does: "the table of seeded bugs",
            words: &["xtask", "torture", "--bugs"],
            prints: &["12 of 12 bugs found"],
        },
        Step::Cargo {
            does: "the table of mutants",
            words: &["xtask", "mutants"],
            prints: &[" survived, 0 not explained"],
        },
    ],
};
