//! What is said, and how often, of a store that does not answer.

use std::time::{Duration, Instant};

/// How often the same failure is said again, so that a log of hours shows what still holds and little else.
const REMIND_EVERY: Duration = Duration::from_secs(30);
/// The most failures that are told apart: the hands of a relay fail in different words.
const MOST: usize = 8;

/// Who asks the store, each with connections of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The keeper of the membership.
    Leaseholder,
    /// What reads and settles.
    Machine,
}

/// Whom the store does not answer, and the failures that were said since it last answered everybody.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    waiting: Vec<Asker>,
    said: Vec<(String, Instant)>,
}

impl Absence {
    /// Whether this failure is to be said now.
    pub(crate) fn says(&mut self, now: Instant, asker: Asker, text: &str) -> bool {
        if !self.waiting.contains(&asker) {
            self.waiting.push(asker);
        }
        if let Some((_, said)) = self.said.iter_mut().find(|(known, _)| known == text) {
            let again = now.duration_since(*said) >= REMIND_EVERY;
            if again {
                *said = now;
            }
            return again;
        }
        if self.said.len() >= MOST {
            self.said.clear();
        }
        self.said.push((text.to_owned(), now));
        true
    }

    /// This one is answered; whether everybody is again, which is to be said.
    pub(crate) fn ends(&mut self, asker: Asker) -> bool {
        let was_away = !self.waiting.is_empty();
        self.waiting.retain(|waiting| *waiting != asker);
        let ends = was_away && self.waiting.is_empty();
        if ends {
            self.said.clear();
        }
        ends
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
        let mut says = |second, text| absence.says(at(second), Asker::Machine, text);
        assert!(says(1, "refused") && says(2, "no such file"));
        let said = (3..=99).filter(|second| says(*second, "refused")).count();
        assert_eq!(said, 3);
        assert!(!says(100, "refused"));
        assert!(absence.ends(Asker::Machine));
        assert!(absence.says(at(101), Asker::Machine, "refused"), "another outage");
    }

    /// Leases that are renewed say nothing of an outbox that stays locked.
    #[test]
    fn it_ends_once_when_everybody_who_was_left_without_an_answer_has_one() {
        let now = Instant::now();
        let mut absence = Absence::default();
        assert!(!absence.ends(Asker::Leaseholder) && !absence.ends(Asker::Machine), "it never began");
        absence.says(now, Asker::Machine, "locked");
        absence.says(now, Asker::Leaseholder, "refused");
        assert!(!absence.ends(Asker::Leaseholder) && !absence.ends(Asker::Leaseholder));
        assert!(!absence.says(now, Asker::Machine, "locked"), "still the same outage");
        assert!(absence.ends(Asker::Machine) && !absence.ends(Asker::Machine));
    }
}
