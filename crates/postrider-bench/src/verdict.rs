//! Whether the promises held while something was measured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What arrived, compared with what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Messages written in transactions that committed.
    pub written: u64,
    /// Messages that were never acknowledged.
    pub lost: u64,
    /// Messages that nobody wrote.
    pub ghosts: u64,
    /// First deliveries behind a later message of their key.
    pub order: u64,
    /// Deliveries of a message that was acknowledged already.
    pub repeats: u64,
}

impl Verdict {
    /// Whether nothing was lost, invented or out of order.
    pub const fn holds(&self) -> bool {
        self.lost == 0 && self.ghosts == 0 && self.order == 0
    }

    /// The sum of two runs.
    #[must_use]
    pub const fn with(self, other: &Self) -> Self {
        Self {
            written: self.written + other.written,
            lost: self.lost + other.lost,
            ghosts: self.ghosts + other.ghosts,
            order: self.order + other.order,
            repeats: self.repeats + other.repeats,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, ghosts, order, repeats, .. } = self;
        write!(f, "lost {lost}, ghosts {ghosts}, order {order}")?;
        if *repeats > 0 {
            write!(f, ", repeats {repeats}")?;
        }
        Ok(())
    }
}
