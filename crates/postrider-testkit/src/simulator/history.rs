//! What happened in a world, as a number that tells two runs apart, and in words when it is asked for.

use std::fmt::{self, Display};

/// The history of one run.
#[derive(Debug, Default)]
pub(super) struct History {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl History {
    /// One that also keeps the words.
    pub(super) fn told() -> Self {
        Self { hash: 0, lines: Some(Vec::new()) }
    }

    pub(super) fn mix(&mut self, number: u64) {
        self.hash = (self.hash.rotate_left(5) ^ number).wrapping_mul(0x517C_C1B7_2722_0A95);
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Adds a line, which is only made where it is kept.
    pub(super) fn tell(&mut self, now: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>10.3} {}", now as f64 / 1_000.0, line()));
        }
    }

    pub(super) fn lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

/// Row numbers as `#1 #2 #3`, so that a line can be found by a row.
pub(super) struct Rows<T>(pub(super) T);

impl<T: Clone + Iterator<Item = i64>> Display for Rows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, row) in self.0.clone().enumerate() {
            write!(f, "{}#{row}", if place == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
