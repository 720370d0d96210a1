//! How long a store that does not answer is left alone.

use std::time::Duration;

use crate::retry::{Attempts, Jitter, OnExpire, RetryPolicy};

/// Short enough that a store which is back is found at once as people see it, and jittered, so that the relays which
/// lost the same database do not all come back to it in one moment.
const BACKOFF: RetryPolicy = RetryPolicy {
    initial: Duration::from_millis(250),
    maximum: Duration::from_secs(2),
    multiplier: 2.0,
    attempts: Attempts::Unlimited,
    max_age: None,
    on_expire: OnExpire::Dead,
};

/// How often in a row the store did not answer.
#[derive(Debug, Default)]
pub(super) struct Absence {
    failures: u32,
}

impl Absence {
    /// It did not answer: the pause before it is asked again.
    pub(super) fn failed(&mut self, jitter: &mut Jitter) -> Duration {
        self.failures = self.failures.saturating_add(1);
        BACKOFF.delay(self.failures, jitter)
    }

    /// It answers: whether it was away.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.failures) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_grow_to_a_bound_are_never_nothing_and_differ() {
        let (mut absence, mut jitter) = (Absence::default(), Jitter::seeded(7));
        let pauses: Vec<Duration> = (0..40).map(|_| absence.failed(&mut jitter)).collect();
        assert!(pauses[0] <= Duration::from_millis(250));
        assert!(pauses.iter().all(|pause| (Duration::from_millis(25)..=Duration::from_secs(2)).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause > Duration::from_secs(1)));
        let late: std::collections::BTreeSet<Duration> = pauses[10..].iter().copied().collect();
        assert!(late.len() > 20, "relays that lost the same store come back at different moments");
        assert!(absence.end() && !absence.end());
        assert!(absence.failed(&mut jitter) <= Duration::from_millis(250));
    }
}
