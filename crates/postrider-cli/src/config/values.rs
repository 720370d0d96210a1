//! Reading values: durations, sizes, numbers.

use std::time::Duration;

use super::keys::Kind;

/// What stands for "no end".
pub(crate) const NEVER: &str = "never";

const TIME_UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// The longest length of time that may be set: a hundred years.
const LONGEST: u64 = 36_525 * 86_400_000;

/// Reads a length of time: a whole number and one of ms, s, m, h, d; several may follow each other (`1h30m`).
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, millis) = TIME_UNITS.iter().find(|(unit, _)| *unit == &rest[..letters])?;
        total = total.checked_add(number.checked_mul(*millis)?)?;
        rest = &rest[letters..];
    }
    (total <= LONGEST).then(|| Duration::from_millis(total))
}

/// Reads a size: a whole number, and a unit unless bytes are meant.
pub(crate) fn size(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim();
    let factor = match unit {
        "" => 1,
        unit => SIZE_UNITS.iter().find(|(known, _)| known.eq_ignore_ascii_case(unit))?.1,
    };
    usize::try_from(number.checked_mul(factor)?).ok().filter(|bytes| *bytes > 0)
}

/// Reads a whole number within bounds.
pub(crate) fn count(text: &str, least: u64, most: u64) -> Option<u64> {
    text.trim().parse().ok().filter(|number| (least..=most).contains(number))
}

/// Reads a finite number of at least one.
pub(crate) fn factor(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 1.0)
}

/// Whether a text is a value of a kind.
pub(crate) fn fits(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Text | Kind::Texts | Kind::Secret | Kind::Address => !text.is_empty() && !text.contains('\0'),
        Kind::Count { least, most } => count(text, least, most).is_some(),
        Kind::Factor => factor(text).is_some(),
        Kind::Duration => duration(text).is_some(),
        Kind::DurationOrNever => text == NEVER || duration(text).is_some(),
        Kind::Size => size(text).is_some(),
        Kind::Choice(words) => words.contains(&text),
    }
}

/// A length of time for people: its two largest parts.
pub(crate) fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    let (d, h, m, s) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let second_part = |first: String, number: u64, unit: &str| match number {
        0 => first,
        number => format!("{first} {number}{unit}"),
    };
    match (d, h, m, s) {
        (0, 0, 0, 0) => format!("{}ms", time.subsec_millis()),
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => second_part(format!("{m}m"), s, "s"),
        (0, h, m, _) => second_part(format!("{h}h"), m, "m"),
        (d, h, _, _) => second_part(format!("{d}d"), h, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("7d"), Some(Duration::from_secs(7 * 86_400)));
        assert_eq!(duration("1h30m"), Some(Duration::from_secs(5_400)));
        for bad in ["", "10", "s", "-1s", "1.5s", "10 s s", "99999999999999999999s", "1000000d", "1y", "1é"] {
            assert_eq!(duration(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("1MiB"), Some(1 << 20));
        assert_eq!(size("512 kib"), Some(512 << 10));
        assert_eq!(size("4096"), Some(4096));
        for bad in ["", "0", "MiB", "1.5MiB", "1 potato", "99999999999GiB", "-1"] {
            assert_eq!(size(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn spoken_lengths_are_short() {
        assert_eq!(spoken(Duration::from_millis(40)), "40ms");
        assert_eq!(spoken(Duration::from_secs(125)), "2m 5s");
        assert_eq!(spoken(Duration::from_secs(90_000)), "1d 1h");
    }
}
