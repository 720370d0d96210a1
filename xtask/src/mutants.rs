//! `cargo xtask mutants`: the tests tested by cargo-mutants, which changes the product in one place after the other.
//!
//! Every mutant of the core that decides and of the relay that carries it out is judged by rounds: first by the quick
//! tests of its own package; what those let pass by the slower ones, at last by the simulator and by the command line's
//! tests with real servers and processes. What survives all is named in `crates/postrider-testkit/survivors.toml` with
//! the reason why no test tells it from the product; one that is not named there fails this verb.
//!
//! It takes an hour or two, and goes on where it was ended: what was caught is not judged again until its place in its
//! file changes. `--report` keeps the judgement of each package under `docs/reports`; where this machine knows of none, the
//! kept one counts for the files that are as they were. `--fresh` judges everything anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};

use crate::tree::Tree;
use crate::{Result, circumstances, table};

const SURVIVORS: &str = "crates/postrider-testkit/survivors.toml";

/// What is mutated, and which tests judge it: each round only what the round before let pass.
struct Field {
    package: &'static str,
    files: &'static str,
    rounds: &'static [Round],
}

/// One look at every mutant that is left.
struct Round {
    /// A mutant is built faster without, and plays its worlds in a tenth of the time with a little optimisation.
    optimised: &'static str,
    /// What cargo-mutants is told, and behind the first `--` what cargo test and the tests are. Before any mutant it asks the
    /// changed package for the tests, which has none of those of another package: for them that is left out.
    words: &'static [&'static str],
}

const FIELDS: [Field; 2] = [
    Field {
        package: "postrider-core",
        files: "crates/postrider-core/src/**",
        rounds: &[
            // Without the tests that play worlds by the hundred, that measure, or that take longer than all others together.
            Round {
                optimised: "0",
                words: &[
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
            },
            Round {
                optimised: "1",
                words: &["--cargo-arg=--lib", "--", "--", "-Zunstable-options", "--fail-fast", "machine::tests"],
            },
            Round {
                optimised: "1",
                words: &[
                    "--test-package=postrider-testkit",
                    "--baseline=skip",
                    "--timeout=120",
                    "--",
                    "--test=simulator",
                    "--",
                    "every_promise_holds",
                ],
            },
        ],
    },
    Field {
        package: "postrider-relay",
        files: "crates/postrider-relay/src/**",
        rounds: &[
            // One program is built in a fraction of the time of seven.
            Round { optimised: "0", words: &["--cargo-arg=--lib"] },
            // With stores in memory.
            Round {
                optimised: "0",
                words: &[
                    "--cargo-arg=--lib",
                    "--cargo-arg=--test=building",
                    "--cargo-arg=--test=documented_metrics",
                    "--cargo-arg=--test=one_order",
                    "--cargo-arg=--test=relaying",
                    "--cargo-arg=--test=sharing",
                    "--cargo-arg=--test=troubles",
                ],
            },
            Round { optimised: "0", words: &[] },
            Round {
                optimised: "0",
                words: &[
                    "--test-package=postrider-cli",
                    "--baseline=skip",
                    "--timeout=600",
                    "--",
                    "--test=many_relays",
                    "--test=kill_nine",
                    "--test=operator",
                    "--test=outage",
                ],
            },
        ],
    },
];

/// One change of one place, as cargo-mutants names it, without the place's line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
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

/// What is asked of the verb.
struct Asked<'a> {
    fields: Vec<&'a Field>,
    jobs: String,
    fresh: bool,
    report: bool,
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
    if !tree.cargo().args(["mutants", "--version"]).output()?.status.success() {
        eprintln!("cargo-mutants is not installed: `cargo install cargo-mutants --locked`");
        return Ok(ExitCode::from(3));
    }
    // Before the first report is kept, which changes the tree.
    let commit = circumstances::commit(tree)?;
    let mut kept = Vec::new();
    for field in &asked.fields {
        match asked.fresh {
            true => forget(tree, field)?,
            false => remember(tree, field)?,
        }
        kept.push(judge(tree, field, &asked, &commit)?);
    }
    let (text, well) = told(&kept, &explanations(tree)?);
    println!("\n{text}");
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> std::result::Result<Asked<'static>, String> {
    let mut asked = Asked { fields: FIELDS.iter().collect(), jobs: "2".to_owned(), fresh: false, report: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), words.as_slice().first()) {
            ("--fresh", _) => asked.fresh = true,
            ("--report", _) => asked.report = true,
            ("--jobs", Some(number)) if number.parse::<u8>().is_ok_and(|number| number > 0) => {
                asked.jobs.clone_from(number);
                words.next();
            }
            ("--package", Some(name)) if FIELDS.iter().any(|field| field.package == *name) => {
                asked.fields.retain(|field| field.package == *name);
                words.next();
            }
            _ => {
                let packages = FIELDS.map(|field| field.package).join(" or ");
                return Err(format!(
                    "mutants takes --fresh, --report, --jobs N and --package {packages}, not {word:?}"
                ));
            }
        }
    }
    Ok(asked)
}

