//! Snapshots, and what they are bound to.

use postrider_core::{Error, ErrorKind, Result};

/// A snapshot as PostgreSQL writes it: `xmin:xmax:xip,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    text: String,
    xmax: u64,
    /// How many transactions below `xmax` were running.
    running: usize,
}

impl Snapshot {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// `Config` when the text is none.
    pub(super) fn parse(text: String) -> Result<Self> {
        let mut parts = text.split(':').skip(1);
        let xmax = parts.next().and_then(|xmax| xmax.parse().ok());
        let running = parts.next().map_or(0, |running| running.split(',').filter(|xid| !xid.is_empty()).count());
        match xmax {
            Some(xmax) => Ok(Self { text, xmax, running }),
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

    /// Whether this one, of the same life, was taken before the other: below one `xmax` transactions only end.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        (self.xmax, other.running) < (other.xmax, self.running)
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

    #[test]
    fn the_older_one_ends_lower_or_has_more_running_below_the_same_end() {
        let snapshot = |text: &str| Snapshot::parse(text.to_owned()).unwrap();
        let in_order = ["99:104:99,100", "100:105:100,102", "100:105:100", "105:105:"].map(snapshot);
        for (place, older) in in_order.iter().enumerate() {
            assert!(!older.is_older_than(older));
            for newer in &in_order[place + 1..] {
                assert!(older.is_older_than(newer) && !newer.is_older_than(older), "{older:?} {newer:?}");
            }
        }
    }
}
