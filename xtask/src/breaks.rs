//! `cargo xtask breaks`: the product broken on purpose, and a test that turns red for it.
//!
//! Each patch of `crates/postrider-testkit/breaks/` begins with lines that git ignores:
//!
//! ```text
//! # promise: P6
//! # what: the settle statement does not look at the owner of the lane
//! # test: cargo test -p postrider-stores --features sqlite -- a_relay_that_lost_its_lease
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::copy::Copy;
use crate::process::{Ran, run, tail};
use crate::tree::Tree;
use crate::{Result, table};

/// The promises of which each must have a break.
const PROMISES: [&str; 12] = ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12"];
/// Building from nothing included.
const LIMIT: Duration = Duration::from_secs(20 * 60);

struct Break {
    name: String,
    file: PathBuf,
    promise: String,
    test: Vec<String>,
}

/// Runs the verb.
pub fn main(tree: &Tree, arguments: &[String]) -> Result<ExitCode> {
    let breaks = chosen(tree, arguments)?;
    let copy = Copy::make(tree, "breaks")?;
    let logs = tree.fresh_folder("breaks")?;
    let mut whole = HashMap::new();
    let (mut rows, mut failed) = (Vec::new(), 0);
    for one in &breaks {
        let result = judge(&copy, one, &logs, &mut whole)?;
        let word = result.as_ref().map_or_else(Clone::clone, |red| format!("red: {red}"));
        println!("{:<44} {:<4} {word}", one.name, one.promise);
        failed += usize::from(result.is_err());
        rows.push(vec![one.name.clone(), one.promise.clone(), word.lines().next().unwrap_or_default().to_owned()]);
    }
    println!("\n{}", table::draw(&["break", "promise", "result"], &rows));
    let mut unbroken = 0;
    if arguments.is_empty() {
        for promise in PROMISES.iter().filter(|promise| breaks.iter().all(|one| one.promise != **promise)) {
            println!("{promise}: no break");
            unbroken += 1;
        }
    }
    println!("{} red, {failed} not, {unbroken} promises without a break", breaks.len() - failed);
    Ok(if failed + unbroken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(tree: &Tree, names: &[String]) -> Result<Vec<Break>> {
    let mut breaks = Vec::new();
    for file in tree.files()? {
        if file.starts_with("crates/postrider-testkit/breaks") && file.extension().is_some_and(|end| end == "patch") {
            breaks.push(Break::read(&tree.root.join(file))?);
        }
    }
    if let Some(unknown) = names.iter().find(|name| breaks.iter().all(|one| one.name != **name)) {
        let known: Vec<&str> = breaks.iter().map(|one| one.name.as_str()).collect();
        return Err(format!("there is no break {unknown:?}; there are: {}", known.join(", ")).into());
    }
    if !names.is_empty() {
        breaks.retain(|one| names.contains(&one.name));
    }
    Ok(breaks)
}

/// What turned red; or why the break proves nothing.
fn judge(
    copy: &Copy,
    one: &Break,
    logs: &Path,
    whole: &mut HashMap<Vec<String>, bool>,
) -> Result<std::result::Result<String, String>> {
    copy.restore()?;
    if !copy.git(&["apply", "--check", &one.file.to_string_lossy()])? {
        return Ok(Err("the patch no longer applies".to_owned()));
    }
    // A test that is red anyway, or that does not exist, proves nothing.
    if !whole.contains_key(&one.test) {
        let ran = test(copy, one, &logs.join(format!("{}.whole", one.name)))?;
        whole.insert(one.test.clone(), ran.succeeded() && passed(&ran) > 0);
    }
    if whole.get(&one.test) != Some(&true) {
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

fn test(copy: &Copy, one: &Break, log: &Path) -> Result<Ran> {
    run(copy.cargo().args(&one.test), log, LIMIT)
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
