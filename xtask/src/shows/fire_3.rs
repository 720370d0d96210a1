//! A million simulated worlds, and every history of a small one.

use std::time::Duration;

use super::Show;
use super::step::{Scene, Seen, Step};
use crate::Result;
use crate::process::run;

/// Guards that are taken away one by one: as many as there are, so that none gets lost.
const LEAST_GUARDS: usize = 28;
const LIMIT: Duration = Duration::from_secs(3 * 3600);

pub const SHOW: Show = Show {
    name: "fire.3",
    says: "a million simulated worlds without a broken promise, without any one guard some of ten thousand break one; the \
           model, checked exhaustively at its bounds, in which every broken rule makes a promise fall",
    steps: &[
        Step::Cargo {
            does: "cargo xtask simulate --seeds 1000000",
            words: &["xtask", "simulate", "--seeds", "1000000"],
            prints: &["1000000 seeds in", "0 broken promises, 0 of"],
        },
        Step::Tests {
            does: "the same seed is the same world, word for word",
            package: "postrider-testkit",
            target: "simulator",
            filter: "the_simulator_is_deterministic",
        },
        Step::Tests {
            does: "thousands of worlds of the relay itself, its tasks and all, keep every promise",
            package: "postrider-relay",
            target: "worlds",
            filter: "every_promise",
        },
        Step::Look { does: "deleting any one guard breaks a promise in ten thousand worlds or fewer", look: guards },
        Step::Tests {
            does: "every history within the model's bounds keeps every promise",
            package: "postrider-model",
            target: "histories",
            filter: "every_history",
        },
        Step::Tests {
            does: "every rule of the model that is broken on purpose makes its promise fall",
            package: "postrider-model",
            target: "histories",
            filter: "every_broken_rule",
        },
    ],
};

/// Every break whose name begins with `guard-`: a guard of the core that is taken away, judged by the simulator.
fn guards(scene: &Scene<'_>) -> Result<Seen> {
    let folder = "crates/postrider-testkit/breaks/";
    let mut names: Vec<String> = scene
        .tree
        .files()?
        .iter()
        .filter_map(|file| file.to_str()?.strip_prefix(folder)?.strip_suffix(".patch").map(str::to_owned))
        .filter(|name| name.starts_with("guard-"))
        .collect();
    names.sort();
    let mut command = scene.tree.cargo();
    command.args(["xtask", "breaks"]).args(&names);
    let ran = run(&mut command, &scene.logs.join("guards"), LIMIT)?;
    let said = format!("{} guards\n{}", names.len(), ran.said());
    Ok(if ran.succeeded() && names.len() >= LEAST_GUARDS { Seen::well(said) } else { Seen::wrong(said) })
}
