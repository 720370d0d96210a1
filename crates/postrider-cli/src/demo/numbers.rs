//! Numbers for people, and numbers by chance.

use std::time::Duration;

use postrider_core::Jitter;

/// With a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A latency with two figures that count: `0.4 ms`, `12 ms`, `1.9 s`.
pub(super) fn latency(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.1} ms", s * 1e3),
    }
}

/// A share of a whole, between 0 and 1; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "a share is drawn, not counted")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

/// A number below a bound, by chance.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a fraction of a positive number below 2^32"
)]
pub(super) fn below(bound: u32, chance: &mut Jitter) -> u32 {
    (chance.fraction() * f64::from(bound)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_parted() {
        let shown: Vec<String> = [0, 999, 1_000, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn latencies_have_two_figures() {
        let shown: Vec<String> = [410, 12_345, 1_940_000].map(|us| latency(Duration::from_micros(us))).into();
        assert_eq!(shown, ["0.4 ms", "12 ms", "1.9 s"]);
    }
}
