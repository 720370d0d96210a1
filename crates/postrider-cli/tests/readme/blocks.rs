//! The fenced blocks of a document, and what their first line says about them.

use std::fmt;

/// Pages whose Rust is compiled and run with the documentation of the library.
const DOCTESTS: [&str; 2] = ["README.md", "docs/exactly-once.md"];
/// Languages whose blocks are shown, not run: what a program prints.
const SHOWN: [&str; 2] = ["text", "json"];

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// The document it stands in.
    pub document: String,
    /// The line of its fence.
    pub line: usize,
    /// The first word after the fence.
    pub language: String,
    /// The other words.
    pub marks: Vec<String>,
    /// What stands inside.
    pub text: String,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.document, self.line)
    }
}

/// What is done with a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Use {
    /// Run here.
    Run,
    /// Compared with what the block before it printed.
    Output,
    /// Run with the examples of the library's documentation.
    Library,
    /// Nothing; it says so itself, and is counted.
    NotRun,
    /// Nothing; it is no code.
    Shown,
}

impl Block {
    /// Whether a word stands behind its fence.
    pub fn is_marked(&self, mark: &str) -> bool {
        self.marks.iter().any(|found| found == mark)
    }

    /// What is done with it; none when it does not say and has to.
    pub fn what_for(&self) -> Option<Use> {
        match self.language.as_str() {
            _ if self.is_marked("run") => Some(Use::Run),
            _ if self.is_marked("not-run") || self.is_marked("no_run") => Some(Use::NotRun),
            "text" if self.is_marked("output") => Some(Use::Output),
            "rust" if DOCTESTS.contains(&self.document.as_str()) => Some(Use::Library),
            language if SHOWN.contains(&language) => Some(Use::Shown),
            _ => None,
        }
    }
}

/// Every fenced block of a document.
pub fn of(document: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(_), true) => open = false,
            (Some(info), false) => {
                let mut words = info.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned);
                blocks.push(Block {
                    document: document.to_owned(),
                    line: number + 1,
                    language: words.next().unwrap_or_default(),
                    marks: words.collect(),
                    text: String::new(),
                });
                open = true;
            }
            (None, true) => {
                if let Some(block) = blocks.last_mut() {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
            (None, false) => {}
        }
    }
    blocks
}

/// Whether every line shown was printed, in that order; `…` stands for anything within a line.
pub fn printed(shown: &str, printed: &str) -> Result<(), String> {
    let mut lines = printed.lines();
    for wanted in shown.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        if !lines.any(|line| fits(wanted, line.trim_end())) {
            return Err(format!("{wanted:?} was not printed there; what was:\n{printed}"));
        }
    }
    Ok(())
}

fn fits(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    last.is_none_or(|last| last.is_empty() || line.ends_with(last)) && (last.is_some() || rest.is_empty())
}

#[test]
fn a_line_that_was_not_printed_is_noticed() {
    assert!(printed("a\n\nkey=… id=… end\n", "x\na\nkey=1 id=2 end\n").is_ok());
    for wrong in ["b", "a\na", "key=… id", "ey=…", "key=… endd"] {
        assert!(printed(wrong, "a\nkey=1 id=2 end\n").is_err(), "{wrong}");
    }
}
