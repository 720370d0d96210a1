//! `cargo xtask torture --bugs`: the torturer tested by products with one bug each, which it must find.
//!
//! Each patch of `crates/postrider-torture/bugs/` begins with lines that git ignores:
//!
//! ```text
//! # what: a settle does not look at owner and term
//! # by: I8
//! # run: --store postgres --broker nats --faults relay-pause,relay-kill
//! ```
//!
//! `by` names the invariants that may find it, parted by blanks; `run` is what the torturer is asked for, beside a
//! seed and a length: one minute, then up to five with other seeds, until it is found.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::copy::Copy;
use crate::process::{run, seconds, tail};
use crate::torture::{Build, Programs, build};
use crate::tree::Tree;
use crate::{Result, table};

const FOLDER: &str = "crates/postrider-torture/bugs";
/// A bug must be found within this time under torture.
const LIMIT: Duration = Duration::from_secs(5 * 60);
/// Of one try, with what starting servers and draining take.
const TRY_LIMIT: Duration = Duration::from_secs(6 * 60);

/// One seeded bug.
#[derive(Debug, PartialEq, Eq)]
struct Bug {
    name: String,
    what: String,
    by: Vec<String>,
    run: Vec<String>,
}

/// Runs the verb.
pub fn main(tree: &Tree, names: &[String]) -> Result<ExitCode> {
    let bugs = chosen(tree, names)?;
    let copy = Copy::make(tree, "bugs")?;
    let logs = tree.fresh_folder("bugs")?;
    let (mut rows, mut missed) = (Vec::new(), 0);
    for (bug, patch) in &bugs {
        copy.restore()?;
        let found = if copy.git(&["apply", &patch.to_string_lossy()])? {
            let programs = build(tree, Build::Dev, &mut copy.cargo(), &copy.target, &[])?;
            hunt(bug, &programs, &logs)?
        } else {
            Err("the patch no longer applies".to_owned())
        };
        let word = found.as_ref().map_or_else(|why| format!("NOT FOUND: {why}"), Clone::clone);
        println!("{:<32} {word}", bug.name);
        missed += usize::from(found.is_err());
        rows.push(vec![bug.name.clone(), bug.what.clone(), bug.by.join(" "), word]);
    }
    println!("\n{}", table::draw(&["bug", "what it does", "expected of", "found by"], &rows));
    println!("{} of {} bugs found, {missed} not", bugs.len() - missed, bugs.len());
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The seeded bugs as a table of Markdown.
pub fn listed(tree: &Tree) -> Result<String> {
    let mut text = "| bug | what it does | must be found by |\n|---|---|---|\n".to_owned();
    let bugs = chosen(tree, &[])?;
    for (bug, _) in &bugs {
        let _ = writeln!(text, "| {} | {} | {} |", bug.name, bug.what, bug.by.join(" or "));
    }
    let _ = writeln!(text, "\n{} bugs in all.", bugs.len());
    Ok(text)
}

fn chosen(tree: &Tree, names: &[String]) -> Result<Vec<(Bug, PathBuf)>> {
    let mut bugs = Vec::new();
    for file in tree.files()? {
        if file.starts_with(FOLDER) && file.extension().is_some_and(|end| end == "patch") {
            let path = tree.root.join(file);
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            bugs.push((Bug::read(name, &fs::read_to_string(&path)?)?, path));
        }
    }
    if let Some(unknown) = names.iter().find(|name| bugs.iter().all(|(bug, _)| bug.name != **name)) {
        let known: Vec<&str> = bugs.iter().map(|(bug, _)| bug.name.as_str()).collect();
        return Err(format!("there is no bug {unknown:?}; there are: {}", known.join(", ")).into());
    }
    if !names.is_empty() {
        bugs.retain(|(bug, _)| names.contains(&bug.name));
    }
    Ok(bugs)
}

/// Which invariant found it, and after how long; or why it counts as not found.
fn hunt(bug: &Bug, programs: &Programs, logs: &Path) -> Result<std::result::Result<String, String>> {
    let started = Instant::now();
    let mut seed = 0;
    let mut other = String::new();
    while started.elapsed() < LIMIT {
        seed += 1;
        let out = logs.join(format!("{}-{seed}", bug.name));
        let mut command = std::process::Command::new(&programs.torture);
        command.args(&bug.run).args(["--minutes", "1", "--seed", &seed.to_string(), "--build", "dev"]);
        command.arg("--relay-bin").arg(&programs.relay).arg("--out").arg(&out);
        let ran = run(&mut command, &logs.join(format!("{}-{seed}.said", bug.name)), TRY_LIMIT)?;
        if ran.code != Some(1) {
            if ran.code == Some(2) {
                return Ok(Err(format!("the harness could not go on: {}", tail(&ran.err, 3))));
            }
            continue;
        }
        let report: Value = serde_json::from_str(&fs::read_to_string(out.join("report.json"))?)?;
        let (broken, took) = (broken(&report), started.elapsed());
        if took > LIMIT {
            return Ok(Err(format!("found by {} after {}, too late", broken.join(" "), seconds(took))));
        }
        if broken.iter().any(|id| bug.by.contains(id)) {
            return Ok(Ok(format!("{} in {} (seed {seed})", broken.join(" "), seconds(took))));
        }
        other = broken.join(" ");
    }
    let besides = if other.is_empty() { String::new() } else { format!("; only {other}") };
    Ok(Err(format!("{seed} runs{besides}")))
}

fn broken(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().into_iter().flatten();
    findings
        .filter(|finding| finding["broken"].as_u64().unwrap_or(0) > 0)
        .filter_map(|finding| finding["id"].as_str().map(str::to_owned))
        .collect()
}

impl Bug {
    fn read(name: String, text: &str) -> Result<Self> {
        let field = |field: &str| -> Result<String> {
            let start = format!("# {field}: ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            Ok(line.ok_or_else(|| format!("{name}.patch: it has no line `# {field}: `"))?.trim().to_owned())
        };
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        Ok(Self { what: field("what")?, by: words(field("by")?), run: words(field("run")?), name: name.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_what_it_does_and_what_must_find_it() {
        let text = "# what: it lies\n# by: I1 I6\n# run: --store sqlite --broker http\ndiff --git a/a b/a\n";
        let bug = Bug::read("liar".to_owned(), text).unwrap();
        assert_eq!((bug.what.as_str(), bug.by.len(), bug.run.len()), ("it lies", 2, 4));
        let error = Bug::read("mute".to_owned(), "# what: nothing\n").unwrap_err().to_string();
        assert!(error.contains("# by: "), "{error}");
    }

    #[test]
    fn every_seeded_bug_applies_and_is_described() {
        let tree = Tree::find().unwrap();
        for (bug, patch) in chosen(&tree, &[]).unwrap() {
            let mut command = std::process::Command::new("git");
            let out = command.current_dir(&tree.root).args(["apply", "--check"]).arg(&patch).output().unwrap();
            assert!(out.status.success(), "{}: {}", bug.name, String::from_utf8_lossy(&out.stderr));
            assert!(bug.by.iter().all(|id| id.starts_with('I')) && bug.run.contains(&"--store".to_owned()), "{bug:?}");
        }
    }
}
