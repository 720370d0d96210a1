//! Many relays.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "fire.4",
    says: "two relays, then four, then one killed, then one paused, then stopped one by one: even shares, order kept",
    steps: &[Step::Tests {
        does: "relays come, die, pause and stop under 500 messages a second, and status shows it",
        package: "postrider-cli",
        target: "many_relays",
        filter: "relays_that_come_die_pause_and_stop",
    }],
};
