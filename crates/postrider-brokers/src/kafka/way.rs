//! The ways to send a message, each with a producer of its own.

use super::client::Use;

/// How a message leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Beside others: at most one message of a key at a time.
    Batched,
    /// In a request of its own, because a request with others in it was refused.
    Alone,
    /// With those before and behind it of its key.
    Series,
}

impl Way {
    /// What its producer is for.
    pub(super) fn purpose(self) -> Use<'static> {
        match self {
            Self::Batched => Use::Batches,
            Self::Alone => Use::Alone,
            Self::Series => Use::Series,
        }
    }
}

/// One thing for each way.
#[derive(Debug, Default)]
pub(super) struct OfEachWay<T> {
    batched: T,
    alone: T,
    series: T,
}

impl<T> OfEachWay<T> {
    /// That of one way.
    pub(super) fn of(&self, way: Way) -> &T {
        match way {
            Way::Batched => &self.batched,
            Way::Alone => &self.alone,
            Way::Series => &self.series,
        }
    }

    /// Those of all ways.
    pub(super) fn all(&self) -> [&T; 3] {
        [&self.batched, &self.alone, &self.series]
    }
}
