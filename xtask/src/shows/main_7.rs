//! The operator's verbs.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "main.7",
    says: "history, prune, --until-empty, replay of ten thousand, two replays at once, explain",
    steps: &[Step::Tests {
        does: "each verb of the operator against a real database",
        package: "postrider-cli",
        target: "operator",
        filter: "",
    }],
};
