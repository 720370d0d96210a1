//! PostgreSQL to NATS JetStream, written by other languages.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "main.2",
    says: "PostgreSQL to NATS JetStream by the README, written by psql and by Python: in order per key, nothing lost on the way",
    steps: &[
        Step::Tests {
            does: "psql and a Python program write, the binary relays, a consumer compares",
            package: "postrider-cli",
            target: "postgres_to_nats",
            filter: "",
        },
        Step::Tests {
            does: "the walk of the README, block by block",
            package: "postrider-cli",
            target: "readme",
            filter: "the_readme_does_what_it_says",
        },
    ],
};
