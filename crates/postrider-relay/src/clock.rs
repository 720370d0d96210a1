//! The only place where the relay reads a clock.

use std::time::Duration;

use postrider_core::Tick;
use tokio::time::Instant;

/// The relay's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Tick {
        Tick::after_start(self.0.elapsed())
    }

    /// The moment of a tick, for timers.
    pub(crate) fn instant(self, tick: Tick) -> Instant {
        const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.0 + tick.since_start().min(FAR)
    }
}
