//! What the programs full of tests print, read.
//!
//! They are run with `--show-output`, so that what a passing case said is kept with its name. Some lines mean
//! something here: `NOT RUN: what: reason` (a server is missing: the case passed without having tested anything, and
//! is counted as skipped), and those of a conformance suite, which is one test here and many cases:
//! `suite S on B: passed CASE`, `suite S on B: excluded CASE: reason` (the backend's profile says that it cannot do
//! this), and at the end `suite S on B: N passed, N failed, N excluded`.

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It passed.
    Passed,
    /// It failed; what it said.
    Failed(String),
    /// It is a long one, left to the full run; why.
    Ignored(String),
    /// It could not be run: what was missing.
    NotRun(String),
}

/// One test.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its path within the program.
    pub name: String,
    /// How it ended.
    pub end: End,
    /// What its backend's profile excludes.
    pub excluded: Vec<String>,
    /// The cases within it that passed, by name; none unless it is a conformance suite.
    pub within: Vec<String>,
    /// What it ran against, where a suite says so.
    pub backend: Option<String>,
}

impl Case {
    /// A case that said nothing yet.
    pub fn new(name: String, end: End) -> Self {
        Self { name, end, excluded: Vec::new(), within: Vec::new(), backend: None }
    }

    /// Its full name; those of the cases within it where it is a whole suite that passed.
    pub fn names(&self, suite: &str) -> Vec<String> {
        let own = format!("{suite}::{}", self.name);
        if self.end != End::Passed || self.within.iter().all(|case| own.ends_with(case.as_str())) {
            return vec![own];
        }
        self.within.iter().map(|case| format!("{own}::{case}")).collect()
    }

    /// What it counts for.
    pub fn weight(&self) -> usize {
        self.within.len().max(1)
    }
}

/// The mark of a thing that is missing.
pub const NOT_RUN: &str = "NOT RUN: ";
const SUITE: &str = "suite ";

/// Reads the standard output of one program. None when its own counts contradict what was read.
pub fn read(out: &str) -> Option<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut speaker: Option<usize> = None;
    let mut counted = 0;
    let mut summaries = 0;
    for line in out.lines() {
        if let Some((name, rest)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
            && let Some(end) = end(rest)
        {
            let name = name.trim_end_matches(" - should panic").to_owned();
            cases.push(Case::new(name, end));
            continue;
        }
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----")) {
            let name = name.trim_end_matches(" stdout");
            speaker = cases.iter().rposition(|case| case.name == name);
            continue;
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            counted += counts(result)?;
            summaries += 1;
            speaker = None;
            continue;
        }
        if let Some(case) = speaker.and_then(|speaker| cases.get_mut(speaker)) {
            hear(case, line);
        }
    }
    (summaries > 0 && counted == cases.len()).then_some(cases)
}

/// The lines about missing servers in what no case in particular said.
pub fn not_run_lines(err: &str) -> Vec<String> {
    err.lines().filter_map(|line| line.trim().strip_prefix(NOT_RUN)).map(str::to_owned).collect()
}

fn end(text: &str) -> Option<End> {
    match text {
        "ok" => Some(End::Passed),
        "FAILED" => Some(End::Failed(String::new())),
        "ignored" => Some(End::Ignored("no reason given".to_owned())),
        other => other.strip_prefix("ignored, ").map(|reason| End::Ignored(reason.to_owned())),
    }
}

fn hear(case: &mut Case, line: &str) {
    if let Some((backend, text)) = line.strip_prefix(SUITE).and_then(|rest| rest.split_once(" on ")?.1.split_once(": "))
    {
        if let Some(what) = text.strip_prefix("excluded ") {
            case.excluded.push(what.to_owned());
        } else if let Some(name) = text.strip_prefix("passed ") {
            case.within.push(name.to_owned());
        }
        case.backend = Some(backend.to_owned());
    }
    match &mut case.end {
        End::Failed(said) => {
            said.push_str(line);
            said.push('\n');
        }
        End::Passed => {
            if let Some(reason) = line.trim().strip_prefix(NOT_RUN) {
                case.end = End::NotRun(reason.to_owned());
            }
        }
        End::NotRun(_) | End::Ignored(_) => {}
    }
}

/// `ok. 3 passed; 1 failed; 2 ignored; ...`: how many cases there were.
fn counts(result: &str) -> Option<usize> {
    let mut sum = 0;
    for part in result.split([';', '.']) {
        if let Some((number, "passed" | "failed" | "ignored")) = part.trim().split_once(' ') {
            sum += number.parse::<usize>().ok()?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "
running 5 tests
test a::one ... ok
test a::two ... FAILED
test a::three ... ignored, long: 100 kills
test a::four ... ok
test a::five - should panic ... ok

successes:

---- a::four stdout ----
NOT RUN: PostgreSQL 15: initdb is not installed

---- a::one stdout ----
suite broker on http: excluded it_counts: it cannot
suite broker on http: passed it_arrives
suite broker on http: passed it_is_whole
suite broker on http: 2 passed, 0 failed, 1 excluded

successes:
    a::four
    a::one

failures:

---- a::two stdout ----
thread 'a::two' panicked at src/a.rs:1:1:
no

failures:
    a::two

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn every_end_is_read_and_what_was_said_stays_with_its_case() {
        let cases = read(OUT).unwrap();
        let ends: Vec<&End> = cases.iter().map(|case| &case.end).collect();
        assert_eq!(ends[0], &End::Passed);
        assert_eq!((cases[0].weight(), cases[0].backend.as_deref()), (2, Some("http")));
        assert_eq!(cases[0].names("s"), ["s::a::one::it_arrives", "s::a::one::it_is_whole"]);
        assert_eq!(cases[4].names("s"), ["s::a::five"]);
        assert_eq!((&*cases[0].within[0], &*cases[0].excluded[0]), ("it_arrives", "it_counts: it cannot"));
        assert!(matches!(ends[1], End::Failed(said) if said.contains("panicked at src/a.rs")));
        assert_eq!(ends[2], &End::Ignored("long: 100 kills".into()));
        assert_eq!(ends[3], &End::NotRun("PostgreSQL 15: initdb is not installed".into()));
        assert_eq!((cases[4].name.as_str(), ends[4]), ("a::five", &End::Passed));
    }

    #[test]
    fn an_output_that_contradicts_its_own_counts_is_not_believed() {
        assert!(read(&OUT.replace("test a::one ... ok\n", "")).is_none());
        assert!(read("").is_none());
    }
}