/// What the kept judgements come to, as a table with every survivor and its reason; and whether each package has one, and
/// every survivor a reason.
pub fn kept(tree: &Tree) -> Result<(String, bool)> {
    let mut kept = Vec::new();
    for field in &FIELDS {
        let file = report(tree, field.package);
        if !file.exists() {
            let run = format!("`cargo xtask mutants --package {} --report`", field.package);
            return Ok((format!("no judgement of {} is kept: {run}", field.package), false));
        }
        kept.push(serde_json::from_str(&fs::read_to_string(file)?)?);
    }
    Ok(told(&kept, &explanations(tree)?))
}

fn told(kept: &[Found], why: &BTreeMap<Mutant, String>) -> (String, bool) {
    let head = ["package", "commit", "mutants", "caught or not built", "survived", "explained"];
    let mut text = table::draw(&head, &kept.iter().map(|found| found.row(why)).collect::<Vec<_>>());
    let mut unexplained = 0;
    let named: BTreeSet<&Mutant> = kept.iter().flat_map(|found| &found.missed).collect();
    for mutant in &named {
        let reason = why.get(*mutant).map_or("NOT EXPLAINED", String::as_str);
        unexplained += usize::from(!why.contains_key(*mutant));
        text.push_str(&format!("\n{}: {}\n    {reason}", mutant.file, mutant.mutant));
    }
    text.push_str(&format!("\n\n{} survived, {unexplained} not explained", named.len()));
    (text, unexplained == 0)
}

fn explanations(tree: &Tree) -> Result<BTreeMap<Mutant, String>> {
    explained(&fs::read_to_string(tree.root.join(SURVIVORS))?)
}

fn report(tree: &Tree, package: &str) -> std::path::PathBuf {
    tree.root.join("docs/reports").join(format!("mutants-{package}.json"))
}

fn folder(tree: &Tree, field: &Field) -> std::path::PathBuf {
    tree.target.join("mutants").join(field.package)
}

