//! The table at the end: what was tested on what, and what was not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::rows::{self, Rows};
use super::run::DOCUMENTATION;
use super::{Asked, Case, End, Suite, again};
use crate::tree::Tree;
use crate::{Result, table};

/// What a suite can run against; found as a word in the names of program and case.
const BACKENDS: [&str; 14] = [
    "pgbouncer",
    "postgres",
    "mariadb",
    "mysql",
    "sqlite",
    "nats",
    "kafka",
    "http",
    "stdout",
    "file",
    "rusqlite",
    "tokio_postgres",
    "sqlx",
    "memory",
];

/// The counts of the last line.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed, and named rows without a case.
    pub failed: usize,
    /// Everything that was not judged: cases left to the full run, not run for want of a server, excluded by a
    /// profile, and named rows that are admitted to be missing.
    pub skipped: usize,
}

#[derive(Default)]
struct Line {
    passed: usize,
    failed: usize,
    excluded: usize,
    long: usize,
    not_run: usize,
    reasons: Vec<String>,
}

/// Prints everything, and counts.
pub fn print(tree: &Tree, asked: &Asked, suites: &[Suite], rows: &Rows, missing: &[&str]) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    failures(suites);
    suite_table(suites, &mut outcome);
    differences(asked, suites);
    excluded(suites);
    if !missing.is_empty() {
        println!("not installed: {} (`cargo xtask servers --install`)\n", missing.join(", "));
    }
    if asked.only.is_none() {
        blocks_not_run(tree)?;
        println!("the names of all cases: {}\n", case_names(tree, suites)?.display());
        let judged = rows::print(rows, suites);
        outcome.failed += judged.without_cases;
        outcome.skipped += judged.missing;
    }
    Ok(outcome)
}

fn failures(suites: &[Suite]) {
    for suite in suites {
        for case in &suite.cases {
            if let End::Failed(said) = &case.end {
                println!("\nFAILED {}::{}\n{}", suite.name, case.name, said.trim_end());
            }
        }
    }
    println!();
}

fn suite_table(suites: &[Suite], outcome: &mut Outcome) {
    let mut lines: BTreeMap<(String, String), Line> = BTreeMap::new();
    for suite in suites {
        for case in &suite.cases {
            let line = lines
                .entry((suite.name.clone(), case.backend.clone().unwrap_or_else(|| backend(&suite.name, &case.name))))
                .or_default();
            count(line, case);
        }
        for reason in &suite.not_run {
            let line = lines.entry((suite.name.clone(), backend(&suite.name, reason))).or_default();
            line.not_run += 1;
            line.reasons.push(reason.clone());
        }
    }
    let mut drawn = Vec::new();
    let mut sum = Line::default();
    for ((suite, backend), mut line) in lines {
        sum.passed += line.passed;
        sum.failed += line.failed;
        sum.excluded += line.excluded;
        sum.long += line.long;
        sum.not_run += line.not_run;
        line.reasons.sort();
        line.reasons.dedup();
        drawn.push(cells(&suite, &backend, &line));
    }
    drawn.push(cells("all", "", &sum));
    let heads = ["suite", "backend", "passed", "failed", "excluded by profile", "left to --full", "not run", "because"];
    println!("{}", table::draw(&heads, &drawn));
    outcome.passed = sum.passed;
    outcome.failed = sum.failed;
    outcome.skipped = sum.excluded + sum.long + sum.not_run;
}

fn count(line: &mut Line, case: &Case) {
    line.excluded += case.excluded.len();
    match &case.end {
        End::Passed => line.passed += case.weight(),
        End::Failed(_) => line.failed += 1,
        End::Ignored(_) => line.long += 1,
        End::NotRun(reason) => {
            line.not_run += 1;
            line.reasons.push(reason.clone());
        }
    }
}

