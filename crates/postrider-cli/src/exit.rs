//! Exit codes: a promise (docs/compatibility.md).

use std::process::ExitCode;

/// How a verb ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done, or everything is as it should be.
    Good,
    /// 1: the answer is bad: stuck, a failed check, tables that need a migration, a destination that stays paused,
    /// nothing found.
    Bad,
    /// 2: there is no answer: wrong usage or configuration, a database that cannot be reached.
    Unknown,
    /// 3: refused without a confirmation: a bulk change without `--yes`, a file that would be overwritten.
    Refused,
    /// 130: ended at once by a second signal.
    Interrupted,
}

impl Exit {
    /// The number the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Bad => 1,
            Self::Unknown => 2,
            Self::Refused => 3,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
