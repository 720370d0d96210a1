//! What is said, and how often, of a destination that stays paused.

use std::collections::HashMap;
use std::time::Duration;

use postrider_core::{DestinationName, ErrorKind, Tick};

/// How often the same cause is said again: whoever looks at the log of the last few minutes finds it there.
const REMIND_EVERY: Duration = Duration::from_secs(300);
/// Another cause is said when the last word was so long ago: the text of a failure may name another message each time.
const CHANGE_AFTER: Duration = Duration::from_secs(15);

/// What was said of each destination that is paused.
#[derive(Debug, Default)]
pub(crate) struct Pauses(HashMap<DestinationName, Said>);

#[derive(Debug)]
struct Said {
    kind: ErrorKind,
    text: String,
    at: Tick,
}

impl Pauses {
    /// Whether the cause of this pause is to be said now. Its begin is said by who began it.
    pub(crate) fn tells(&mut self, now: Tick, name: &DestinationName, pause: Option<(ErrorKind, &str)>) -> bool {
        let Some((kind, text)) = pause else {
            self.0.remove(name);
            return false;
        };
        let fresh = || Said { kind, text: text.to_owned(), at: now };
        let Some(said) = self.0.get_mut(name) else {
            self.0.insert(name.clone(), fresh());
            return false;
        };
        let is_the_same = said.kind == kind && said.text == text;
        let tells = now.since(said.at) >= if is_the_same { REMIND_EVERY } else { CHANGE_AFTER };
        if tells {
            *said = fresh();
        }
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::ZERO + Duration::from_secs(seconds)
    }

    const DOWN: Option<(ErrorKind, &str)> = Some((ErrorKind::Unavailable, "nobody listens"));

    #[test]
    fn the_same_cause_is_said_again_every_five_minutes() {
        let (mut pauses, name) = (Pauses::default(), DestinationName::new("out"));
        let said: Vec<u64> = (0..=901).filter(|second| pauses.tells(at(*second), &name, DOWN)).collect();
        assert_eq!(said, [300, 600, 900]);
    }

    /// The broker is back, and what is missing there is another thing than its address.
    #[test]
    fn another_cause_is_said_soon_and_no_more_than_four_times_a_minute() {
        let (mut pauses, name) = (Pauses::default(), DestinationName::new("out"));
        assert!(!pauses.tells(at(0), &name, DOWN));
        let other = Some((ErrorKind::Config, "nobody listens"));
        let said: Vec<u64> = (1..=60).filter(|second| pauses.tells(at(*second), &name, other)).collect();
        assert_eq!(said, [15]);
        let texts: Vec<String> = (61..=120).map(|second| format!("message {second}")).collect();
        let said = (61..=120)
            .zip(&texts)
            .filter(|(second, text)| pauses.tells(at(*second), &name, Some((ErrorKind::Config, text.as_str()))));
        assert_eq!(said.map(|(second, _)| second).collect::<Vec<_>>(), [61, 76, 91, 106]);
    }

    #[test]
    fn each_pause_and_each_destination_begins_anew() {
        let (mut pauses, one, other) = (Pauses::default(), DestinationName::new("one"), DestinationName::new("other"));
        assert!(!pauses.tells(at(0), &one, DOWN) && !pauses.tells(at(200), &other, DOWN));
        assert!(pauses.tells(at(300), &one, DOWN) && !pauses.tells(at(300), &other, DOWN));
        assert!(!pauses.tells(at(301), &one, None) && !pauses.tells(at(700), &one, DOWN));
        assert!(!pauses.tells(at(999), &one, DOWN) && pauses.tells(at(1_000), &one, DOWN));
    }
}
