//! Local time as a parameter.

use std::ops::Add;
use std::time::Duration;

/// A moment on the relay's own monotonic clock, counted from when the relay started.
///
/// Only durations are measured with it. Leases, schedules and retention are decided by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Tick(Duration);

impl Tick {
    /// The moment the relay started.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// A moment that never comes.
    pub const FAR: Self = Self(Duration::MAX);

    /// The moment `elapsed` after the start.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the start this moment is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long `earlier` lies before this moment; zero when it does not.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    /// The moment `rhs` later; the far end of time when that overflows.
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}