fn forget(tree: &Tree, field: &Field) -> Result<()> {
    let folder = folder(tree, field);
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Where this machine has judged nothing yet, what the kept judgement does not name as a survivor was caught, in the files
/// that have not changed since then.
fn remember(tree: &Tree, field: &Field) -> Result<()> {
    let (out, file) = (folder(tree, field).join("mutants.out"), report(tree, field.package));
    if out.exists() || !file.exists() {
        return Ok(());
    }
    let kept: Found = serde_json::from_str(&fs::read_to_string(file)?)?;
    let Ok(changed) = tree.git(&["diff", "--name-only", &kept.commit, "--", "crates"]) else { return Ok(()) };
    let list = tree
        .cargo()
        .args(["mutants", "--list", "--colors=never", "--all-features", "--package", field.package])
        .args(["--file", field.files])
        .output()?;
    let mut caught = kept.caught_of(&String::from_utf8(list.stdout)?, &changed)?.join("\n");
    caught.push('\n');
    fs::create_dir_all(&out)?;
    Ok(fs::write(out.join("previously_caught.txt"), caught)?)
}

/// The judgement of one package's mutants, in its rounds; it is kept after each of them.
fn judge(tree: &Tree, field: &Field, asked: &Asked<'_>, commit: &str) -> Result<Found> {
    let folder = folder(tree, field);
    fs::create_dir_all(&folder)?;
    let mut found = Found::read(field.package, commit, &folder.join("mutants.out"))?;
    for round in field.rounds {
        println!("{}: {}", field.package, round.words.join(" "));
        let mut command = tree.cargo();
        command.args(["mutants", "--iterate", "--no-shuffle", "--colors=never", "--minimum-test-timeout=20"]);
        command.arg("--all-features");
        command
            .args(["--package", field.package, "--file", field.files, "--jobs", &asked.jobs, "--output"])
            .arg(&folder);
        // Without debug information a mutant is built in half the time. Tests that end at the first failure are not stable
        // in libtest, and save half of the rest: a world that stands still plays on until its limit.
        command
            .args(round.words)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", round.optimised);
        command.env("RUSTC_BOOTSTRAP", "1").env("RUST_BACKTRACE", "0").env_remove("CARGO_TARGET_DIR");
        ended(&mut command)?;
        count_as_caught(&folder.join("mutants.out"))?;
        found = Found::read(field.package, commit, &folder.join("mutants.out"))?;
        if asked.report {
            found.keep(tree)?;
        }
    }
    Ok(found)
}

/// Out of time is caught, because a test waits for something that never comes: cargo-mutants would judge it again in every
/// round, and take the whole time each time.
fn count_as_caught(out: &Path) -> Result<()> {
    let [late, caught] = ["timeout.txt", "caught.txt"].map(|name| out.join(name));
    if late.exists() {
        let both = fs::read_to_string(&caught)? + &fs::read_to_string(&late)?;
        fs::write(caught, both)?;
        fs::remove_file(late)?;
    }
    Ok(())
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
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Found {
    package: String,
    commit: String,
    /// By a test, by its time limit, or by the compiler.
    caught: usize,
    missed: Vec<Mutant>,
}

impl Found {
    /// What cargo-mutants left in its folder, of this round and of those before, in whose list it does not tell those that
    /// could not be built from those that were caught.
    fn read(package: &str, commit: &str, folder: &Path) -> Result<Self> {
        let lines = |name: &str| -> Result<Vec<String>> {
            let file = folder.join(name);
            Ok(if file.exists() { fs::read_to_string(file)?.lines().map(str::to_owned).collect() } else { Vec::new() })
        };
        let ended = ["caught.txt", "unviable.txt", "previously_caught.txt"];
        let caught = ended.iter().map(|name| Ok(lines(name)?.len())).sum::<Result<_>>()?;
        let missed = lines("missed.txt")?.iter().map(|line| Mutant::read(line)).collect::<Result<_>>()?;
        Ok(Self { package: package.to_owned(), commit: commit.to_owned(), caught, missed })
    }

    /// Of all mutants, one per line, those that this judgement does not name as survivors, without those in changed files.
    fn caught_of<'a>(&self, all: &'a str, changed: &str) -> Result<Vec<&'a str>> {
        let changed: BTreeSet<&str> = changed.lines().collect();
        let missed: BTreeSet<&Mutant> = self.missed.iter().collect();
        let mut caught = Vec::new();
        for line in all.lines() {
            let mutant = Mutant::read(line)?;
            if !missed.contains(&mutant) && !changed.contains(mutant.file.as_str()) {
                caught.push(line);
            }
        }
        Ok(caught)
    }

    fn keep(&self, tree: &Tree) -> Result<()> {
        Ok(fs::write(report(tree, &self.package), serde_json::to_string_pretty(self)? + "\n")?)
    }

    fn row(&self, why: &BTreeMap<Mutant, String>) -> Vec<String> {
        let explained = self.missed.iter().filter(|mutant| why.contains_key(mutant)).count();
        let counts = [self.caught + self.missed.len(), self.caught, self.missed.len(), explained];
        [self.package.clone(), self.commit.clone()].into_iter().chain(counts.map(|count| count.to_string())).collect()
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
    fn what_survived_is_told_with_its_reason_or_without_one() {
        let mutant = |what: &str| Mutant { file: "a.rs".to_owned(), mutant: what.to_owned() };
        let missed = vec![mutant("replace < with <="), mutant("delete !")];
        let found = [Found { package: "core".to_owned(), commit: "abc".to_owned(), caught: 8, missed }];
        let mut why = BTreeMap::from([(mutant("delete !"), "nobody asks".to_owned())]);
        let (text, well) = told(&found, &why);
        assert!(!well && text.contains("nobody asks") && text.ends_with("2 survived, 1 not explained"), "{text}");
        why.insert(mutant("replace < with <="), "the two are equal there".to_owned());
        assert!(told(&found, &why).1);
    }

    #[test]
    fn what_was_caught_elsewhere_counts_while_its_file_is_as_it_was() {
        let missed = vec![Mutant { file: "a.rs".to_owned(), mutant: "delete !".to_owned() }];
        let found = Found { package: "core".to_owned(), commit: "abc".to_owned(), caught: 2, missed };
        let all = "a.rs:1:2: delete !\na.rs:1:3: replace < with <=\nb.rs:7:1: delete !\n";
        assert_eq!(found.caught_of(all, "").unwrap(), ["a.rs:1:3: replace < with <=", "b.rs:7:1: delete !"]);
        assert_eq!(found.caught_of(all, "b.rs\nc.rs").unwrap(), ["a.rs:1:3: replace < with <="]);
    }

    #[test]
    fn a_package_that_nobody_mutates_is_refused_with_those_that_are() {
        let asked = |words: &[&str]| parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(asked(&["--package", "postrider-relay", "--report"]).ok().map(|asked| asked.fields.len()), Some(1));
        assert!(asked(&["--package", "nobody"]).err().is_some_and(|text| text.contains("postrider-core")));
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
