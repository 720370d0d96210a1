//! What is said, and how often, of a store that does not answer.

use std::time::{Duration, Instant};

/// How often the same failure is said again, so that a log of hours shows what still holds and little else.
const REMIND_EVERY: Duration = Duration::from_secs(30);
/// The most failures that are told apart: the hands of a relay fail in different words.
const MOST: usize = 8;

/// The failures that were said since the store last answered.
#[derive(Debug, Default)]
pub(crate) struct Absence(Vec<(String, Instant)>);

impl Absence {
    /// Whether this failure is to be said now.
    pub(crate) fn says(&mut self, now: Instant, text: &str) -> bool {
        if let Some((_, said)) = self.0.iter_mut().find(|(known, _)| known == text) {
            let again = now.duration_since(*said) >= REMIND_EVERY;
            if again {
                *said = now;
            }
            return again;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.push((text.to_owned(), now));
        true
    }

    /// The store answers.
    pub(crate) fn end(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_at_once_and_again_after_half_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut absence = Absence::default();
        assert!(absence.says(at(1), "refused") && absence.says(at(2), "no such file"));
        let said = (3..=99).filter(|second| absence.says(at(*second), "refused")).count();
        assert_eq!(said, 3);
        assert!(!absence.says(at(100), "refused"));
        absence.end();
        assert!(absence.says(at(101), "refused"), "another outage");
    }
}