fn cells(suite: &str, backend: &str, line: &Line) -> Vec<String> {
    let numbers = [line.passed, line.failed, line.excluded, line.long, line.not_run];
    let mut cells = vec![suite.to_owned(), backend.to_owned()];
    cells.extend(numbers.map(|number| number.to_string()));
    cells.push(line.reasons.join("; "));
    cells
}

/// The backend a case stands for: the first one that is a word of its name, else of its program's.
fn backend(suite: &str, case: &str) -> String {
    if suite == DOCUMENTATION || suite.starts_with("xtask::") {
        return String::new();
    }
    for text in [case.to_ascii_lowercase(), suite.replace("tokio-postgres", "tokio_postgres")] {
        for part in text.split("::") {
            let is =
                |backend: &&&str| part == **backend || part.split(['_', '-', ' ', ':']).any(|word| word == **backend);
            match BACKENDS.iter().find(is) {
                // One store, and two servers.
                Some(&("mariadb" | "mysql")) => return again::server(suite).to_owned(),
                Some(found) => return (*found).to_owned(),
                None => {}
            }
        }
    }
    String::new()
}

/// What the full run adds, or added.
fn differences(asked: &Asked, suites: &[Suite]) {
    if asked.full {
        println!("the full run: POSTRIDER_FULL=1, and the long tests with the others\n");
        return;
    }
    let mut left = Vec::new();
    for suite in suites {
        for case in &suite.cases {
            if let End::Ignored(reason) = &case.end {
                left.push(vec![format!("{}::{}", suite.name, case.name), reason.clone()]);
            }
        }
    }
    if !left.is_empty() {
        println!("left to `cargo xtask test --full`, which also lengthens what reads POSTRIDER_FULL:");
        println!("{}", table::draw(&["test", "why"], &left));
    }
}

fn excluded(suites: &[Suite]) {
    let mut drawn = Vec::new();
    for suite in suites {
        for case in &suite.cases {
            drawn.extend(case.excluded.iter().map(|what| vec![format!("{}::{}", suite.name, case.name), what.clone()]));
        }
    }
    if !drawn.is_empty() {
        println!("excluded by a backend's profile:\n{}", table::draw(&["test", "case and reason"], &drawn));
    }
}

/// Writes the name of every case into a file, for those who write patterns into `xtask/rows.toml`.
fn case_names(tree: &Tree, suites: &[Suite]) -> Result<PathBuf> {
    let file = tree.target.join("xtask/test/cases.txt");
    let names: Vec<String> =
        suites.iter().flat_map(|suite| suite.cases.iter().flat_map(|case| case.names(&suite.name))).collect();
    std::fs::write(&file, names.join("\n") + "\n")?;
    Ok(file)
}

/// Code blocks of the README and the documentation that say of themselves that nothing runs them.
fn blocks_not_run(tree: &Tree) -> Result<()> {
    let mut counts = Vec::new();
    for file in tree.files()? {
        let documentation = file == Path::new("README.md")
            || file.starts_with("docs") && file.extension().is_some_and(|end| end == "md");
        if !documentation {
            continue;
        }
        let marked = |line: &&String| {
            line.starts_with("```") && ["no_run", "not-run", "ignore"].iter().any(|mark| line.contains(mark))
        };
        let number = tree.lines(&file)?.iter().filter(marked).count();
        if number > 0 {
            counts.push(format!("{number} in {}", file.display()));
        }
    }
    let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    println!("code blocks marked as not run: {counts}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::backend;

    #[test]
    fn the_backend_is_a_word_of_the_case_or_of_its_program() {
        assert_eq!(backend("postrider-stores::conformance", "postgres::settle_is_fenced"), "postgres");
        assert_eq!(backend("postrider-brokers::nats_real", "publish_awaits"), "nats");
        assert_eq!(backend("postrider-core::lib", "judge::tests::the_table"), "");
        assert_eq!(backend("xtask::bin", "check::files::a_file_is_found"), "");
        assert_eq!(backend("postrider-core::lib", "profile::the_table"), "", "a part of a word is none");
    }
}
