//! What an ordinary row never has: kept apart, so that an ordinary row is small.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::address::DestinationName;
use crate::seams::FailedAttempt;

/// The troubles of one row. There is nothing to be read of a row without any; to write is to begin.
#[derive(Debug, Default)]
pub(super) struct Troubles(Option<Box<Known>>);

/// What is known of a row that has any.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Of `waiting_for`, what no configured destination is called.
    pub(super) unknown: Vec<DestinationName>,
    /// Charged attempts per destination.
    pub(super) progress: BTreeMap<DestinationName, u32>,
    /// What failed in this stay.
    pub(super) failures: Vec<FailedAttempt>,
    /// How long it waits in the table before it is tried again.
    pub(super) retry_after: Duration,
}

static NONE: Known =
    Known { unknown: Vec::new(), progress: BTreeMap::new(), failures: Vec::new(), retry_after: Duration::ZERO };

impl Troubles {
    /// What the table tells of a row.
    pub(super) fn of(unknown: Vec<DestinationName>, progress: BTreeMap<DestinationName, u32>) -> Self {
        let any = !unknown.is_empty() || !progress.is_empty();
        Self(any.then(|| Box::new(Known { unknown, progress, ..Known::default() })))
    }
}

impl Deref for Troubles {
    type Target = Known;

    fn deref(&self) -> &Known {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Troubles {
    fn deref_mut(&mut self) -> &mut Known {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_table_tells_of_a_row_is_known_and_an_ordinary_row_keeps_nothing() {
        let name = || DestinationName::new("gone");
        assert!(Troubles::of(Vec::new(), BTreeMap::new()).0.is_none());
        let unknown = Troubles::of(vec![name()], BTreeMap::new());
        assert!(unknown.unknown == [name()] && unknown.progress.is_empty());
        let progress = Troubles::of(Vec::new(), BTreeMap::from([(name(), 3)]));
        assert!(progress.unknown.is_empty() && progress.progress[&name()] == 3);
    }
}
