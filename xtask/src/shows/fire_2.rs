//! The torturer tested, and the tests.

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::{Result, mutants};

/// All seeded bugs.
pub const BUGS: Step = Step::Cargo {
    does: "the table of seeded bugs",
    words: &["xtask", "torture", "--bugs"],
    prints: &["23 of 23 bugs found, 0 not"],
};

pub const SHOW: Show = Show {
    name: "fire.2",
    says: "products with one bug each: torture finds every one of them within five minutes; with one place changed: a test does, or it \
           is known why none can",
    steps: &[BUGS, Step::Look { does: "the table of mutants, of the kept judgements of both packages", look: kept }],
};

fn kept(scene: &Scene<'_>) -> Result<Seen> {
    let (text, well) = mutants::kept(scene.tree)?;
    Ok(if well { Seen::well(text) } else { Seen::wrong(text) })
}
