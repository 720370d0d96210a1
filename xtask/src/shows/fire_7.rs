//! A held key, a poison and a rejecting destination beside everything else.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "fire.7",
    says: "what waits behind a held key costs the others nothing: their rate and the memory stay what they were",
    steps: &[
        Step::Tests {
            does: "ten million rows behind one held key, a poison on one key, a rejecting destination on one topic",
            package: "postrider-cli",
            target: "held_key",
            filter: "beside::",
        },
        Step::Tests {
            does: "a held key through kill -9 and takeovers",
            package: "postrider-cli",
            target: "held_key",
            filter: "kills::",
        },
    ],
};
