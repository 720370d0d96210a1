//! Whose fault it is that an output is not accepted: the relay's rule, with what this process saw.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use postrider_core::{Error, ErrorKind, Evidence, Judgement, MessageId, judge};

/// How many outputs are suspects at most. The oldest give way, and their attempts are counted anew.
const MOST: usize = 4_096;
/// With so many distinct outputs refused in a row it is the broker's fault.
const REJECTED_IN_A_ROW: usize = 16;

/// Outputs that failed and were not accepted since. Another process, and this one restarted, counts anew.
#[derive(Debug, Default)]
pub(super) struct Suspects(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// A logical clock: what failed and what was accepted, in order.
    moment: u64,
    accepted_at: u64,
    failed: VecDeque<Suspect>,
    /// The last distinct ones that were refused, with nothing accepted in between.
    rejected: Vec<MessageId>,
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    id: MessageId,
    failed_at: u64,
    attempts: u32,
}

impl Suspects {
    /// The broker has these.
    pub(super) fn accepted(&self, ids: &[MessageId]) {
        if !ids.is_empty() {
            self.with(|known| known.accepted(ids));
        }
    }

    /// The attempts that are charged to it by now, this one included if it is its own fault.
    pub(super) fn failed(&self, id: MessageId, error: &Error) -> u32 {
        self.with(|known| known.failed(id, error))
    }

    fn with<R>(&self, what: impl FnOnce(&mut Known) -> R) -> R {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known {
    fn accepted(&mut self, ids: &[MessageId]) {
        self.moment += 1;
        self.accepted_at = self.moment;
        self.rejected.clear();
        self.failed.retain(|suspect| !ids.contains(&suspect.id));
    }

    fn failed(&mut self, id: MessageId, error: &Error) -> u32 {
        let previous = self.failed.iter().position(|suspect| suspect.id == id).and_then(|at| self.failed.remove(at));
        let others_accepted = previous.is_some_and(|suspect| self.accepted_at > suspect.failed_at);
        let evidence = if error.is_unsent() {
            Evidence::NeverSent
        } else if others_accepted {
            Evidence::OthersAccepted
        } else if error.kind() == ErrorKind::Rejected && self.is_one_of_many(id) {
            Evidence::EverythingRejected
        } else {
            Evidence::NothingAccepted
        };
        self.moment += 1;
        let before = previous.map_or(0, |suspect| suspect.attempts);
        let attempts = before + u32::from(judge(error.kind(), evidence) == Judgement::Charged);
        self.failed.push_back(Suspect { id, failed_at: self.moment, attempts });
        self.failed.drain(..self.failed.len().saturating_sub(MOST));
        attempts
    }

    /// Whether it is the last of so many that were refused.
    fn is_one_of_many(&mut self, id: MessageId) -> bool {
        if !self.rejected.contains(&id) {
            self.rejected.push(id);
        }
        self.rejected.drain(..self.rejected.len().saturating_sub(REJECTED_IN_A_ROW));
        self.rejected.len() == REJECTED_IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(n: u128) -> MessageId {
        MessageId(Uuid::from_u128(n))
    }

    fn charged(suspects: &Suspects, n: u128, kind: ErrorKind) -> u32 {
        suspects.failed(id(n), &Error::new(kind, "scripted"))
    }

    #[test]
    fn what_is_refused_is_charged_and_what_meets_an_outage_is_not() {
        let suspects = Suspects::default();
        assert_eq!([1, 2, 3].map(|_| charged(&suspects, 1, ErrorKind::Rejected)), [1, 2, 3]);
        assert_eq!([1, 2, 3].map(|_| charged(&suspects, 2, ErrorKind::Unavailable)), [0; 3]);
        suspects.accepted(&[id(3)]);
        assert_eq!(charged(&suspects, 2, ErrorKind::Unavailable), 1, "others were accepted meanwhile");
        assert_eq!(charged(&suspects, 2, ErrorKind::Unavailable), 1, "and since then none");
        suspects.accepted(&[id(1)]);
        assert_eq!(charged(&suspects, 1, ErrorKind::Rejected), 1, "it was accepted, and is no suspect any more");
    }

    #[test]
    fn what_was_never_sent_is_nobodys_fault() {
        let suspects = Suspects::default();
        let unsent = Error::new(ErrorKind::Rejected, "scripted").unsent();
        assert_eq!([1, 2].map(|_| suspects.failed(id(1), &unsent)), [0; 2]);
    }

    #[test]
    fn sixteen_that_are_refused_in_a_row_are_the_brokers_fault() {
        let suspects = Suspects::default();
        let first: Vec<u32> = (0..20).map(|n| charged(&suspects, n, ErrorKind::Rejected)).collect();
        assert_eq!(first, [[1; 15].as_slice(), &[0; 5]].concat());
        suspects.accepted(&[id(99)]);
        assert_eq!(charged(&suspects, 19, ErrorKind::Rejected), 1);
    }

    #[test]
    fn the_oldest_suspects_give_way() {
        let suspects = Suspects::default();
        let most = u128::try_from(MOST).unwrap();
        for n in 0..=most {
            assert_eq!(charged(&suspects, n, ErrorKind::Unavailable), 0);
        }
        suspects.accepted(&[id(most + 1)]);
        assert_eq!([0, 1].map(|n| charged(&suspects, n, ErrorKind::Unavailable)), [0, 0], "1 gave way to 0");
        assert_eq!(charged(&suspects, 3, ErrorKind::Unavailable), 1);
    }
}
