//! What the decisions about messages go by.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Attempts, DeadReason, GivenUp, Key, MessageId, Place, RetryPolicy, Tick};

/// Which messages are handled one after another, in the order in which they were taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Those of one key.
    #[default]
    Key,
    /// Those of one part of the source, such as a partition, whatever their keys: as
    /// [the cursor](crate::Inbox::advance_rising) wants them. One that can't be handled holds back all that is behind it in its
    /// part, until it is given up.
    Part,
}

/// Messages of one line are handled one after another, in the order in which they were taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Line {
    /// Of its key.
    Key(Key),
    /// Of itself and of its repeats, which meet here and not in the inbox.
    Id(MessageId),
    /// Of what lies there.
    Place(Place),
    /// Of its part of the source; of what is in none, all together.
    Part(Option<(Arc<str>, u32)>),
}

/// A message as it came, as far as it matters when it begins.
#[derive(Debug)]
pub(super) struct Arrival {
    pub line: Line,
    /// How often the broker has delivered it, this time included.
    pub deliveries: Option<u32>,
    /// Why it is no message.
    pub fault: Option<String>,
}

/// Where a message stands in its line when it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InLine {
    First,
    Behind,
}

/// Whether there is a place for messages that are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Graveyard {
    Given,
    /// Nothing is given up: what can't be handled is tried for ever.
    Nowhere,
}

/// What the decisions go by.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub order: Order,
    pub concurrency: usize,
    pub window: usize,
    pub retry: RetryPolicy,
    pub graveyard: Graveyard,
    /// How often the broker is told that a message is being worked on; never where it asks for nothing.
    pub extend_every: Option<Duration>,
}

impl Rules {
    /// Why it is given up before it begins: it is no message, or every delivery of it ended in the death of a program. What
    /// stands behind another one of its line has not had its turn, however often it was delivered with it.
    pub(super) fn sentence(&self, arrival: &Arrival, place: InLine) -> Option<GivenUp> {
        let before = arrival.deliveries.unwrap_or(1).saturating_sub(1);
        if let Some(error) = &arrival.fault {
            return Some(GivenUp { reason: DeadReason::Malformed, attempts: 0, error: error.clone() });
        }
        let (InLine::First, Attempts::AtMost(attempts)) = (place, self.retry.attempts) else { return None };
        let most = attempts.saturating_mul(2).max(attempts.saturating_add(10));
        if self.graveyard == Graveyard::Nowhere || before < most {
            return None;
        }
        let error = format!(
            "it was delivered {before} times before, and no delivery came to an end: whoever had it died or lost it each time"
        );
        Some(GivenUp { reason: DeadReason::Attempts, attempts: before, error })
    }

    /// Whether a program may have died on it: it is handled alone then.
    pub(super) fn is_suspect(&self, deliveries: Option<u32>) -> bool {
        match self.retry.attempts {
            Attempts::AtMost(attempts) => deliveries.is_some_and(|deliveries| deliveries > attempts),
            Attempts::Unlimited => false,
        }
    }

    /// When the broker is to hear of a message next.
    pub(super) fn next_extension(&self, now: Tick) -> Tick {
        self.extend_every.map_or(Tick::FAR, |every| now + every)
    }
}
