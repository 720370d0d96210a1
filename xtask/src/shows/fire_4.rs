//! Many relays.

use std::time::Duration;

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::Result;
use crate::process::run;
use crate::torture::{Build, other_build};

/// The build that is replaced: an early one that shares lanes by terms.
const EARLIER: &str = "6e3dd498f130";
const LIMIT: Duration = Duration::from_secs(1800);

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
    let mut command = scene.tree.cargo();
    command.args(["test", "--release", "--all-features", "-p", "postrider-cli", "--test", "many_relays", "--"]);
    command.args(["two_builds_side_by_side", "--include-ignored", "--nocapture"]).env("POSTRIDER_PREVIOUS", &previous);
    let ran = run(&mut command, &scene.logs.join("upgrade"), LIMIT)?;
    let result = ran.out.lines().find(|line| line.contains("messages during the upgrade"));
    Ok(match (ran.succeeded(), result) {
        (true, Some(result)) => Seen::well(format!("from {commit}: {result}")),
        _ => Seen::wrong(format!("{}\n{}", ran.said(), ran.ending())),
    })
}
