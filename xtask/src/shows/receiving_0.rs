//! Named rows, and breaks, with those of the receiving side.

use super::Show;

pub const SHOW: Show = Show {
    name: "receiving.0",
    says: "every promised sentence of the receiving side has its cases too, and each promise broken on purpose turns a test red",
    steps: super::main_0::SHOW.steps,
};
