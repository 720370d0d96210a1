//! What happens when: the faults that come by the clock.

use std::time::Duration;

/// Something that happens once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// An order comes in that the consumer can never take.
    BadOrder,
    /// The consumer asks for patience with 429.
    TooMany,
    /// The consumer goes down.
    Down,
    /// The consumer is back.
    Up,
    /// A relay is replaced, as in a rolling update.
    HandOver,
    /// A relay is killed.
    Crash,
}

/// The longest outage of the consumer; it is a tenth of the demo where that is less.
const OUTAGE: Duration = Duration::from_secs(2);

/// The acts of a demo of this length, in their order, and when each is due.
pub(super) fn script(length: Duration) -> Vec<(Duration, Act)> {
    let outage = outage(length);
    let at = |share: f64| length.mul_f64(share);
    vec![
        (at(0.06), Act::BadOrder),
        (at(0.12), Act::TooMany),
        (at(0.22), Act::Down),
        (at(0.22) + outage, Act::Up),
        (at(0.38), Act::BadOrder),
        (at(0.42), Act::HandOver),
        (at(0.54), Act::TooMany),
        (at(0.60), Act::Crash),
        (at(0.82), Act::Down),
        (at(0.82) + outage, Act::Up),
    ]
}

/// How long the consumer stays down.
pub(super) fn outage(length: Duration) -> Duration {
    OUTAGE.min(length / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_acts_are_in_order_and_all_before_the_end() {
        for seconds in [2, 4, 20, 3_600] {
            let length = Duration::from_secs(seconds);
            let script = script(length);
            assert!(script.is_sorted_by_key(|(at, _)| *at), "{script:?}");
            assert!(script.iter().all(|(at, _)| *at < length), "{script:?}");
        }
    }
}
