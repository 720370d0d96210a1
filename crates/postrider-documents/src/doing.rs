//! What a call to a server is for, by which it is told what a missing answer means.

use std::fmt;

use postrider_core::ErrorKind;

/// What a call is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Doing {
    /// It changes nothing.
    Reading(&'static str),
    /// It changes something, and without an answer nobody knows.
    Writing(&'static str),
}

impl Doing {
    /// What it means that no answer came.
    pub(crate) const fn unanswered(self) -> ErrorKind {
        match self {
            Self::Reading(_) => ErrorKind::Unavailable,
            Self::Writing(_) => ErrorKind::Unknown,
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reading(what) | Self::Writing(what) => f.write_str(what),
        }
    }
}
