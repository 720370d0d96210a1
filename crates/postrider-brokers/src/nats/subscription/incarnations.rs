//! Which consumer a delivery is of.
//!
//! A word about a delivery names the stream, the consumer and two numbers, and nothing more. Where a consumer is deleted and made
//! again, alone or with its stream, it counts from 1 again and takes a late word for the old one's delivery as one about its own:
//! the message that lies there now would be over and nobody had it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a consumer is taken for what it was when it was looked at.
pub(super) const KNOWN: Duration = Duration::from_secs(10);

/// The consumers of one name, one after the other, as far as one subscription has seen them.
#[derive(Debug, Clone, Default)]
pub(super) struct Incarnations {
    state: Arc<Mutex<State>>,
    /// One look at a time.
    pub(super) looking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// Of the present one.
    number: u64,
    /// When the server made it, in its own words; none where nobody has looked.
    created: Option<String>,
    looked: Option<Instant>,
    /// The number that it gave to its last delivery here: each of one consumer is higher than those before.
    delivery: u64,
}

impl State {
    fn next(&mut self) {
        (self.number, self.created, self.delivery) = (self.number + 1, None, 0);
    }
}

impl Incarnations {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the consumer that is there, by when it was made.
    pub(super) fn seen(&self, created: &str) {
        let mut state = self.state();
        if state.created.as_deref().is_some_and(|known| known != created) {
            state.next();
        }
        (state.created, state.looked) = (Some(created.to_owned()), Some(Instant::now()));
    }

    /// Notes that it is not there.
    pub(super) fn gone(&self) {
        let mut state = self.state();
        state.next();
        state.looked = Some(Instant::now());
    }

    /// Notes a delivery, by its number; gives the incarnation that it is of.
    pub(super) fn delivered(&self, delivery: u64) -> u64 {
        let mut state = self.state();
        if delivery <= state.delivery {
            state.next();
        }
        state.delivery = delivery;
        state.number
    }

    /// Whether this is the present one, as far as is known.
    pub(super) fn is(&self, number: u64) -> bool {
        self.state().number == number
    }

    /// Whether it was looked at so long ago that it may be another one by now.
    pub(super) fn is_old(&self) -> bool {
        self.state().looked.is_none_or(|looked| looked.elapsed() >= KNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_made_at_another_time_or_counts_from_the_beginning_is_another_one() {
        let all = Incarnations::default();
        assert!(all.is_old());
        all.seen("monday");
        let first = all.delivered(7);
        all.seen("monday");
        assert!(all.is(first) && all.delivered(9) == first && !all.is_old());
        all.seen("tuesday");
        assert!(!all.is(first));
        let second = all.delivered(1);
        assert!(all.is(second) && all.delivered(2) == second);
        // Made again, and nobody has looked yet.
        let third = all.delivered(1);
        assert!(all.is(third) && !all.is(second));
        all.gone();
        assert!(!all.is(third));
        let fourth = all.delivered(1);
        all.seen("friday");
        assert!(all.is(fourth));
    }
}
