//! Awkward transactions.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "main.4",
    says: "transactions that commit against their order, long, rolled back, with savepoints, prepared, of a million rows",
    steps: &[Step::Tests {
        does: "everything is delivered, nothing waits for an unrelated transaction",
        package: "postrider-cli",
        target: "transactions",
        filter: "",
    }],
};
