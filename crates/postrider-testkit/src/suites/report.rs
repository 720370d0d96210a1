//! What a suite found, and what it left out.

use std::fmt;
use std::future::Future;
use std::time::Duration;

/// How long one case may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A case that a backend can't pass by its nature.
#[derive(Debug, Clone, Copy)]
pub struct Exclusion {
    /// The name of the case.
    pub case: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// The result of one suite against one backend.
///
/// Displayed as one line per case and one line of totals, which the test runner collects.
#[derive(Debug, Clone)]
pub struct Report {
    suite: &'static str,
    backend: String,
    passed: Vec<&'static str>,
    failed: Vec<(String, String)>,
    excluded: Vec<(&'static str, &'static str)>,
}

impl Report {
    /// A report without cases yet, of a suite against a backend.
    pub fn new(suite: &'static str, backend: &str) -> Self {
        Self { suite, backend: backend.to_owned(), passed: Vec::new(), failed: Vec::new(), excluded: Vec::new() }
    }

    /// Runs one case, in a task of its own: a panic fails the case and not the run.
    pub async fn run(&mut self, case: &'static str, running: impl Future<Output = ()> + Send + 'static) {
        let running = tokio::spawn(running);
        let abort = running.abort_handle();
        match tokio::time::timeout(PATIENCE, running).await {
            Ok(Ok(())) => self.passed.push(case),
            Ok(Err(panic)) => self.failed(case, &panic.to_string()),
            Err(_) => {
                abort.abort();
                self.failed(case, "it did not end in time");
            }
        }
    }

    pub(super) fn excluded(&mut self, case: &'static str, why: &'static str) {
        self.excluded.push((case, why));
    }

    /// Fails what is to be left out and is no case.
    pub(super) fn refuse_unknown(&mut self, exclusions: &[Exclusion], names: impl Iterator<Item = &'static str>) {
        let names: Vec<&str> = names.collect();
        for exclusion in exclusions.iter().filter(|exclusion| !names.contains(&exclusion.case)) {
            self.failed(exclusion.case, "an exclusion names a case that does not exist");
        }
    }

    fn failed(&mut self, case: &str, why: &str) {
        self.failed.push((case.to_owned(), why.to_owned()));
    }

    /// The cases that passed.
    pub fn successes(&self) -> &[&'static str] {
        &self.passed
    }

    /// The cases that failed, each with why.
    pub fn failures(&self) -> &[(String, String)] {
        &self.failed
    }

    /// The cases that were left out, each with why.
    pub fn exclusions(&self) -> &[(&'static str, &'static str)] {
        &self.excluded
    }

    /// Prints the report, and panics when a case failed or none passed.
    pub fn expect_success(&self) {
        println!("{self}");
        assert!(self.failed.is_empty() && !self.passed.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.passed {
            writeln!(f, "suite {} on {}: passed {case}", self.suite, self.backend)?;
        }
        for (case, why) in &self.excluded {
            writeln!(f, "suite {} on {}: excluded {case}: {why}", self.suite, self.backend)?;
        }
        for (case, why) in &self.failed {
            writeln!(f, "suite {} on {}: FAILED {case}: {why}", self.suite, self.backend)?;
        }
        write!(
            f,
            "suite {} on {}: {} passed, {} failed, {} excluded",
            self.suite,
            self.backend,
            self.passed.len(),
            self.failed.len(),
            self.excluded.len()
        )
    }
}
