//! `cargo xtask bench`: the private measurement, and the page that is made of its reports.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

use crate::tree::Tree;
use crate::{Result, circumstances};

/// Where a measurement leaves what it found, below the target folder.
const OUT: &str = "bench";

#[derive(Deserialize)]
struct Artifact {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Runs the verb. What it does not know itself it hands on to the measurement, which refuses what nobody knows.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let only_page = arguments.iter().any(|word| word == "--only-page");
    let report = only_page || arguments.iter().any(|word| word == "--report");
    let (out, page) = if report {
        (tree.root.join("docs/reports"), tree.root.join("docs/performance.md"))
    } else {
        let out = tree.target.join(OUT);
        (out.clone(), out.join("performance.md"))
    };
    fs::create_dir_all(&out)?;
    let (private, postrider) = (built(tree, "private")?, built(tree, "postrider")?);
    let mut command = Command::new(private);
    command.arg("--postrider").arg(postrider).arg("--out").arg(&out).arg("--page").arg(&page);
    for line in circumstances(tree)? {
        command.arg("--build").arg(line);
    }
    command.args(arguments.iter().filter(|word| *word != "--report"));
    let ran = command.stdin(Stdio::null()).status()?;
    println!("kept in {}", out.display());
    Ok(match ran.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(2) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

/// The program of this name, built with the other one so that both share what they are made of.
fn built(tree: &Tree, name: &str) -> Result<PathBuf> {
    let mut command = tree.cargo();
    command.args(["build", "--release", "-p", "postrider-cli", "-p", "postrider-bench"]);
    command.args(["--bin", "postrider", "--bench", "private", "--message-format", "json-render-diagnostics"]);
    // The relay that is measured beside an application on MariaDB.
    command.args(["--features", "postrider-cli/mysql"]);
    let out = command.stderr(Stdio::inherit()).output()?;
    if !out.status.success() {
        return Err("the measurement does not build".into());
    }
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok())
        .filter(|artifact| artifact.target.as_ref().is_some_and(|target| target.name == name))
        .find_map(|artifact| artifact.executable)
        .ok_or_else(|| format!("cargo does not say where {name} is").into())
}

/// The commit, the build and the machine.
fn circumstances(tree: &Tree) -> Result<Vec<String>> {
    Ok(vec![
        format!("{}, release build.", circumstances::dated(tree)?),
        format!("{}; database, broker and relay share them.", circumstances::machine()),
    ])
}
