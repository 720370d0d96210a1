//! `cargo xtask torture`: builds the relay and its torturer, runs them, and keeps the report where asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::copy::Copy;
use crate::tree::Tree;
use crate::{Result, circumstances};

/// The build that is tortured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// As users have it.
    Release,
    /// Quick to build.
    Dev,
}

impl Build {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "dev",
        }
    }
}

/// The two programs.
#[derive(Debug)]
pub struct Programs {
    /// The product.
    pub relay: PathBuf,
    /// What tortures it.
    pub torture: PathBuf,
}

/// What was asked of this verb; the rest goes to the torturer.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    build: Build,
    report: bool,
    /// The commit whose relay every other relay runs.
    beside: Option<String>,
    rest: Vec<String>,
}

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    if arguments.first().is_some_and(|word| word == "--bugs") {
        return crate::bugs::main(tree, &arguments[1..]);
    }
    let asked = parse(arguments)?;
    let features = features(&asked.rest);
    let beside =
        asked.beside.as_deref().map(|commit| other_build_with(tree, asked.build, commit, &features)).transpose()?;
    let programs = build(tree, asked.build, &mut tree.cargo(), &tree.target, &features)?;
    let out = tree.fresh_folder("torture")?;
    let mut command = Command::new(&programs.torture);
    command.args(&asked.rest).stdin(Stdio::null());
    command.arg("--relay-bin").arg(&programs.relay).arg("--out").arg(&out);
    command.args(["--commit", &circumstances::commit(tree)?, "--build", asked.build.name()]);
    if let Some((relay, commit)) = beside {
        command.arg("--other-relay-bin").arg(relay).args(["--other-commit", &commit]);
    }
    let code = command.status()?.code().unwrap_or(2);
    if asked.report && code != 2 {
        println!("report: {}", keep(tree, &out)?);
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(2)))
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked { build: Build::Release, report: false, beside: None, rest: Vec::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dev" => asked.build = Build::Dev,
            "--report" => asked.report = true,
            "--beside" => {
                let commit = words
                    .next()
                    .ok_or("--beside names no commit: expected one of an earlier build, as in --beside HEAD~20")?;
                asked.beside = Some(commit.clone());
            }
            _ => asked.rest.push(word.clone()),
        }
    }
    Ok(asked)
}

/// What the relay must be built with beside its defaults, for what the torturer is asked for.
fn features(words: &[String]) -> Vec<&'static str> {
    let mut features = Vec::new();
    for word in words.iter().map(|word| word.rsplit('=').next().unwrap_or(word)) {
        match word {
            "mariadb" | "mysql" => features.push("postrider-cli/mysql"),
            "kafka" | "kafka3" => features.push("postrider-cli/kafka"),
            _ => {}
        }
    }
    features
}

/// Builds both programs, with a cargo that is set to its tree, into a target folder.
pub fn build(tree: &Tree, build: Build, cargo: &mut Command, target: &Path, features: &[&str]) -> Result<Programs> {
    println!("building the relay and its torturer ({})", build.name());
    cargo.args(["build", "--quiet", "-p", "postrider-cli", "-p", "postrider-torture"]);
    if !features.is_empty() {
        cargo.args(["--features", &features.join(",")]);
    }
    if build == Build::Release {
        cargo.arg("--release");
    }
    cargo.env("CARGO_TARGET_DIR", target).stderr(Stdio::inherit());
    if !cargo.status()?.success() {
        return Err(format!("they do not build in {}", tree.root.display()).into());
    }
    let folder = target.join(if build == Build::Release { "release" } else { "debug" });
    // A copy, so that another build beside a long run does not change the program under it.
    let kept = target.join("xtask").join(format!("torture-{}", std::process::id()));
    fs::create_dir_all(&kept)?;
    let copy = |name: &str| -> Result<PathBuf> {
        fs::copy(folder.join(name), kept.join(name))?;
        Ok(kept.join(name))
    };
    Ok(Programs { relay: copy("postrider")?, torture: copy("torture")? })
}

/// Builds the relay of another commit with its defaults, and says its short name.
pub fn other_build(tree: &Tree, build: Build, commit: &str) -> Result<(PathBuf, String)> {
    other_build_with(tree, build, commit, &[])
}

fn other_build_with(tree: &Tree, build: Build, commit: &str, features: &[&str]) -> Result<(PathBuf, String)> {
    let copy = Copy::of(tree, "beside", commit)?;
    let programs = self::build(tree, build, &mut copy.cargo(), &copy.target, features)?;
    Ok((programs.relay, tree.git(&["rev-parse", "--short=12", commit])?))
}

/// Puts report and picture under `docs/reports`, and brings the summary up to date.
fn keep(tree: &Tree, out: &Path) -> Result<String> {
    let text = fs::read_to_string(out.join("report.json"))?;
    let report: serde_json::Value = serde_json::from_str(&text)?;
    let word = |name: &str| report[name].as_str().unwrap_or_default().to_owned();
    let name = format!("torture-{}-{}-{}-{}min", word("store"), word("broker"), report["seed"], report["minutes"]);
    let beside = report["beside"].as_str().map(|commit| format!("-beside-{commit}")).unwrap_or_default();
    let consumer = report["consumer"].as_str().map(|kind| format!("-{kind}")).unwrap_or_default();
    let name = format!("{}{consumer}{beside}", name.replace(".0min", "min"));
    let folder = tree.root.join("docs/reports");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{name}.json")), text)?;
    fs::copy(out.join("report.svg"), folder.join(format!("{name}.svg")))?;
    crate::reliability::renew(tree)?;
    Ok(format!("docs/reports/{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_for_this_verb_goes_to_the_torturer() {
        let words =
            ["--seed", "7", "--dev", "--report", "--beside", "abc", "--faults", "all,-relay-kill"].map(str::to_owned);
        let asked = parse(&words).unwrap();
        assert_eq!((asked.build, asked.report), (Build::Dev, true));
        assert_eq!(asked.beside.as_deref(), Some("abc"));
        assert_eq!(asked.rest, ["--seed", "7", "--faults", "all,-relay-kill"]);
        let words = ["--store", "mariadb", "--broker=kafka3"].map(str::to_owned);
        assert_eq!(features(&words), ["postrider-cli/mysql", "postrider-cli/kafka"]);
        assert!(parse(&["--beside".to_owned()]).unwrap_err().to_string().contains("expected"));
    }
}
