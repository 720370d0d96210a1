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
    /// First deliveries behind a later message of their key; none where nobody saw the order.
    pub order: Option<u64>,
    /// Deliveries of a message that was acknowledged already.
    pub repeats: u64,
}

impl Verdict {
    /// The verdict on messages that were counted and not seen one by one: how many were written, how many a relay says
    /// that it delivered, and how many are left.
    pub fn counted(written: u64, delivered: u64, left: u64) -> Self {
        Self {
            written,
            lost: written.saturating_sub(delivered).max(left),
            ghosts: delivered.saturating_sub(written),
            order: None,
            repeats: 0,
        }
    }

    /// Whether nothing was lost, invented or out of order.
    pub fn holds(&self) -> bool {
        self.lost == 0 && self.ghosts == 0 && self.order.unwrap_or(0) == 0
    }

    /// The sum of two runs.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            written: self.written + other.written,
            lost: self.lost + other.lost,
            ghosts: self.ghosts + other.ghosts,
            order: self.order.zip(other.order).map(|(one, another)| one + another),
            repeats: self.repeats + other.repeats,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, ghosts, order, repeats, .. } = self;
        write!(f, "lost {lost}, ghosts {ghosts}, ")?;
        match order {
            Some(order) => write!(f, "order {order}")?,
            None => write!(f, "order not seen")?,
        }
        if *repeats > 0 {
            write!(f, ", repeats {repeats}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_judged_by_its_number() {
        assert!(Verdict::counted(10, 10, 0).holds());
        assert_eq!(Verdict::counted(10, 10, 0).to_string(), "lost 0, ghosts 0, order not seen");
        assert_eq!(Verdict::counted(10, 0, 0).lost, 10, "a relay that delivers nothing has lost everything");
        assert_eq!(Verdict::counted(10, 10, 1).lost, 1, "what is left was not delivered, whatever the relay says");
        assert_eq!(Verdict::counted(10, 12, 0).ghosts, 2);
    }

    #[test]
    fn an_order_that_one_run_did_not_see_is_not_seen() {
        let seen = Verdict { written: 1, order: Some(1), ..Verdict::default() };
        assert_eq!(seen.with(&seen).order, Some(2));
        assert_eq!(seen.with(&Verdict::counted(1, 1, 0)).order, None);
    }
}
