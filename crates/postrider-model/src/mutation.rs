//! Rules broken on purpose: each must make a promise fall, or the model proves nothing about it.

use super::bounds::Bounds;
use super::invariants;

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A row is settled as delivered before its message is sent.
    SettleBeforePublish,
    /// The fence asks for the owner and not for the term.
    SettleWithoutTerm,
    /// A settle asks for neither owner nor term.
    SettleWithoutFence,
    /// A renewal is trusted from when its answer came.
    TrustFromReceipt,
    /// A lane is handed back while outcomes of its rows are not recorded.
    ReleaseBeforeSettled,
    /// Retention goes by age alone.
    RetentionByAge,
    /// An answer that accepts some messages of a batch settles all of them.
    WholeBatchSettled,
    /// A message that is to be tried again lets its successor go first.
    RetryBehindSuccessor,
    /// A lane whose owner died is started like any other.
    CarefulStartSkipped,
    /// A publish whose answer was lost counts as accepted.
    UnknownIsAccepted,
    /// A publish whose answer was lost is charged to its messages.
    OutageIsCharged,
    /// Rows of open transactions are read.
    OpenRowsAreRead,
    /// A lane is taken from a member whose lease has not ended.
    LivingOwnerIsEvicted,
    /// A lane that was not looked through after a death is handed on like any other.
    CareIsNotHandedOn,
    /// What was taken carefully and not sent stays as suspect as if its relay had died.
    SuspicionStays,
}

impl Mutation {
    /// Each of them.
    pub const ALL: [Self; 15] = [
        Self::SettleBeforePublish,
        Self::SettleWithoutTerm,
        Self::SettleWithoutFence,
        Self::TrustFromReceipt,
        Self::ReleaseBeforeSettled,
        Self::RetentionByAge,
        Self::WholeBatchSettled,
        Self::RetryBehindSuccessor,
        Self::CarefulStartSkipped,
        Self::UnknownIsAccepted,
        Self::OutageIsCharged,
        Self::OpenRowsAreRead,
        Self::LivingOwnerIsEvicted,
        Self::CareIsNotHandedOn,
        Self::SuspicionStays,
    ];

    /// The broken rule, in words.
    pub const fn says(self) -> &'static str {
        match self {
            Self::SettleBeforePublish => "a row is settled before its message is published",
            Self::SettleWithoutTerm => "a settle asks for the owner of the lane and not for the term",
            Self::SettleWithoutFence => "a settle asks for neither owner nor term",
            Self::TrustFromReceipt => "a renewal is trusted from when its answer came",
            Self::ReleaseBeforeSettled => "a lane is released before what was sent is settled",
            Self::RetentionByAge => "retention goes by age alone",
            Self::WholeBatchSettled => "a partial answer settles the whole batch",
            Self::RetryBehindSuccessor => "a retry is queued again behind its successor",
            Self::CarefulStartSkipped => "the careful start is skipped",
            Self::UnknownIsAccepted => "a publish whose answer was lost counts as accepted",
            Self::OutageIsCharged => "a publish whose answer was lost is charged to its messages",
            Self::OpenRowsAreRead => "rows of open transactions are read",
            Self::LivingOwnerIsEvicted => "a lane is taken from a member whose lease has not ended",
            Self::CareIsNotHandedOn => "a lane whose careful start is not over is handed on as a clean one",
            Self::SuspicionStays => "what was not sent stays suspect when its lane is handed on",
        }
    }

    /// The promise that must fall.
    pub const fn promise(self) -> &'static str {
        match self {
            Self::SettleBeforePublish | Self::RetentionByAge | Self::WholeBatchSettled | Self::UnknownIsAccepted => {
                invariants::P1
            }
            Self::OpenRowsAreRead => invariants::P2,
            Self::RetryBehindSuccessor => invariants::P3,
            Self::ReleaseBeforeSettled => invariants::P4,
            Self::CarefulStartSkipped | Self::OutageIsCharged | Self::CareIsNotHandedOn | Self::SuspicionStays => {
                invariants::P5
            }
            Self::SettleWithoutTerm
            | Self::SettleWithoutFence
            | Self::TrustFromReceipt
            | Self::LivingOwnerIsEvicted => invariants::P6,
        }
    }

    /// The bounds within which it does.
    pub const fn bounds(self) -> Bounds {
        match self {
            Self::CarefulStartSkipped | Self::CareIsNotHandedOn | Self::SuspicionStays => Bounds::DEADLY,
            Self::SettleWithoutFence
            | Self::LivingOwnerIsEvicted
            | Self::SettleBeforePublish
            | Self::RetentionByAge => Bounds::PAUSE_AND_CRASH,
            Self::SettleWithoutTerm | Self::TrustFromReceipt | Self::UnknownIsAccepted | Self::OutageIsCharged => {
                Bounds::LOSS
            }
            Self::ReleaseBeforeSettled
            | Self::WholeBatchSettled
            | Self::RetryBehindSuccessor
            | Self::OpenRowsAreRead => Bounds::QUIET,
        }
    }
}
