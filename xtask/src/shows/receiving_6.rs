//! The code of the page.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "receiving.6",
    says: "the code of docs/exactly-once.md runs as tests",
    steps: &[
        Step::Cargo {
            does: "every block of the page",
            words: &["test", "--package", "postrider", "--all-features", "--doc", "ExactlyOnce"],
            prints: &["test result: ok", "ExactlyOnce (line"],
        },
        Step::Cargo {
            does: "no block of a page is unmarked, and every test that a page names exists",
            words: &["test", "--package", "postrider-cli", "--test", "readme"],
            prints: &["test result: ok"],
        },
    ],
};
