//! Moments and ages for people.

use std::time::Duration;

use jiff::Timestamp as Jiff;
use postrider_core::Timestamp;

use crate::config::values::spoken;

/// A moment as RFC 3339 in UTC, to the millisecond.
pub(crate) fn written(at: Timestamp) -> String {
    match Jiff::from_microsecond(at.0) {
        Ok(moment) => format!("{moment:.3}"),
        Err(_) => format!("{} microseconds after 1970", at.0),
    }
}

/// Reads RFC 3339.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    text.parse::<Jiff>().ok().map(|moment| Timestamp(moment.as_microsecond()))
}

/// This moment by the local clock.
pub(crate) fn now() -> Timestamp {
    Timestamp(Jiff::now().as_microsecond())
}

/// A moment as a distance from another: `in 5s` or `3m ago`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let distance = Duration::from_micros(at.0.abs_diff(now.0));
    if at.0 > now.0 { format!("in {}", spoken(distance)) } else { format!("{} ago", spoken(distance)) }
}
