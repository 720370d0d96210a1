//! A large backlog in little memory.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "main.5",
    says: "five million rows, two thousand of a mebibyte, a million delayed and a million dead: flat memory",
    steps: &[Step::Tests {
        does: "resident memory and drain rates, the broker slow and then not",
        package: "postrider-cli",
        target: "backlog",
        filter: "",
    }],
};
