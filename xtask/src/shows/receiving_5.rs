//! The two leaks of the published algorithms.

use super::Show;
use super::step::Step;

pub const SHOW: Show = Show {
    name: "receiving.5",
    says: "an early return on a repeat and tokens that nobody owns leave something behind in the published algorithms, and \
           nothing here",
    steps: &[
        Step::Tests {
            does: "the published algorithms in the model: what is left behind for ever",
            package: "postrider-model",
            target: "receiving",
            filter: "the_two_leaks",
        },
        Step::Cargo {
            does: "the same histories with the processor: nothing is left",
            words: &[
                "test",
                "--package",
                "postrider",
                "--all-features",
                "--test",
                "processor",
                "--",
                "--nocapture",
                "a_repeat_finishes_what_it_finds",
                "a_sweep_leaves",
                "an_output_is_not_processed_before",
                "of_messages_that_went_through_two_receivers",
            ],
            prints: &["4 passed; 0 failed"],
        },
    ],
};
