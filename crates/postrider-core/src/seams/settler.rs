//! Recording what became of a row.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;

use crate::address::DestinationName;
use crate::error::{ErrorKind, Result};
use crate::lane::{HeldLane, Lane, RelayId};
use crate::message::MessageId;
use crate::row::{RowId, RowSet};
use crate::seams::Attempt;

/// Why a message is dead: a closed list, the `dead_reason` column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// 1: its attempts are used up; the last errors say why.
    Attempts,
    /// 2: the row is no message that can be sent.
    Malformed,
    /// 3: `expires_at` or `max_age` has passed.
    Expired,
    /// 4: the relay died on it again and again.
    RelayDied,
    /// 5: an operator gave it up.
    Operator,
}

impl DeadReason {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::Attempts, Self::Malformed, Self::Expired, Self::RelayDied, Self::Operator];

    /// The number in the table.
    pub const fn code(self) -> i16 {
        match self {
            Self::Attempts => 1,
            Self::Malformed => 2,
            Self::Expired => 3,
            Self::RelayDied => 4,
            Self::Operator => 5,
        }
    }

    /// The reason of a number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// The words used by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::Malformed => "malformed",
            Self::Expired => "expired",
            Self::RelayDied => "relay-died",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One failed attempt as it is kept in the `errors` column (the last ten).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Where it was sent.
    pub destination: DestinationName,
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// What was said, at most 1,000 characters.
    pub text: String,
    /// When it was, by the relay's own count of what it sent and met. With the relay's id it tells a failure that is recorded
    /// twice from two that are alike: after a replay attempts are counted from 1 again. 0 for what is not to stand there
    /// twice.
    pub moment: u64,
}

/// What became of a row.
///
/// Every number is absolute, so that recording the same outcome twice changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Every destination accepted it: the row goes (to the history, where that is asked for).
    Delivered,
    /// To be tried again.
    Retry {
        /// How long from now, by the database's clock.
        after: Duration,
        /// Charged attempts in all.
        attempts: u32,
        /// The destinations still owed; none means every matching one.
        waiting_for: Option<Vec<DestinationName>>,
        /// Charged attempts per destination.
        progress: BTreeMap<DestinationName, u32>,
        /// What failed this time.
        failures: Vec<FailedAttempt>,
    },
    /// Waits behind its key's head, or for a destination that is paused.
    SetAside {
        /// The destinations still owed; none means every matching one.
        waiting_for: Option<Vec<DestinationName>>,
    },
    /// Still to be delivered as it was: how many relays died with it in their hands, should this one die now.
    /// Of the other outcomes, those that leave it pending or set aside record what the settlement says, and the others none.
    Suspected {
        /// The number; 0 when an answer has cleared it.
        suspicion: u16,
    },
    /// Its time has passed and its policy asks for nothing to be kept: the row goes, and no history is written, because
    /// it was not delivered.
    Dropped,
    /// Given up; its key goes on.
    Dead {
        /// Why.
        reason: DeadReason,
        /// Charged attempts in all.
        attempts: u32,
        /// The destinations that never accepted it; none means every matching one.
        waiting_for: Option<Vec<DestinationName>>,
        /// What failed this time; where nothing did, no attempt is recorded.
        failures: Vec<FailedAttempt>,
    },
    /// Given up, and owed to the destination of dead letters alone: pending, with its reason. Its key goes on.
    Forward {
        /// Why.
        reason: DeadReason,
        /// How long from now the next attempt there may come.
        after: Duration,
        /// Charged attempts before it was given up.
        attempts: u32,
        /// The destination of dead letters.
        waiting_for: Option<Vec<DestinationName>>,
        /// The destinations that never accepted it, which are owed it again when it is replayed; empty for every one.
        /// And the charged attempts at the destination of dead letters.
        progress: BTreeMap<DestinationName, u32>,
        /// What failed this time.
        failures: Vec<FailedAttempt>,
    },
    /// Given up, and its key waits for an operator: the row stays where it is, in state 3.
    Holding {
        /// Why.
        reason: DeadReason,
        /// Charged attempts in all.
        attempts: u32,
        /// The destinations at which the key waits: those that never accepted the row; none means every one.
        waiting_for: Option<Vec<DestinationName>>,
        /// What failed this time.
        failures: Vec<FailedAttempt>,
    },
}

