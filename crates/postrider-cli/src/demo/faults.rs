//! How the consumer misbehaves: some faults by the clock, some by chance, all from one seed.

use postrider_core::Jitter;

use super::numbers::below;

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// Answered with 500.
    Error,
    /// Answered with 503: the consumer is down.
    Down,
    /// Answered with 429 and `Retry-After: 1`.
    TooMany,
    /// Taken, and then the connection breaks before the answer is whole.
    LostAnswer,
    /// Taken, and the answer comes late: so that a relay can be killed while it waits for it.
    Late,
}

/// The chance of an answer 500.
const ERRORS: f64 = 0.02;
/// Answers are lost about once in so many requests.
const LOST_ANSWER_EVERY: u32 = 300;
/// And so often where repeats are to be seen.
const OFTEN: u32 = 12;

/// How often a message comes again that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Now and then.
    Seldom,
    /// So often that nobody can miss it.
    Often,
}

/// The faults to come.
#[derive(Debug)]
pub(super) struct Faults {
    chance: Jitter,
    until_lost: u64,
    lost_every: u32,
    down: bool,
    too_many: bool,
    late: bool,
}

impl Faults {
    /// The faults of a seed; the same seed gives the same ones to the same requests.
    pub(super) fn seeded(seed: u64, again: Again) -> Self {
        let mut chance = Jitter::seeded(seed);
        // The first answer is lost early, so that a short demo has one.
        let until_lost = 20 + u64::from(below(40, &mut chance));
        let lost_every = if again == Again::Often { OFTEN } else { LOST_ANSWER_EVERY };
        Self { chance, until_lost, lost_every, down: false, too_many: false, late: false }
    }

    /// The consumer goes down.
    pub(super) fn go_down(&mut self) {
        self.down = true;
    }

    /// The consumer is back.
    pub(super) fn come_back(&mut self) {
        self.down = false;
    }

    /// The next request is one too many.
    pub(super) fn ask_for_patience(&mut self) {
        self.too_many = true;
    }

    /// Answers come late from now on.
    pub(super) fn slow_down(&mut self) {
        self.late = true;
    }

    /// Answers come at once again.
    pub(super) fn speed_up(&mut self) {
        self.late = false;
    }

    /// What goes wrong with the next request.
    pub(super) fn next(&mut self) -> Fault {
        if self.down {
            return Fault::Down;
        }
        if std::mem::take(&mut self.too_many) {
            return Fault::TooMany;
        }
        if self.late {
            return Fault::Late;
        }
        if self.chance.fraction() < ERRORS {
            return Fault::Error;
        }
        self.until_lost = self.until_lost.saturating_sub(1);
        if self.until_lost > 0 {
            return Fault::None;
        }
        self.until_lost = 1 + u64::from(below(2 * self.lost_every, &mut self.chance));
        Fault::LostAnswer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_faults_and_has_some_of_each() {
        let draw = |seed| {
            let mut faults = Faults::seeded(seed, Again::Seldom);
            (0..2_000).map(|_| faults.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        for seed in 0..20 {
            let drawn = draw(seed);
            let some = |fault| drawn.iter().filter(|it| **it == fault).count();
            assert!((10..=80).contains(&some(Fault::Error)), "{}", some(Fault::Error));
            assert!(drawn[..100].contains(&Fault::LostAnswer), "seed {seed}");
        }
    }

    #[test]
    fn where_repeats_are_to_be_seen_an_answer_is_lost_in_every_dozen() {
        let mut faults = Faults::seeded(5, Again::Often);
        let lost = (0..2_400).filter(|_| faults.next() == Fault::LostAnswer).count();
        assert!((120..=280).contains(&lost), "{lost}");
    }

    #[test]
    fn an_outage_hides_every_other_fault_and_one_request_is_too_many() {
        let mut faults = Faults::seeded(1, Again::Seldom);
        faults.ask_for_patience();
        faults.go_down();
        assert!((0..500).all(|_| faults.next() == Fault::Down));
        faults.come_back();
        assert_eq!(faults.next(), Fault::TooMany);
        assert_ne!(faults.next(), Fault::TooMany);
    }
}
