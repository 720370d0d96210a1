//! Takes messages, and waits when the broker gives none.

use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use postrider_core::{Error, ErrorKind, Incoming, Result, Subscription};
use tokio::time::sleep;

use super::telemetry;

/// The first pause after the broker gave nothing but an error; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Takes messages from a subscription, one call at a time.
pub(super) struct Taking {
    subscription: Arc<dyn Subscription>,
    /// The call under way. It lives here, so that nothing is lost when somebody stops waiting for it.
    call: Option<BoxFuture<'static, Result<Vec<Incoming>>>>,
    /// Whether no call was answered yet.
    is_first: bool,
    /// How many calls failed since one did not.
    failures: u32,
    /// What was said of the last one that failed.
    told: Option<(ErrorKind, String)>,
}

impl Taking {
    pub(super) fn new(subscription: Arc<dyn Subscription>) -> Self {
        Self { subscription, call: None, is_first: true, failures: 0, told: None }
    }

    /// Looks at the broker before anything is taken.
    ///
    /// # Errors
    /// `Config`: somebody is needed, and is there at the start.
    pub(super) async fn look(&mut self) -> Result<()> {
        match self.subscription.check().await {
            Ok(findings) => telemetry::findings(self.subscription.name(), &findings),
            Err(error) if error.kind() == ErrorKind::Config => return Err(error),
            Err(error) => self.failed(&error),
        }
        Ok(())
    }

    /// The next messages, at most so many; never where there is room for none. Dropped, it loses nothing.
    ///
    /// # Errors
    /// `Config`, from the first call alone: later somebody may mend it meanwhile.
    pub(super) async fn next(&mut self, room: usize) -> Result<Vec<Incoming>> {
        let call = match (self.call.take(), NonZeroUsize::new(room)) {
            (Some(call), _) => call,
            (None, None) => return pending().await,
            (None, Some(room)) => self.ask(room),
        };
        let answer = self.call.insert(call).await;
        self.call = None;
        let is_first = std::mem::replace(&mut self.is_first, false);
        match answer {
            Ok(messages) => {
                self.failures = 0;
                if self.told.take().is_some() {
                    telemetry::broker_back(self.subscription.name());
                }
                Ok(messages)
            }
            Err(error) if error.kind() == ErrorKind::Config && is_first => Err(error),
            Err(error) => {
                self.failed(&error);
                Ok(Vec::new())
            }
        }
    }

    /// Lets go of the call under way, so that the subscription can be left: what it took comes again.
    pub(super) fn stop(&mut self) {
        self.call = None;
    }

    fn ask(&self, room: NonZeroUsize) -> BoxFuture<'static, Result<Vec<Incoming>>> {
        let (subscription, pause) = (Arc::clone(&self.subscription), pause(self.failures));
        Box::pin(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            subscription.take(room).await
        })
    }

    /// Waits before the next call, and tells what is wrong where it is not what was told before.
    fn failed(&mut self, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        let told = Some((error.kind(), error.story_and_advice()));
        if self.told != told {
            telemetry::broker_away(self.subscription.name(), error);
            self.told = told;
        }
    }
}

fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_PAUSE.saturating_mul(1 << doublings.min(10)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_five_seconds() {
        let millis = |failures| pause(failures).as_millis();
        assert_eq!([0, 1, 2, 3, 6].map(millis), [0, 100, 200, 400, 3_200]);
        assert_eq!([7, 8, 100, u32::MAX].map(millis), [5_000; 4]);
    }
}
