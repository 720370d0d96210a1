//! The named rows: each sentence that promises behaviour, with the tests that hold it to that.
//!
//! `xtask/rows.toml` is the list. A sentence without a case is a failure, unless the list admits that it is missing.

use serde::Deserialize;

use super::{End, Suite};
use crate::tree::Tree;
use crate::{Result, table};

/// The list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    row: Vec<Row>,
}

/// One sentence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Where it stands: `Core`, `Stores`, `Bad input` ...
    part: String,
    /// The sentence, in few words.
    says: String,
    /// The tests, as `package::target::path` with `*` for anything.
    tests: Vec<String>,
    /// Why there is no case yet.
    missing: Option<String>,
}

/// What the rows amount to.
#[derive(Debug, Default, Clone, Copy)]
pub struct Judged {
    /// Sentences with no case and no excuse.
    pub without_cases: usize,
    /// Sentences that are admitted to be missing.
    pub missing: usize,
}

impl Rows {
    /// Reads the list.
    pub fn load(tree: &Tree) -> Result<Self> {
        let file = tree.root.join("xtask/rows.toml");
        Ok(toml::from_str(&std::fs::read_to_string(&file)?).map_err(|error| format!("xtask/rows.toml: {error}"))?)
    }
}

/// Prints a line per sentence.
pub fn print(rows: &Rows, suites: &[Suite]) -> Judged {
    let mut judged = Judged::default();
    let mut drawn = Vec::new();
    for row in &rows.row {
        let found = matching(row, suites);
        let failed = found.iter().filter(|end| matches!(end, End::Failed(_))).count();
        let idle = found.iter().filter(|end| matches!(end, End::NotRun(_) | End::Ignored(_))).count();
        let result = match (found.len(), &row.missing) {
            (0, Some(reason)) => {
                judged.missing += 1;
                format!("MISSING: {reason}")
            }
            (0, None) => {
                judged.without_cases += 1;
                "FAILED: no test has a name like this".to_owned()
            }
            _ if failed > 0 => format!("{failed} FAILED"),
            (all, _) if idle == all => "not run".to_owned(),
            (_, Some(_)) => "ok (no longer missing: say so in xtask/rows.toml)".to_owned(),
            _ => "ok".to_owned(),
        };
        drawn.push(vec![row.part.clone(), row.says.clone(), found.len().to_string(), result]);
    }
    println!("named rows:\n{}", table::draw(&["part", "says", "cases", "result"], &drawn));
    println!("{} named rows, {} without a case, {} missing\n", rows.row.len(), judged.without_cases, judged.missing);
    judged
}

fn matching<'a>(row: &Row, suites: &'a [Suite]) -> Vec<&'a End> {
    let mut ends = Vec::new();
    for suite in suites {
        for case in &suite.cases {
            let fits = |name: &String| row.tests.iter().any(|pattern| matches(pattern, name));
            ends.extend(case.names(&suite.name).iter().filter(|name| fits(name)).map(|_| &case.end));
        }
    }
    ends
}

/// Whether a name fits a pattern in which `*` stands for anything, also for nothing.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("a::b", "a::b", true),
            ("a::b", "a::bc", false),
            ("a::*", "a::b::c", true),
            ("*::c", "a::b::c", true),
            ("*b*", "a::b::c", true),
            ("a*b*c", "a::c", false),
            ("*abab", "ababab", true),
            ("x*", "a::x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
