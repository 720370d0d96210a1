//! Outages, and one poisonous message.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "main.6",
    says: "an outage costs no attempt and no dead letter; a poisonous message costs itself",
    steps: &[
        Step::Tests {
            does: "broker stopped, stream deleted, endpoint failing, credentials revoked, a minute each",
            package: "postrider-cli",
            target: "outage",
            filter: "drains_in_order",
        },
        Step::Tests {
            does: "the message that makes the broker drop the connection",
            package: "postrider-cli",
            target: "outage",
            filter: "poison::",
        },
    ],
};