/// A row and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The row.
    pub row: RowId,
    /// The message that it had when it was read; none where its id could not be read. A row of this number with another
    /// message is left as it is, as if it were gone: a table that was emptied or restored, or whose server lost its last
    /// numbers, draws numbers again, and what became of the one message says nothing of the other. Without an id the number
    /// alone decides.
    pub message: Option<MessageId>,
    /// Its lane, which must be among the leases given.
    pub lane: Lane,
    /// What became of it.
    pub outcome: Outcome,
    /// The last attempt that was made at it, for the headers of the next.
    pub attempt: Attempt,
    /// Of a row that is to be tried again or set aside: how many relays died with it in their hands. 0 when it was
    /// answered wherever it is owed; what it was when this relay never sent it, because that clears nothing.
    pub suspicion: u16,
}

impl Settlement {
    /// Whether it is meant for a row of its number that has this message now; none where its id cannot be read.
    pub fn is_for(&self, message: Option<MessageId>) -> bool {
        self.message.is_none() || self.message == message
    }
}

/// The answer to a settle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// The rows that were changed.
    pub rows: Vec<RowId>,
    /// The lanes that were still held, and locked while the rows were changed. A row of such a lane that is not
    /// among `rows` is already gone; a row of another lane belongs to somebody else now.
    pub lanes: Vec<Lane>,
}

/// What an answer to a settle says of one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recorded {
    /// The row is as the settlement wants it.
    Changed,
    /// The lane is ours and the row is not there any more: somebody recorded it before.
    Gone,
    /// The lane belongs to somebody else: nothing was changed, and nothing of it is ours to decide.
    Fenced,
}

impl Settled {
    /// The answer, to be asked about each settlement of the batch.
    pub fn records(&self) -> Records {
        Records { rows: self.rows.iter().copied().collect(), lanes: self.lanes.iter().copied().collect() }
    }
}

/// An answer to a settle, by row and lane.
#[derive(Debug, Clone)]
pub struct Records {
    rows: RowSet,
    lanes: BTreeSet<Lane>,
}

impl Records {
    /// What it says of one row, by itself: of a batch some may be changed, some gone, some fenced.
    pub fn of(&self, row: RowId, lane: Lane) -> Recorded {
        if !self.lanes.contains(&lane) {
            Recorded::Fenced
        } else if self.rows.contains(&row) {
            Recorded::Changed
        } else {
            Recorded::Gone
        }
    }
}

/// The writer of outcomes.
#[async_trait]
pub trait Settler: Send + Debug {
    /// Records a batch of outcomes in one transaction, fenced by owner and term.
    ///
    /// The lane rows are locked in the statement that changes the rows, so that a relay which lost its lease changes
    /// nothing. Only rows in state 0 or 2 are touched.
    async fn settle(&mut self, me: RelayId, leases: &[HeldLane], batch: &[Settlement]) -> Result<Settled>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_known_by_its_number_in_the_table_and_by_its_word() {
        assert_eq!(DeadReason::ALL.map(DeadReason::code), [1, 2, 3, 4, 5]);
        assert_eq!([1, 2, 3, 4, 5].map(DeadReason::from_code), DeadReason::ALL.map(Some));
        assert_eq!([0, 6].map(DeadReason::from_code), [None, None]);
        let words = ["attempts", "malformed", "expired", "relay-died", "operator"];
        assert_eq!(DeadReason::ALL.map(|reason| reason.to_string()), words);
    }
}
