//! How old a message is, by its id, and whether it may still be told from a repeat.
//!
//! What was handled is not remembered for ever. A message that is older than everything that is remembered may be a repeat
//! or may not: nobody can tell, so it is refused, and kept for a person, instead of handled a second time.

use std::time::Duration;

use crate::message::{MessageId, Timestamp};

/// How the age of a message stands to what is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Age {
    /// Everything of its time is remembered.
    Remembered,
    /// What was handled in its time is forgotten: it may be a repeat.
    TooOld,
    /// Its time has not come: a clock is wrong, and its record would outlive all others.
    Future,
    /// Its id has no time.
    Unknown,
}

/// The moment at which the id was made, where it says so: UUIDv7, to the millisecond.
pub fn made_at(id: MessageId) -> Option<Timestamp> {
    let bytes = id.0.as_bytes();
    if id.0.get_version_num() != 7 {
        return None;
    }
    let milliseconds = bytes[..6].iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
    Some(Timestamp(milliseconds.saturating_mul(1_000)))
}

/// How old a message is where everything made at `since` or later is remembered, and clocks differ by `skew` at most.
pub fn age(id: MessageId, since: Timestamp, now: Timestamp, skew: Duration) -> Age {
    match made_at(id) {
        None => Age::Unknown,
        Some(at) if at < since => Age::TooOld,
        Some(at) if at.since(now) > skew => Age::Future,
        Some(_) => Age::Remembered,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const SKEW: Duration = Duration::from_secs(60);

    fn id(milliseconds: u64) -> MessageId {
        MessageId(Uuid::from_u128((u128::from(milliseconds) << 80) | (7 << 76) | (2 << 62) | 5))
    }

    #[test]
    fn an_id_tells_when_it_was_made() {
        assert_eq!(made_at(id(1_764_153_197_000)), Some(Timestamp(1_764_153_197_000_000)));
        assert_eq!(made_at(id((1 << 48) - 1)), Some(Timestamp(((1 << 48) - 1) * 1_000)));
        assert_eq!(made_at(MessageId(Uuid::from_u128(4 << 76 | 2 << 62))), None);
        let (before, fresh) = (MessageId::fresh(), MessageId::fresh());
        assert!(made_at(before).is_some() && made_at(before) <= made_at(fresh));
    }

    #[test]
    fn what_is_older_than_what_is_remembered_is_told_from_what_is_not() {
        let (since, now) = (Timestamp(10_000_000), Timestamp(20_000_000));
        let age_of = |milliseconds| age(id(milliseconds), since, now, SKEW);
        assert_eq!(age_of(9_999), Age::TooOld);
        assert_eq!(age_of(10_000), Age::Remembered);
        assert_eq!(age_of(20_000), Age::Remembered);
        assert_eq!(age_of(80_000), Age::Remembered);
        assert_eq!(age_of(80_001), Age::Future);
        assert_eq!(age(MessageId(Uuid::nil()), since, now, SKEW), Age::Unknown);
    }
}
