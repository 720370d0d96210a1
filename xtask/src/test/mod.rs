//! `cargo xtask test`: every test once, and one table about them.

mod again;
mod build;
mod libtest;
mod report;
mod rows;
mod run;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::process::seconds;
use crate::tree::Tree;
use crate::{Result, jobs, servers};

pub use libtest::{Case, End};
pub use rows::matches;

/// How long the default run may take from nothing, on two cores.
const WHOLE: Duration = Duration::from_secs(25 * 60);

/// What was asked for.
#[derive(Debug)]
pub struct Asked {
    /// Install missing servers first.
    pub install: bool,
    /// Run the long tests too.
    pub full: bool,
    /// How many test binaries run at once.
    pub jobs: usize,
    /// Only the test binaries whose name contains this.
    pub only: Option<String>,
}

/// The cases of one test binary.
#[derive(Debug)]
pub struct Suite {
    /// Package and target, as in `postrider-core::lib`.
    pub name: String,
    /// Its cases, in order.
    pub cases: Vec<Case>,
    /// Lines about servers that are missing, said by no case in particular.
    pub not_run: Vec<String>,
}

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let asked = match parse(arguments) {
        Ok(asked) => asked,
        Err(wrong) => {
            eprintln!("{wrong}");
            return Ok(ExitCode::from(2));
        }
    };
    let started = Instant::now();
    let missing = match servers::prepare(asked.install)? {
        Ok(missing) => missing,
        Err(code) => return Ok(code),
    };
    let rows = rows::Rows::load(tree)?;
    println!("building the tests");
    let mut binaries = build::binaries(tree)?;
    binaries.extend(again::on_others(&binaries));
    println!("built in {}", seconds(started.elapsed()));
    let suites = run::all(tree, &asked, binaries)?;
    let outcome = report::print(tree, &asked, &suites, &rows, &missing)?;
    let took = started.elapsed();
    if !asked.full {
        println!("took {} of {}", seconds(took), seconds(WHOLE));
    }
    println!("{} passed, {} failed, {} skipped", outcome.passed, outcome.failed, outcome.skipped);
    Ok(if outcome.failed == 0 && outcome.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> std::result::Result<Asked, String> {
    let mut asked = Asked { install: false, full: false, jobs: jobs::per_core(), only: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--install" => asked.install = true,
            "--full" => asked.full = true,
            "--jobs" => asked.jobs = jobs::read(&mut words)?,
            "--only" => asked.only = Some(words.next().ok_or("--only takes a part of a name")?.clone()),
            "--" => {}
            other => return Err(format!("test takes --install, --full, --jobs N and --only TEXT, not {other:?}")),
        }
    }
    Ok(asked)
}
