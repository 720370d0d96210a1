//! `cargo xtask mutants`: the tests tested by cargo-mutants, which changes the product in one place after the other.
//!
//! Every mutant of the core that decides and of the relay that carries it out is judged by rounds: first by the quick
//! tests of its own package; what those let pass by the slower ones, at last by the simulator and by the command line's
//! tests with real servers and processes. What survives all is named in `crates/postrider-testkit/survivors.toml` with
//! the reason why no test tells it from the product; one that is not named there fails this verb.
//!
//! It takes hours, and goes on where it was ended: what was caught is not judged again until its place in its file
//! changes. `--fresh` forgets all that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde::Deserialize;

use crate::tree::Tree;
use crate::{Result, table};

const SURVIVORS: &str = "crates/postrider-testkit/survivors.toml";

/// What is mutated, and which tests judge it: each round only what the round before let pass.
struct Field {
    package: &'static str,
    files: &'static str,
    rounds: [&'static [&'static str]; 3],
}

/// A round is what cargo-mutants is told, and behind the first `--` what cargo test and the tests are.
const FIELDS: [Field; 2] = [
    Field {
        package: "postrider-core",
        files: "crates/postrider-core/src/**",
        rounds: [
            // Without the tests that play worlds by the hundred, that measure, or that take longer than all others together.
            &[
                "--cargo-arg=--lib",
                "--",
                "--",
                "-Zunstable-options",
                "--fail-fast",
                "--skip=machine::tests::random",
                "--skip=machine::tests::speed",
                "--skip=a_relay_killed_from_outside",
                "--skip=a_paused_destination_counts",
                "--skip=a_message_that_kills_its_relay",
                "--skip=a_window_full_of_one_bad_key",
                "--skip=what_has_no_end_waits_through_any_outage",
                "--skip=an_attempt_that_was_never_sent",
                "--skip=a_destination_that_rejects_everything",
                "--skip=machine::tests::hurrying",
                "--skip=machine::tests::ordering",
            ],
            &["--cargo-arg=--lib", "--", "--", "-Zunstable-options", "--fail-fast"],
            &["--test-package=postrider-testkit", "--cargo-arg=--test=simulator"],
        ],
    },
    Field {
        package: "postrider-relay",
        files: "crates/postrider-relay/src/**",
        rounds: [
            &["--cargo-arg=--lib"],
            &[],
            &[
                "--test-package=postrider-cli",
                "--cargo-arg=--test=many_relays",
                "--cargo-arg=--test=kill_nine",
                "--cargo-arg=--test=operator",
                "--cargo-arg=--test=outage",
            ],
        ],
    },
];

/// One change of one place, as cargo-mutants names it, without the place's line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    file: String,
    mutant: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    file: String,
    mutant: String,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivors {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let mut jobs = "2".to_owned();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), words.as_slice().first()) {
            ("--fresh", _) => forget(tree)?,
            ("--jobs", Some(number)) if number.parse::<u8>().is_ok_and(|number| number > 0) => {
                jobs.clone_from(number);
                words.next();
            }
            _ => {
                eprintln!("mutants takes --fresh and --jobs N, not {word:?}");
                return Ok(ExitCode::from(2));
            }
        }
    }
    if !tree.cargo().args(["mutants", "--version"]).output()?.status.success() {
        eprintln!("cargo-mutants is not installed: `cargo install cargo-mutants --locked`");
        return Ok(ExitCode::from(3));
    }
    let why = explained(&fs::read_to_string(tree.root.join(SURVIVORS))?)?;
    let (mut rows, mut alive) = (Vec::new(), Vec::new());
    for field in &FIELDS {
        let found = judge(tree, field, &jobs)?;
        rows.push(found.row(field.package, &why));
        alive.extend(found.missed);
    }
    println!("\n{}", table::draw(&["package", "mutants", "caught or not built", "survived", "explained"], &rows));
    let (mut unexplained, named): (_, BTreeSet<Mutant>) = (0, alive.iter().cloned().collect());
    for mutant in &named {
        let reason = why.get(mutant).map_or("NOT EXPLAINED", String::as_str);
        unexplained += usize::from(!why.contains_key(mutant));
        println!("{}: {}\n    {reason}", mutant.file, mutant.mutant);
    }
    println!("\n{} survived, {unexplained} not explained", alive.len());
    Ok(if unexplained == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn folder(tree: &Tree, field: &Field) -> std::path::PathBuf {
    tree.target.join("mutants").join(field.package)
}

fn forget(tree: &Tree) -> Result<()> {
    let all = tree.target.join("mutants");
    if all.exists() {
        fs::remove_dir_all(all)?;
    }
    Ok(())
}

/// The judgement of one package's mutants, in its rounds.
fn judge(tree: &Tree, field: &Field, jobs: &str) -> Result<Found> {
    let folder = folder(tree, field);
    fs::create_dir_all(&folder)?;
    for tests in field.rounds {
        println!("{}: {}", field.package, tests.join(" "));
        let mut command = tree.cargo();
        command.args(["mutants", "--iterate", "--no-shuffle", "--colors=never", "--minimum-test-timeout=20"]);
        command.arg("--all-features");
        command.args(["--package", field.package, "--file", field.files, "--jobs", jobs, "--output"]).arg(&folder);
        // Without debug information a mutant is built in half the time. Tests that end at the first failure are not stable
        // in libtest, and save more than half of the rest: a world that stands still plays on until its limit.
        command.args(tests).env("CARGO_PROFILE_DEV_DEBUG", "0").env("RUSTC_BOOTSTRAP", "1").env("RUST_BACKTRACE", "0");
        command.env_remove("CARGO_TARGET_DIR");
        ended(&mut command)?;
    }
    Found::read(&folder.join("mutants.out"))
}

/// Exit codes 2 and 3 tell of survivors and of mutants that ran out of time.
fn ended(command: &mut Command) -> Result<()> {
    match command.status()?.code() {
        Some(0 | 2 | 3) => Ok(()),
        Some(4) => Err("the tests fail without any mutant; see above".into()),
        other => Err(format!("cargo mutants ended with {other:?}; see above").into()),
    }
}

/// What became of a package's mutants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// By a test, by its time limit, or by the compiler.
    caught: usize,
    missed: Vec<Mutant>,
}

