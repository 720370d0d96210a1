//! `cargo xtask check`: what can be judged without running the product.

mod backends;
mod cargo;
mod deny;
mod files;
mod floors;
mod samples;
mod traces;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::process::seconds;
use crate::tree::Tree;
use crate::{Result, table};

pub use backends::prices;
pub use files::{LOOP_CAP, LOOP_FILE, SIZE_CAP, line_counts};

/// What a step found.
#[derive(Debug)]
pub enum Verdict {
    /// All well, and what was looked at.
    Passed(String),
    /// What is wrong, at full length.
    Failed(String),
    /// Not run, and why.
    NotRun(String),
}

/// What the steps need to know.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The tree that is judged.
    pub tree: &'a Tree,
    /// Whether missing tools may be built.
    pub install: bool,
    /// Where logs go.
    pub logs: PathBuf,
}

struct Step {
    name: &'static str,
    does: &'static str,
    run: fn(&Scene<'_>) -> Result<Verdict>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", does: "every file is formatted", run: cargo::fmt },
    Step { name: "floors", does: "no crate imports upward or sideways", run: floors::step },
    Step { name: "sizes", does: "no file over 600 lines, the loop on one screen", run: files::sizes },
    Step { name: "names", does: "no module is called util, common, helpers, manager or types", run: files::names },
    Step { name: "backends", does: "a backend touches no file that is not known", run: backends::step },
    Step { name: "traces", does: "no registry hosts and no paths of a machine", run: traces::step },
    Step { name: "deny", does: "bans, licences and sources of the dependencies", run: deny::rules },
    Step { name: "advisories", does: "known holes in the dependencies", run: deny::advisories },
    Step { name: "clippy", does: "all targets, all features, warnings denied", run: cargo::clippy },
    Step { name: "features", does: "every feature builds alone, warnings denied", run: cargo::features },
    Step { name: "docs", does: "the documentation builds, warnings denied", run: cargo::docs },
    Step { name: "samples", does: "crates outside the workspace build and pass", run: samples::step },
];

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let mut install = false;
    let mut chosen = Vec::new();
    for word in arguments {
        match word.as_str() {
            "--install" => install = true,
            "--list" => {
                for step in STEPS {
                    println!("{:<11} {}", step.name, step.does);
                }
                return Ok(ExitCode::SUCCESS);
            }
            name => match STEPS.iter().find(|step| step.name == name) {
                Some(step) => chosen.push(step),
                None => {
                    eprintln!("check has no step {name:?}; `cargo xtask check --list` prints them");
                    return Ok(ExitCode::from(2));
                }
            },
        }
    }
    if chosen.is_empty() {
        chosen.extend(STEPS);
    }
    let scene = Scene { tree, install, logs: tree.fresh_folder("check")? };
    run(&scene, &chosen)
}

fn run(scene: &Scene<'_>, steps: &[&Step]) -> Result<ExitCode> {
    let mut rows = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for step in steps {
        let started = Instant::now();
        let verdict = (step.run)(scene).unwrap_or_else(|error| Verdict::Failed(error.to_string()));
        let took = seconds(started.elapsed());
        let (word, text) = match verdict {
            Verdict::Passed(text) => {
                passed += 1;
                ("ok", text)
            }
            Verdict::Failed(text) => {
                failed += 1;
                ("FAILED", text)
            }
            Verdict::NotRun(text) => {
                skipped += 1;
                ("not run", text)
            }
        };
        let first = text.lines().next().unwrap_or_default().to_owned();
        println!("{:<11} {word:<8} {took:>9}  {first}", step.name);
        if word == "FAILED" {
            println!("{text}\n");
        }
        rows.push(vec![step.name.to_owned(), step.does.to_owned(), word.to_owned(), took]);
    }
    println!("\n{}", table::draw(&["step", "what it demands", "result", "time"], &rows));
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line per finding, or a pass.
pub fn verdict(findings: &[String], passed: String) -> Verdict {
    if findings.is_empty() {
        Verdict::Passed(passed)
    } else {
        Verdict::Failed(format!("{} findings\n  {}", findings.len(), findings.join("\n  ")))
    }
}
