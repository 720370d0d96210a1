//! The code blocks of README.md and docs/, run in their order with the real binary.
//!
//! The words after a fence say what is done with its block: `sh run`, `sql run` (psql), `sql run sqlite=FILE`,
//! `sql run mysql` and `python run` are run; `text output` is compared with what the block before it printed; Rust in the
//! README is run with the examples of the library; whatever is marked `not-run` (or `no_run`) is not, and counted. Blocks
//! marked `mysql` need a build with that store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod blocks;
mod machine;
mod socket;

use std::path::{Path, PathBuf};

use blocks::{Block, Use};
use machine::Machine;
use postrider_testkit::command::lacking;
use postrider_testkit::servers::installed;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and every page of docs/, with their text.
fn documents() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned()];
    let pages = std::fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    names.extend(pages.filter_map(|name| Some(format!("docs/{}", name.to_str()?.strip_suffix(".md")?) + ".md")));
    names.sort();
    let text = |name: &String| std::fs::read_to_string(repository().join(name)).unwrap();
    names.into_iter().map(|name| (name.clone(), text(&name))).collect()
}

async fn run(document: &str) {
    let text = std::fs::read_to_string(repository().join(document)).unwrap();
    let mut blocks = blocks::of(document, &text);
    if !lacking(Path::new(env!("CARGO_BIN_EXE_postrider")), &["mysql"]).is_empty() {
        let before = blocks.len();
        blocks.retain(|block| !block.is_marked("mysql"));
        if blocks.len() < before {
            println!("NOT RUN: {document}: {} blocks about MySQL: cargo test --all-features", before - blocks.len());
        }
    }
    let runs: Vec<&Block> = blocks.iter().filter(|block| block.what_for() == Some(Use::Run)).collect();
    assert!(!runs.is_empty(), "{document} has nothing to run");
    let started = Machine::for_blocks(&runs, socket::address(&blocks)).await;
    let Some(machine) = installed(document, started) else { return };
    let mut said = String::new();
    for block in &blocks {
        match block.what_for() {
            Some(Use::Run) => said = machine.run(block).unwrap_or_else(|error| panic!("{block}: {error}")),
            Some(Use::Output) => {
                blocks::printed(&block.text, &said).unwrap_or_else(|error| panic!("{block}: {error}"));
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_readme_does_what_it_says() {
    run("README.md").await;
}

#[tokio::test]
async fn the_page_for_other_languages_does_what_it_says() {
    run("docs/sql.md").await;
}

#[tokio::test]
async fn the_page_about_settings_does_what_it_says() {
    run("docs/configuration.md").await;
}

#[tokio::test]
async fn the_page_for_operators_does_what_it_says() {
    run("docs/operating.md").await;
}

/// A block that nobody runs and that does not say so would be believed.
#[test]
fn every_block_says_whether_it_is_run_and_somebody_runs_it() {
    let run_here = ["README.md", "docs/sql.md", "docs/configuration.md", "docs/operating.md"];
    for (document, text) in documents() {
        for block in blocks::of(&document, &text) {
            let Some(what) = block.what_for() else {
                panic!("{block}: mark the block as run, output or not-run; it is {:?}", block.language)
            };
            assert!(what != Use::Run || run_here.contains(&document.as_str()), "{block}: no test runs this page");
        }
    }
}

/// The blocks that nothing runs, where the table of the test run shows them.
#[test]
fn blocks_marked_as_not_run_are_counted() {
    for (document, text) in documents() {
        let marked = blocks::of(&document, &text).iter().filter(|block| block.what_for() == Some(Use::NotRun)).count();
        if marked > 0 {
            println!("NOT RUN: {document}: {marked} code blocks are marked as not run");
        }
    }
}

/// A link to a page, a section or a file of this repository leads somewhere.
#[test]
fn links_between_pages_lead_somewhere() {
    let documents = documents();
    for (document, text) in &documents {
        let folder = repository().join(document).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") || link.starts_with('#') {
                continue;
            }
            let (path, section) = link.split_once('#').unwrap_or((link, ""));
            assert!(folder.join(path).exists(), "{document}: {link} leads nowhere");
            if !section.is_empty() {
                let page = std::fs::read_to_string(folder.join(path)).unwrap();
                let found = page.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == section);
                assert!(found, "{document}: {path} has no section {section}");
            }
        }
    }
}

/// A proof that does not exist proves nothing: each `cargo test ... --test TARGET -- NAME` names what is there.
#[test]
fn the_tests_that_the_documentation_names_exist() {
    let mut sources = sources(&repository().join("crates"));
    sources.extend(self::sources(&repository().join("examples/mysql-kafka/tests")));
    let mut named = 0;
    for (document, text) in documents() {
        for command in
            text.split("`cargo test ").skip(1).filter_map(|rest| rest.split_once('`')).map(|(command, _)| command)
        {
            named += 1;
            let (options, filter) = command.split_once("-- ").unwrap_or((command, ""));
            let words: Vec<&str> = options.split_whitespace().collect();
            let after =
                |flag: &str| words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1)).copied();
            let package = after("-p").unwrap_or_else(|| panic!("{document}: {command}: no package"));
            let of_package: Vec<_> =
                sources.iter().filter(|(path, _)| path.contains(&format!("/{package}/"))).collect();
            let target = |path: &str| after("--test").is_none_or(|name| path.contains(&format!("/tests/{name}")));
            assert!(of_package.iter().any(|(path, _)| target(path)), "{document}: {command}: no such target");
            let last = filter.trim().rsplit("::").next().unwrap_or_default();
            // A suite is called from the package's tests and its cases stand in the testkit.
            let found = sources.iter().any(|(path, text)| {
                path.contains(&format!("/{last}")) || text.contains(&format!("fn {last}")) || fits_a_name(text, last)
            });
            assert!(last.is_empty() || found, "{document}: {command}: no test is called like {last}");
        }
    }
    assert!(named > 0, "the documentation names no test");
}

/// Whether a part of the name of a function is this text.
fn fits_a_name(text: &str, part: &str) -> bool {
    text.lines()
        .any(|line| line.split_once("fn ").is_some_and(|(_, rest)| rest.split('(').next().unwrap_or("").contains(part)))
}

/// Every Rust file below a folder, with its text.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|end| end == "rs") {
            found.push((entry.display().to_string(), std::fs::read_to_string(&entry).unwrap()));
        }
    }
    found
}

/// A heading as the part of a link behind `#`.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>().replace(' ', "-")
}