impl Found {
    /// What cargo-mutants left in its folder, of this round and of those before, in whose list it does not tell those that
    /// could not be built from those that were caught. Out of time is caught: a test waits for something that never comes.
    fn read(folder: &Path) -> Result<Self> {
        let lines = |name: &str| -> Result<Vec<String>> {
            let file = folder.join(name);
            Ok(if file.exists() { fs::read_to_string(file)?.lines().map(str::to_owned).collect() } else { Vec::new() })
        };
        let ended = ["caught.txt", "timeout.txt", "unviable.txt", "previously_caught.txt"];
        let caught = ended.iter().map(|name| Ok(lines(name)?.len())).sum::<Result<_>>()?;
        Ok(Self { caught, missed: lines("missed.txt")?.iter().map(|line| Mutant::read(line)).collect::<Result<_>>()? })
    }

    fn row(&self, package: &str, why: &BTreeMap<Mutant, String>) -> Vec<String> {
        let explained = self.missed.iter().filter(|mutant| why.contains_key(mutant)).count();
        let counts = [self.caught + self.missed.len(), self.caught, self.missed.len(), explained];
        std::iter::once(package.to_owned()).chain(counts.map(|count| count.to_string())).collect()
    }
}

impl Mutant {
    /// `src/a.rs:12:5: replace + with - in f`.
    fn read(line: &str) -> Result<Self> {
        let parts: Vec<&str> = line.splitn(4, ':').collect();
        match parts.as_slice() {
            [file, _, _, mutant] => Ok(Self { file: (*file).to_owned(), mutant: mutant.trim().to_owned() }),
            _ => Err(format!("cargo mutants names a mutant in another way than FILE:LINE:COLUMN: WHAT: {line}").into()),
        }
    }
}

fn explained(text: &str) -> Result<BTreeMap<Mutant, String>> {
    let survivors: Survivors = toml::from_str(text).map_err(|error| format!("{SURVIVORS}: {error}"))?;
    let one = |Survivor { file, mutant, why }| (Mutant { file, mutant }, why);
    Ok(survivors.survivor.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_is_known_wherever_its_line_is() {
        let why = explained("[[survivor]]\nfile = 'a.rs'\nmutant = 'replace + with - in f'\nwhy = 'equal'\n").unwrap();
        let found = |line: &str| why.get(&Mutant::read(line).unwrap()).map(String::as_str);
        assert_eq!(found("a.rs:1:2: replace + with - in f"), Some("equal"));
        assert_eq!(found("a.rs:77:9: replace + with - in f"), Some("equal"));
        assert_eq!(found("b.rs:1:2: replace + with - in f"), None);
        assert!(Mutant::read("nonsense").unwrap_err().to_string().contains("nonsense"));
    }

    #[test]
    fn every_explained_survivor_has_its_file_and_its_reason() {
        let tree = Tree::find().unwrap();
        for (mutant, why) in explained(&fs::read_to_string(tree.root.join(SURVIVORS)).unwrap()).unwrap() {
            assert!(tree.root.join(&mutant.file).exists(), "{mutant:?}");
            assert!(!why.trim().is_empty(), "{mutant:?}");
        }
    }
}
