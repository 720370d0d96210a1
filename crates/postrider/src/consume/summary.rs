//! What a consumer did.

use super::handling::Ended;
use super::receiver::Handled;

/// What a consumer did, from its start to its stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConsumeSummary {
    /// Messages that were handled, repeats included.
    pub handled: u64,
    /// Those of them that the receiver knew to be repeats.
    pub repeats: u64,
    /// Attempts that came to no end through no fault of the message.
    pub again: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages that were given up and lie with the dead letters now.
    pub buried: u64,
    /// Messages that were given back on stop.
    pub released: u64,
    /// Messages that became another consumer's while they were in hand.
    pub lost: u64,
}

impl ConsumeSummary {
    pub(super) fn count(&mut self, ended: &Ended) {
        match ended {
            Ended::Handled(handled) => {
                self.handled += 1;
                self.repeats += u64::from(*handled == Handled::Before);
            }
            Ended::SetBack(_, setback) if setback.is_counted() => self.failed += 1,
            Ended::SetBack(..) => self.again += 1,
            Ended::Buried => self.buried += 1,
            Ended::Released => self.released += 1,
            Ended::Lost => self.lost += 1,
            Ended::Kept(_) | Ended::NotBuried(..) => {}
        }
    }
}
