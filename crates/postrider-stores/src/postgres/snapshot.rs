//! Snapshots, and what they are bound to.

use postrider_core::{Error, ErrorKind, Result};

/// A snapshot as PostgreSQL writes it: `xmin:xmax:xip,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    text: String,
    xmax: u64,
}

impl Snapshot {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// `Config` when the text is none.
    pub(super) fn parse(text: String) -> Result<Self> {
        let xmax = text.split(':').nth(1).and_then(|xmax| xmax.parse().ok());
        match xmax {
            Some(xmax) => Ok(Self { text, xmax }),
            None => Err(Error::new(ErrorKind::Config, format!("{text:?} is not a snapshot of PostgreSQL"))),
        }
    }

    /// The text, as a parameter.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether time went backwards since `earlier`: transaction ids were used again after a crash or a failover.
    pub(super) fn is_behind(&self, earlier: &Self) -> bool {
        self.xmax < earlier.xmax
    }
}

/// What tells one life of a server from another: a snapshot means nothing in another life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Life {
    /// The row of the unlogged table, which crash recovery and promotion empty.
    pub(super) boot: String,
    /// The cluster and its timeline.
    pub(super) timeline: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_xmax_is_time_going_backwards() {
        let snapshot = |text: &str| Snapshot::parse(text.to_owned()).unwrap();
        assert!(snapshot("750:755:").is_behind(&snapshot("765:766:")));
        assert!(!snapshot("765:766:765").is_behind(&snapshot("765:766:")));
        assert!(Snapshot::parse("nonsense".to_owned()).is_err());
    }
}
