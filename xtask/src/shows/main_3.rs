//! The crash matrix.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "main.3",
    says: "the relay dies before and after each of its calls, and by kill -9 under load: nothing lost, no ghost, order kept",
    steps: &[
        Step::Tests {
            does: "every crash point, on every store",
            package: "postrider-relay",
            target: "crash_matrix",
            filter: "",
        },
        Step::Tests {
            does: "kill -9 of the binary, a hundred times on PostgreSQL and on SQLite",
            package: "postrider-cli",
            target: "kill_nine",
            filter: "",
        },
    ],
};
