//! The messages that met a pause: while they are few, it may be theirs and not the destination's.
//!
//! A receiver that answers 500 to one message is not away, and looks as if it were while nothing else is sent. Another message
//! tells. So one that did not fail yet waits as long as so many messages are worth, however often the same ones failed again.
//! In an outage every probe is another message, and both grow alike.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::row::RowId;

/// With more of them a pause is the destination's.
const FEW: usize = 8;

/// The messages that met a pause.
#[derive(Debug, Default)]
pub(super) struct Witnesses {
    rows: Vec<RowId>,
    /// It is the destination's, whatever any message says.
    is_general: bool,
    /// The last one could not be sent at all: until one is, the destination is away.
    is_away: bool,
}

impl Witnesses {
    /// A message met the pause with this error. What names a message is judged elsewhere, and what asks for a pause or names a
    /// setting is nobody's.
    pub(super) fn met(&mut self, row: RowId, error: &Error) {
        self.is_away = error.is_unsent();
        if self.is_away {
            return;
        }
        let may_be_its_own =
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown) && error.delay().is_none();
        if may_be_its_own && !self.is_general && !self.rows.contains(&row) {
            self.rows.push(row);
        }
        self.is_general |= !may_be_its_own || self.rows.len() > FEW;
    }

    /// The longest that a message which did not fail yet waits for its turn, where the first pause is so long; none where all
    /// wait alike.
    pub(super) fn longest(&self, first: Duration) -> Option<Duration> {
        let repeats = u32::try_from(self.rows.len().checked_sub(1)?).ok()?;
        (!self.is_general && !self.is_away).then(|| first * (1 << repeats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(200);

    fn after(rows: impl IntoIterator<Item = i64>, error: &Error) -> Option<Duration> {
        let mut witnesses = Witnesses::default();
        rows.into_iter().for_each(|row| witnesses.met(RowId(row), error));
        witnesses.longest(FIRST)
    }

    #[test]
    fn it_grows_with_the_messages_and_not_with_how_often_one_failed() {
        for kind in [ErrorKind::Unavailable, ErrorKind::Unknown] {
            let error = Error::new(kind, "scripted");
            assert_eq!(after([1; 50], &error), Some(FIRST));
            assert_eq!(after([1, 2, 1, 3, 3, 1], &error), Some(4 * FIRST));
            assert_eq!(after(0..8, &error), Some(128 * FIRST));
            assert_eq!(after(0..9, &error), None);
            assert_eq!(after(0..100_000, &error), None);
            assert_eq!(after([], &error), None);
        }
    }

    #[test]
    fn what_says_nothing_of_its_message_is_the_destinations() {
        let (unavailable, second) = (|| Error::new(ErrorKind::Unavailable, "scripted"), Duration::from_secs(1));
        let mut general = vec![unavailable().retry_after(second)];
        general.extend(
            [ErrorKind::Throttled, ErrorKind::Config, ErrorKind::Rejected].map(|kind| Error::new(kind, "scripted")),
        );
        for error in general {
            assert_eq!(after([1], &error), None, "{error:?}");
            let mut witnesses = Witnesses::default();
            witnesses.met(RowId(1), &error);
            witnesses.met(RowId(1), &unavailable());
            assert_eq!(witnesses.longest(FIRST), None, "{error:?}");
        }
    }

    #[test]
    fn what_could_not_be_sent_is_the_destinations_until_something_is() {
        let unavailable = || Error::new(ErrorKind::Unavailable, "scripted");
        let mut witnesses = Witnesses::default();
        for _ in 0..3 {
            witnesses.met(RowId(1), &unavailable().unsent());
            assert_eq!(witnesses.longest(FIRST), None);
            witnesses.met(RowId(1), &unavailable());
            assert_eq!(witnesses.longest(FIRST), Some(FIRST));
        }
    }
}
