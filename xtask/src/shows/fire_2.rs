//! The torturer tested.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "fire.2",
    says: "products with one bug each: torture finds every one of them within five minutes",
    steps: &[Step::Cargo {
        does: "the table of seeded bugs",
        words: &["xtask", "torture", "--bugs"],
        prints: &["12 of 12 bugs found"],
    }],
};
