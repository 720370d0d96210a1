//! Named rows, and breaks, with those of many relays.

use super::Show;

pub const SHOW: Show = Show {
    name: "fire.0",
    says: "every promised sentence of many relays has its cases too, and each promise broken on purpose turns a test red",
    steps: super::main_0::SHOW.steps,
};
