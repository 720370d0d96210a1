//! Many relays.

use super::Show;
use super::step::{Scene, Seen, Step, tests};
use crate::Result;
use crate::torture::{Build, other_build};

/// The build that is replaced: the first one that works on newer tables where they say so (docs/adr/0002).
const EARLIER: &str = "10fefd19c6c0";

pub const SHOW: Show = Show {
    name: "fire.4",
    says: "two relays, then four, then one killed, then one paused, then stopped one by one: even shares, order kept; and \
           relays of an earlier build replaced one by one",
    steps: &[
        Step::Tests {
            does: "relays come, die, pause and stop under 500 messages a second, and status shows it",
            package: "postrider-cli",
            target: "many_relays",
            filter: "relays_that_come_die_pause_and_stop",
        },
        Step::Look { does: "two builds side by side keep the promises while one replaces the other", look: upgrade },
    ],
};

/// The rolling upgrade, with the relay of an earlier commit, built here.
fn upgrade(scene: &Scene<'_>) -> Result<Seen> {
    let (previous, commit) = other_build(scene.tree, Build::Release, EARLIER)?;
    println!("the earlier build is {commit}");
    let previous = [("POSTRIDER_PREVIOUS", previous.as_path())];
    tests(scene, "a rolling upgrade", "postrider-cli", "many_relays", "two_builds_side_by_side", &previous)
}
