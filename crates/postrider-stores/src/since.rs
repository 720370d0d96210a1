//! Since when an inbox remembers, where it keeps the lowest id that it does.

use postrider_core::Timestamp;

/// The moment of the lowest id that is remembered; none where nothing was forgotten yet.
pub(crate) fn moment_of(oldest: &str) -> Option<Timestamp> {
    let digits: String = oldest.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    let millis = i64::from_str_radix(&digits, 16).ok().filter(|millis| *millis > 0)?;
    Some(Timestamp(millis.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_id_tells_its_moment_and_the_first_one_of_all_none() {
        assert_eq!(moment_of("00000000-0000-0000-0000-000000000000"), None);
        assert_eq!(moment_of("0192d6f4-5c00-0000-0000-000000000000"), Some(Timestamp(0x0192_d6f4_5c00 * 1_000)));
    }
}
