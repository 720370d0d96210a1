//! What a suite found.

use std::fmt;

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
    pub(super) fn new(suite: &'static str, backend: &str) -> Self {
        Self { suite, backend: backend.to_owned(), passed: Vec::new(), failed: Vec::new(), excluded: Vec::new() }
    }

    pub(super) fn passed(&mut self, case: &'static str) {
        self.passed.push(case);
    }

    pub(super) fn failed(&mut self, case: &str, why: &str) {
        self.failed.push((case.to_owned(), why.to_owned()));
    }

    pub(super) fn excluded(&mut self, case: &'static str, why: &'static str) {
        self.excluded.push((case, why));
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
