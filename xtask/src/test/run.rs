//! Running the test programs, a few at a time, each with a time limit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::build::Binary;
use super::libtest::{self, Case, End};
use super::{Asked, Suite, again};
use crate::Result;
use crate::process::{self, Ran, seconds, tail};
use crate::tree::Tree;

/// The suite of the tests in the documentation.
pub const DOCUMENTATION: &str = "documentation";
/// Enough for the one program that compiles programs.
const LIMIT: Duration = Duration::from_secs(15 * 60);
const FULL_LIMIT: Duration = Duration::from_secs(90 * 60);

/// Runs every program that was asked for, then the crates outside the workspace and the tests in the documentation.
pub fn all(tree: &Tree, asked: &Asked, mut binaries: Vec<Binary>) -> Result<Vec<Suite>> {
    let logs = tree.fresh_folder("test")?;
    if let Some(part) = &asked.only {
        binaries.retain(|binary| binary.name.contains(part.as_str()));
    }
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let suites = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs {
            scope.spawn(|| {
                while let Some(binary) = binaries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (suite, took) = one(tree, asked, binary, &logs);
                    let number = done.fetch_add(1, Ordering::Relaxed) + 1;
                    progress(number, binaries.len(), &suite, took);
                    if let Ok(mut suites) = suites.lock() {
                        suites.push(suite);
                    }
                }
            });
        }
    });
    let mut suites = suites.into_inner().map_err(|_| "a thread that ran tests panicked")?;
    let mut samples = tree.samples()?;
    if let Some(part) = &asked.only {
        samples.retain(|manifest| name_of_sample(manifest).contains(part.as_str()));
    }
    for (place, manifest) in samples.iter().enumerate() {
        let (suite, took) = sample(tree, asked, manifest, &logs);
        progress(place + 1, samples.len(), &suite, took);
        suites.push(suite);
    }
    if asked.only.is_none() {
        println!("running the tests in the documentation");
        let (suite, took) = documentation(tree, asked, &logs);
        progress(1, 1, &suite, took);
        suites.push(suite);
    }
    suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(suites)
}

fn one(tree: &Tree, asked: &Asked, binary: &Binary, logs: &Path) -> (Suite, Duration) {
    if let Some((other, _)) = binary.again
        && !other.is_installed()
    {
        return (other.not_run(binary), Duration::ZERO);
    }
    let mut command = Command::new(&binary.program);
    command.current_dir(&binary.folder).arg("--show-output");
    // What cargo would set; trybuild and the tests that look for files next to their manifest read them.
    command.env("CARGO_MANIFEST_DIR", &binary.folder).env("CARGO_PKG_NAME", &binary.package);
    command.env("CARGO_TARGET_DIR", &tree.target);
    let limit = lengthen(asked, &mut command);
    if asked.full {
        command.arg("--include-ignored");
    }
    if let Some((other, part)) = binary.again {
        command.env(again::VARIABLE, other.value).arg(part);
    }
    suite(&binary.name, process::run(&mut command, &log(logs, &binary.name), limit))
}

/// A crate outside the workspace, which cargo builds by its own manifest.
fn sample(tree: &Tree, asked: &Asked, manifest: &Path, logs: &Path) -> (Suite, Duration) {
    let name = name_of_sample(manifest);
    let mut command = tree.cargo();
    command.args(["test", "--no-fail-fast", "--quiet", "--manifest-path"]).arg(tree.root.join(manifest));
    command.args(["--", "--show-output", "--format", "pretty"]).env("CARGO_TARGET_DIR", &tree.target);
    let limit = lengthen(asked, &mut command);
    suite(&name, process::run(&mut command, &log(logs, &name), limit))
}

/// The name of its folder.
fn name_of_sample(manifest: &Path) -> String {
    let folder = manifest.parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

fn documentation(tree: &Tree, asked: &Asked, logs: &Path) -> (Suite, Duration) {
    let mut command = tree.cargo();
    command.args(["test", "--workspace", "--all-features", "--doc", "--no-fail-fast", "--quiet"]);
    command.args(["--", "--show-output", "--format", "pretty"]);
    let limit = lengthen(asked, &mut command);
    let (mut suite, took) = suite(DOCUMENTATION, process::run(&mut command, &log(logs, DOCUMENTATION), limit));
    // Here it is not the length that leaves a case out, in no run.
    for case in suite.cases.iter_mut().filter(|case| matches!(case.end, End::Ignored(_))) {
        case.end = End::NotRun("the code block is marked as not run".to_owned());
    }
    (suite, took)
}

fn lengthen(asked: &Asked, command: &mut Command) -> Duration {
    if asked.full {
        command.env("POSTRIDER_FULL", "1");
        FULL_LIMIT
    } else {
        command.env_remove("POSTRIDER_FULL");
        LIMIT
    }
}

fn log(logs: &Path, name: &str) -> PathBuf {
    logs.join(name.replace("::", "-"))
}

/// What a program said, as cases. A program that ended badly without naming a failed case is a failed case itself.
fn suite(name: &str, ran: Result<Ran>) -> (Suite, Duration) {
    let mut suite = Suite { name: name.to_owned(), cases: Vec::new(), not_run: Vec::new() };
    let whole = |said: String| Case::new("(the program itself)".to_owned(), End::Failed(said));
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => {
            suite.cases.push(whole(error.to_string()));
            return (suite, Duration::ZERO);
        }
    };
    suite.not_run = libtest::not_run_lines(&ran.err);
    match libtest::read(&ran.out) {
        Some(cases) => suite.cases = cases,
        None => suite.cases.push(whole(format!("{}\n{}", ran.ending(), tail(&ran.said(), 60)))),
    }
    let named = suite.cases.iter().any(|case| matches!(case.end, End::Failed(_)));
    if !ran.succeeded() && !named {
        suite.cases.push(whole(format!("{}\n{}", ran.ending(), tail(&ran.err, 60))));
    }
    (suite, ran.took)
}

fn progress(number: usize, all: usize, suite: &Suite, took: Duration) {
    let passed = suite.cases.iter().filter(|case| case.end == End::Passed).map(Case::weight).sum::<usize>();
    let failed = suite.cases.iter().filter(|case| matches!(case.end, End::Failed(_))).count();
    let word = if failed > 0 { format!("{failed} FAILED") } else { "ok".to_owned() };
    println!("[{number:>3}/{all}] {:<48} {passed:>4} passed  {:>8}  {word}", suite.name, seconds(took));
}
