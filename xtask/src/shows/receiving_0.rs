//! Named rows, breaks and seeded bugs, with those of the receiving side.

use super::{Show, fire_2, main_0};

pub const SHOW: Show = Show {
    name: "receiving.0",
    says: "every promised sentence of the receiving side has its cases too, each promise broken on purpose turns a test red, and \
           torture finds products with one bug each, those of receivers among them",
    steps: &[main_0::BREAKS, main_0::TESTS, fire_2::BUGS],
};
