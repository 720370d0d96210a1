//! The `errors` column: the last ten failed attempts of a row as a JSON array.
//!
//! Each entry is an object: `at` (RFC 3339, the database's clock), `relay`, `attempt`, `destination`, `kind`, `text`,
//! `moment`.

use std::time::Duration;

#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
use postrider_core::{Attempt, FailedAttempt, RelayId, Timestamp};
use postrider_core::{DeadReason, GivenUp, RowState};
use serde_json::Value;
#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
use serde_json::json;

#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
const KEPT: usize = 10;
/// The longest text of a failure that is kept, in characters.
pub(crate) const LONGEST_TEXT: usize = 1_000;

#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
/// The column after these failures: what was there, then they, the last ten of all.
///
/// A column that is no JSON array is replaced. A failure that is recorded already (same relay, attempt, destination and
/// moment) is not recorded again, so that settling twice changes nothing.
pub(crate) fn appended(
    column: Option<&str>,
    at: Timestamp,
    relay: RelayId,
    attempt: Attempt,
    failures: &[FailedAttempt],
) -> Option<String> {
    let mut entries: Vec<Value> = column.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let relay = relay.to_string();
    for failure in failures {
        let destination = failure.destination.as_str();
        let known = entries.iter().any(|entry| {
            let is_same_attempt = entry["relay"] == relay.as_str() && entry["attempt"] == attempt.0;
            is_same_attempt && entry["destination"] == destination && entry["moment"] == failure.moment
        });
        if !known {
            let text: String = failure.text.chars().take(LONGEST_TEXT).collect();
            entries.push(json!({
                "at": rfc3339(at), "relay": relay, "attempt": attempt.0,
                "destination": destination, "kind": failure.kind.as_str(), "text": text, "moment": failure.moment,
            }));
        }
    }
    let surplus = entries.len().saturating_sub(KEPT);
    entries.drain(..surplus);
    (!entries.is_empty()).then(|| Value::Array(entries).to_string())
}

/// The last entry of the column as people read it: destination and text.
pub(crate) fn latest(column: &str) -> Option<String> {
    let entries: Vec<Value> = serde_json::from_str(column).ok()?;
    let last = entries.last()?;
    let field = |name: &str| last[name].as_str().unwrap_or_default();
    // What leads nowhere failed at no destination.
    Some(match field("destination") {
        "" => field("text").to_owned(),
        destination => format!("{destination}: {}", field("text")),
    })
}

/// Why a row was given up that is still to be forwarded: one that holds its key is nobody's to send.
pub(crate) fn to_be_forwarded(
    state: RowState,
    reason: Option<DeadReason>,
    attempts: u32,
    errors: Option<&str>,
) -> Option<GivenUp> {
    let reason = reason.filter(|_| state != RowState::Holding)?;
    Some(GivenUp { reason, attempts, error: errors.and_then(latest).unwrap_or_default() })
}

#[cfg(feature = "memory")]
/// Whether the last entry of the column happened at no destination: for want of a route.
pub(crate) fn found_no_route(column: &str) -> bool {
    let entries: Vec<Value> = serde_json::from_str(column).unwrap_or_default();
    entries.last().is_some_and(|last| last["destination"] == "")
}

#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
/// A moment as RFC 3339 in UTC with milliseconds.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    const DAY: i64 = 86_400_000;
    let millis = at.0.div_euclid(1_000);
    let (days, rest) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", rest % 1_000)
}

#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
/// The date of a day counted from 1970-01-01, by shifting the year to begin in March so that the leap day is its last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Attempts, as far as the servers' columns of them reach.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn counted(attempts: u32) -> i32 {
    i32::try_from(attempts).unwrap_or(i32::MAX)
}

/// A duration in microseconds, as far as they reach.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(any(feature = "memory", feature = "sqlite", feature = "mysql"))]
/// The time from `earlier` to `later`; zero when there is none.
pub(crate) fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(later.0.saturating_sub(earlier.0)).unwrap_or(0))
}

#[cfg(all(test, any(feature = "memory", feature = "sqlite", feature = "mysql")))]
mod tests {
    use postrider_core::{DestinationName, ErrorKind};
    use uuid::Uuid;

    use super::*;

    fn failure(text: &str) -> FailedAttempt {
        let destination = DestinationName::new("d");
        FailedAttempt { destination, kind: ErrorKind::Rejected, text: text.to_owned(), moment: 1 }
    }

    #[test]
    fn only_the_last_ten_are_kept_and_a_repeat_is_not_recorded_again() {
        let relay = RelayId(Uuid::nil());
        let mut column = None;
        for n in 1..=12 {
            for _ in 0..2 {
                column = appended(column.as_deref(), Timestamp(0), relay, Attempt(n), &[failure(&format!("e{n}"))]);
            }
        }
        let entries: Vec<Value> = serde_json::from_str(&column.unwrap()).unwrap();
        assert_eq!(entries.len(), 10);
        assert_eq!(entries[0]["text"], "e3");
        assert_eq!(entries[9]["text"], "e12");
    }

    #[test]
    fn nonsense_in_the_column_is_replaced() {
        let column = appended(Some("{"), Timestamp(0), RelayId(Uuid::nil()), Attempt(1), &[failure("e")]);
        assert_eq!(latest(&column.unwrap()).unwrap(), "d: e");
    }

    #[test]
    fn moments_are_written_as_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_795_204_324_123_456, "2026-11-20T19:52:04.123Z"),
            (-1_000, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(Timestamp(micros)), text);
        }
    }
}
