//! What a show is made of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::process::run;
use crate::tree::Tree;

/// What the steps work with.
pub struct Scene<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// Where logs go.
    pub logs: PathBuf,
    /// Whether what is seen is kept under `docs/reports/`.
    pub report: bool,
}

/// What a step saw.
pub struct Seen {
    /// Whether it is what was promised.
    pub well: bool,
    /// Whether there was something to look at.
    pub built: bool,
    /// What is shown of it.
    pub said: String,
}

/// One step.
pub enum Step {
    /// Cargo, called with these words in the tree: exit code 0, and every text of `prints` in what it says.
    Cargo {
        /// In a sentence.
        does: &'static str,
        /// Its arguments.
        words: &'static [&'static str],
        /// What must be in its outputs.
        prints: &'static [&'static str],
    },
    /// The same; where what is seen is kept, what cargo measures is kept as well, in its own form.
    Measured {
        /// In a sentence.
        does: &'static str,
        /// Its arguments.
        words: &'static [&'static str],
        /// What must be in its outputs.
        prints: &'static [&'static str],
    },
    /// Tests, the long ones too, in a release build; what they print is shown.
    Tests {
        /// In a sentence.
        does: &'static str,
        /// The package.
        package: &'static str,
        /// The test target.
        target: &'static str,
        /// A part of the tests' names.
        filter: &'static str,
    },
    /// Something that this program does itself.
    Look {
        /// In a sentence.
        does: &'static str,
        /// How.
        look: fn(&Scene<'_>) -> Result<Seen>,
    },
}

const LIMIT: Duration = Duration::from_secs(3 * 3600);

impl Seen {
    /// What was promised.
    pub fn well(said: impl Into<String>) -> Self {
        Self { well: true, built: true, said: said.into() }
    }

    /// Something else.
    pub fn wrong(said: impl Into<String>) -> Self {
        Self { well: false, built: true, said: said.into() }
    }

    /// Nothing: it does not exist.
    pub fn not_built(what: impl Into<String>) -> Self {
        Self { well: false, built: false, said: what.into() }
    }

    /// One word for the table.
    pub fn word(&self) -> &'static str {
        match (self.well, self.built) {
            (true, _) => "ok",
            (false, true) => "FAILED",
            (false, false) => "not built yet",
        }
    }
}

impl Step {
    /// The step in a sentence.
    pub fn does(&self) -> &'static str {
        match self {
            Self::Cargo { does, .. }
            | Self::Measured { does, .. }
            | Self::Tests { does, .. }
            | Self::Look { does, .. } => does,
        }
    }

    /// Whether both are one command of cargo that keeps nothing by itself: what one of them shows, the other would.
    pub fn is_the_command_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cargo { words, prints, .. }, Self::Cargo { words: others, prints: printed, .. }) => {
                words == others && prints == printed
            }
            _ => false,
        }
    }

    /// Takes the step.
    pub fn run(&self, scene: &Scene<'_>) -> Result<Seen> {
        match self {
            Self::Cargo { does, words, prints } => cargo(scene, does, words, prints),
            Self::Measured { does, words, prints } => {
                let keep = scene.report.then_some("--report");
                cargo(scene, does, &words.iter().copied().chain(keep).collect::<Vec<_>>(), prints)
            }
            Self::Tests { does, package, target, filter } => tests(scene, does, package, target, filter, &[]),
            Self::Look { look, .. } => look(scene),
        }
    }
}

fn cargo(scene: &Scene<'_>, does: &str, words: &[&str], prints: &[&str]) -> Result<Seen> {
    let mut command = scene.tree.cargo();
    let ran = run(command.args(words), &scene.logs.join(log_name(does)), LIMIT)?;
    let said = ran.said();
    let absent: Vec<&&str> = prints.iter().filter(|text| !said.contains(**text)).collect();
    Ok(if !ran.succeeded() {
        Seen::wrong(format!("{said}\n{}", ran.ending()))
    } else if !absent.is_empty() {
        Seen::wrong(format!("{said}\nit does not say {absent:?}"))
    } else {
        Seen::well(said)
    })
}

/// The tests of a step, or of a look that has something to tell them by variables.
pub fn tests(
    scene: &Scene<'_>,
    does: &str,
    package: &str,
    target: &str,
    filter: &str,
    variables: &[(&str, &Path)],
) -> Result<Seen> {
    let metadata = scene.tree.metadata()?;
    let exists = metadata
        .packages
        .iter()
        .filter(|one| one.name == package)
        .flat_map(|one| &one.targets)
        .any(|one| one.name == target && one.kind.iter().any(|kind| kind == "test"));
    if !exists {
        return Ok(Seen::not_built(format!("{package} has no tests called {target}")));
    }
    let mut command = scene.tree.cargo();
    command.args(["test", "--release", "--all-features", "-p", package, "--test", target, "--"]);
    command.args([filter, "--include-ignored", "--nocapture", "--test-threads=1"]).env("POSTRIDER_FULL", "1");
    command.envs(variables.iter().copied());
    let ran = run(&mut command, &scene.logs.join(log_name(does)), LIMIT)?;
    let ran_none = ran.out.contains("ok. 0 passed");
    let missing = ran.said().contains("NOT RUN: ");
    let said = ran.said();
    let seen = said.lines().filter(|line| !is_of_the_build(line)).collect::<Vec<_>>().join("\n");
    Ok(match (ran.succeeded(), ran_none, missing) {
        (true, true, _) => Seen::not_built(format!("{package}::{target} has no test called like {filter:?}")),
        (true, false, false) => Seen::well(seen),
        _ => Seen::wrong(format!("{seen}\n{}", ran.ending())),
    })
}

/// Lines of cargo's own, which tell of this machine's folders and nothing about the product.
fn is_of_the_build(line: &str) -> bool {
    ["Compiling ", "Finished ", "Running ", "Executable ", "Blocking ", "Downloading ", "Downloaded "]
        .iter()
        .any(|word| line.trim_start().starts_with(word))
}

fn log_name(does: &str) -> String {
    does.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).take(60).collect()
}
