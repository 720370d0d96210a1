//! `cargo xtask breaks`: the product broken on purpose, and a test that turns red for it.
//!
//! Each patch of `crates/postrider-testkit/breaks/` begins with lines that git ignores:
//!
//! ```text
//! # promise: P6
//! # what: the settle statement does not look at the owner of the lane
//! # test: cargo test -p postrider-stores --features sqlite -- a_relay_that_lost_its_lease
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::copy::Copy;
use crate::process::{Ran, run, tail};
use crate::tree::Tree;
use crate::{Result, jobs, table};

/// The promises of which each must have a break.
const PROMISES: [&str; 12] = ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12"];
/// Building from nothing included.
const LIMIT: Duration = Duration::from_secs(20 * 60);

#[derive(Debug)]
struct Break {
    name: String,
    file: PathBuf,
    promise: String,
    test: Vec<String>,
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    /// Of which breaks; all where none is named.
    names: Vec<String>,
    /// In how many copies at once.
    jobs: usize,
    /// Only to say what there is.
    list: bool,
}

/// What became of a break: what turned red, or why it proves nothing.
type Judgement = std::result::Result<String, String>;

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let asked = match parse(arguments) {
        Ok(asked) => asked,
        Err(wrong) => {
            eprintln!("{wrong}");
            return Ok(ExitCode::from(2));
        }
    };
    let breaks = chosen(tree, &asked.names)?;
    if asked.list {
        for one in &breaks {
            println!("{:<4} {}", one.promise, one.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let judged = all(tree, by_test(&breaks), asked.jobs, breaks.len())?;
    let failed = judged.iter().filter(|(_, judgement)| judgement.is_err()).count();
    let rows: Vec<_> = judged
        .iter()
        .map(|(one, judgement)| {
            let word = word(judgement).lines().next().unwrap_or_default().to_owned();
            vec![one.name.clone(), one.promise.clone(), word]
        })
        .collect();
    println!("\n{}", table::draw(&["break", "promise", "result"], &rows));
    let mut unbroken = 0;
    if asked.names.is_empty() {
        for promise in PROMISES.iter().filter(|promise| breaks.iter().all(|one| one.promise != **promise)) {
            println!("{promise}: no break");
            unbroken += 1;
        }
    }
    println!("{} red, {failed} not, {unbroken} promises without a break", breaks.len() - failed);
    Ok(if failed + unbroken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> std::result::Result<Asked, String> {
    let mut asked = Asked { names: Vec::new(), jobs: jobs::per_core(), list: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => asked.list = true,
            "--jobs" => asked.jobs = jobs::read(&mut words)?,
            option if option.starts_with('-') => {
                return Err(format!("breaks takes names, --jobs N and --list, not {option:?}"));
            }
            name => asked.names.push(name.to_owned()),
        }
    }
    Ok(asked)
}

fn chosen(tree: &Tree, names: &[String]) -> Result<Vec<Break>> {
    let mut breaks = Vec::new();
    for file in tree.files()? {
        if file.starts_with("crates/postrider-testkit/breaks") && file.extension().is_some_and(|end| end == "patch") {
            breaks.push(Break::read(&tree.root.join(file))?);
        }
    }
    if let Some(unknown) = names.iter().find(|name| breaks.iter().all(|one| one.name != **name)) {
        let like = breaks.iter().map(|one| one.name.as_str()).filter(|name| name.contains(unknown.as_str()));
        let like: Vec<&str> = like.take(10).collect();
        let like = if like.is_empty() { String::new() } else { format!("; like it: {}", like.join(", ")) };
        return Err(format!("there is no break {unknown:?}{like}; `cargo xtask breaks --list` prints them").into());
    }
    if !names.is_empty() {
        breaks.retain(|one| names.contains(&one.name));
    }
    Ok(breaks)
}

/// The breaks of one test together: without a break it is run once. The longest part of the work first.
fn by_test(breaks: &[Break]) -> Vec<Vec<&Break>> {
    let mut groups: BTreeMap<&[String], Vec<&Break>> = BTreeMap::new();
    for one in breaks {
        groups.entry(&one.test).or_default().push(one);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.len()));
    groups
}

/// Judges them all, in so many copies at once; in the order of their names.
fn all<'b>(tree: &Tree, groups: Vec<Vec<&'b Break>>, jobs: usize, count: usize) -> Result<Vec<(&'b Break, Judgement)>> {
    let logs = tree.fresh_folder("breaks")?;
    let copies = Copy::several(tree, "breaks", jobs.min(groups.len()))?;
    let (left, judged) = (Mutex::new(groups.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            copies.iter().map(|copy| scope.spawn(|| work(copy, &logs, &left, &judged, count))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread that judged breaks panicked")?)
    })?;
    let mut judged = judged.into_inner().map_err(|_| "a thread that judged breaks panicked")?;
    judged.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    Ok(judged)
}

/// Judges one group after another, until none is left.
fn work<'b>(
    copy: &Copy,
    logs: &Path,
    left: &Mutex<impl Iterator<Item = Vec<&'b Break>>>,
    judged: &Mutex<Vec<(&'b Break, Judgement)>>,
    count: usize,
) -> std::result::Result<(), String> {
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    while let Some(group) = next() {
        let mut is_green = None;
        for one in group {
            let judgement = judge(copy, one, logs, &mut is_green).map_err(|error| error.to_string())?;
            let mut judged = judged.lock().unwrap_or_else(PoisonError::into_inner);
            println!("[{:>3}/{count}] {:<64} {:<4} {}", judged.len() + 1, one.name, one.promise, word(&judgement));
            judged.push((one, judgement));
        }
    }
    Ok(())
}

fn word(judgement: &Judgement) -> String {
    judgement.as_ref().map_or_else(Clone::clone, |red| format!("red: {red}"))
}

/// What turned red; or why the break proves nothing. Whether the test is green without a break is asked once.
fn judge(copy: &Copy, one: &Break, logs: &Path, is_green: &mut Option<bool>) -> Result<Judgement> {
    copy.restore()?;
    if !copy.git(&["apply", "--check", &one.file.to_string_lossy()])? {
        return Ok(Err("the patch no longer applies".to_owned()));
    }
    // A test that is red anyway, or that does not exist, proves nothing.
    if is_green.is_none() {
        let ran = test(copy, one, &logs.join(format!("{}.whole", one.name)))?;
        *is_green = Some(ran.succeeded() && passed(&ran) > 0);
    }
    if *is_green != Some(true) {
        return Ok(Err("without the break its test does not pass, or there is none of that name".to_owned()));
    }
    if !copy.git(&["apply", &one.file.to_string_lossy()])? {
        return Ok(Err("the patch no longer applies".to_owned()));
    }
    let ran = test(copy, one, &logs.join(format!("{}.broken", one.name)))?;
    copy.restore()?;
    let red: Vec<&str> =
        ran.out.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
    Ok(if ran.succeeded() {
        Err("STAYED GREEN".to_owned())
    } else if ran.timed_out {
        Ok("the test did not end".to_owned())
    } else if let [first, rest @ ..] = red.as_slice() {
        Ok(if rest.is_empty() { (*first).to_owned() } else { format!("{first}, and {} more", rest.len()) })
    } else {
        Err(format!("no test failed, but the command did ({})\n{}", ran.ending(), tail(&ran.err, 20)))
    })
}

/// Built incrementally, whatever the environment says: each break changes a line or two of a crate.
fn test(copy: &Copy, one: &Break, log: &Path) -> Result<Ran> {
    run(copy.cargo().args(&one.test).env("CARGO_INCREMENTAL", "1"), log, LIMIT)
}

/// How many cases a cargo test command passed.
fn passed(ran: &Ran) -> usize {
    ran.out.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok")).count()
}

impl Break {
    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let field = |field: &str| -> Result<String> {
            let start = format!("# {field}: ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            Ok(line.ok_or_else(|| format!("{name}.patch: it has no line `# {field}: `"))?.trim().to_owned())
        };
        let promise = field("promise")?;
        if !PROMISES.contains(&promise.as_str()) {
            return Err(format!("{name}.patch: {promise} is not one of {}", PROMISES.join(", ")).into());
        }
        let test: Vec<String> = field("test")?.split_whitespace().map(str::to_owned).collect();
        if test.first().map(String::as_str) != Some("cargo") {
            return Err(format!("{name}.patch: its test is not a cargo command").into());
        }
        Ok(Self { promise, test: test[1..].to_vec(), file: file.to_owned(), name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_breaks_of_one_test_go_together_and_the_most_of_them_first() {
        let named = |name: &str, test: &str| Break {
            name: name.to_owned(),
            file: PathBuf::new(),
            promise: "P1".to_owned(),
            test: vec![test.to_owned()],
        };
        let breaks = [named("a", "one"), named("b", "two"), named("c", "two")];
        let names: Vec<Vec<&str>> =
            by_test(&breaks).iter().map(|group| group.iter().map(|one| one.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["b", "c"], vec!["a"]]);
    }

    #[test]
    fn words_that_are_no_names_are_options() {
        let parsed = |words: &[&str]| parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(parsed(&["a", "--jobs", "3"]), Ok(Asked { names: vec!["a".to_owned()], jobs: 3, list: false }));
        assert!(parsed(&["--list"]).unwrap().list);
        for wrong in [&["--jobs", "0"][..], &["--jobs"], &["--all"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_patch_without_a_promise_or_a_test_is_refused() {
        let file = std::env::temp_dir().join(format!("xtask-break-{}.patch", std::process::id()));
        for (text, part) in [
            ("# test: cargo test\n", "# promise: "),
            ("# promise: P13\n# test: cargo test\n", "P13 is not one of"),
            ("# promise: P1\n# test: rm -r x\n", "not a cargo command"),
        ] {
            fs::write(&file, text).unwrap();
            let error = Break::read(&file).err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        }
        fs::write(&file, "# promise: P1\n# test: cargo test -p a -- b\ndiff --git a/a b/a\n").unwrap();
        assert_eq!(Break::read(&file).unwrap().test, ["test", "-p", "a", "--", "b"]);
        fs::remove_file(&file).unwrap();
    }
}
