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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_counts_from_its_start() {
        let clock = Clock::start();
        assert_eq!(clock.now(), Tick::ZERO);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.now(), Tick::after_start(Duration::from_secs(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_moment_of_a_tick_is_so_long_after_the_start_and_a_year_at_most() {
        let (start, clock) = (Instant::now(), Clock::start());
        let year = Duration::from_secs(31_536_000);
        for (since, expected) in [(Duration::from_millis(5), Duration::from_millis(5)), (year * 2, year)] {
            assert_eq!(clock.instant(Tick::after_start(since)), start + expected);
        }
        assert_eq!(clock.instant(Tick::FAR), start + year);
    }
}
