//! Torture of receivers.

use super::Show;
use super::step::Step;

/// Receivers that remember in this way, among the faults of relays and broker.
const fn torture(does: &'static str, words: &'static [&'static str]) -> Step {
    Step::Measured { does, words, prints: &["verdict: Pass", "wrong 0"] }
}

pub const SHOW: Show = Show {
    name: "receiving.3",
    says: "receivers killed between commit and acknowledgement, messages delivered again on purpose: no effect wrong; the whole \
           stream read again when everything is forgotten changes nothing, and what is refused is kept and counted",
    steps: &[
        torture(
            "the inbox",
            &["xtask", "torture", "--seed", "31", "--minutes", "10", "--rate", "200", "--consumer", "inbox"],
        ),
        torture(
            "processors, ids in the document",
            &["xtask", "torture", "--seed", "32", "--minutes", "10", "--rate", "200", "--consumer", "processor"],
        ),
        torture(
            "processors with known ids",
            &["xtask", "torture", "--seed", "33", "--minutes", "10", "--rate", "200", "--consumer", "known-ids"],
        ),
    ],
};
