//! One clock for the whole run.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since the run began, on the recorder's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Later than everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// This much later.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// This much earlier, or the beginning.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// The time since an earlier moment; zero when it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the run began.
    pub fn seconds(self) -> f64 {
        Duration::from_micros(self.0).as_secs_f64()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "{:.3} s", self.seconds()) }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The clock: monotonic, with the wall's time of its beginning, because servers stamp by the wall.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    began: Instant,
    wall: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self { began: Instant::now(), wall: wall() }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        Moment(micros(self.began.elapsed()))
    }

    /// The moment of a server's stamp, in microseconds since 1970.
    pub fn of_wall(&self, stamp: i128) -> Moment {
        Moment(u64::try_from(stamp - i128::from(self.wall)).unwrap_or(0))
    }

    /// A moment as a server would stamp it, in microseconds since 1970.
    pub fn stamp(&self, moment: Moment) -> i64 {
        i64::try_from(self.wall.saturating_add(moment.0)).unwrap_or(i64::MAX)
    }

    /// How far the wall has moved against this clock; servers' stamps are worth nothing when it is much.
    pub fn drift(&self) -> Duration {
        let expected = self.wall + self.now().0;
        Duration::from_micros(wall().abs_diff(expected))
    }

    /// Waits for a moment.
    pub async fn until(&self, moment: Moment) {
        tokio::time::sleep_until((self.began + Duration::from_micros(moment.0)).into()).await;
    }
}

fn wall() -> u64 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
