//! Forgetting what was handled longer ago than the inbox is to remember.

use std::time::Duration;

use postrider_core::{Operator, Result};
use tokio::time::{Instant, sleep};

use crate::archiving::within;
use crate::telemetry;

/// Two rounds are so much of what is kept apart, between these two.
const PARTS: u32 = 100;
const OFTEN: Duration = Duration::from_secs(10);
const SELDOM: Duration = Duration::from_secs(600);
/// The next round after one that failed.
const AGAIN: Duration = Duration::from_secs(60);
/// Records removed by one statement, so that no lock lasts.
const BATCH: u32 = 1_000;
/// The pause between two batches: what is received goes first.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one batch may take. One that takes longer is given up, with the connection.
const DEADLINE: Duration = Duration::from_secs(30);

/// When the inbox forgets next, and how long it remembers; nothing is forgotten where that is not said.
///
/// Whatever goes wrong with it is told and tried again: the outbox is relayed all the same.
#[derive(Debug)]
pub(crate) struct Forgetting {
    keep: Option<Duration>,
    next: Instant,
}

impl Forgetting {
    pub(crate) fn after(keep: Option<Duration>) -> Self {
        Self { keep, next: Instant::now() }
    }

    /// Who comes to the duty does not know when the last one forgot.
    pub(crate) fn begin(&mut self) {
        self.next = Instant::now();
    }

    /// How long what was handled is kept, where it is time to forget.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.keep.filter(|_| Instant::now() >= self.next)
    }

    /// Forgets batch by batch, until nothing is left to forget or the time is up.
    pub(crate) async fn round(&mut self, operator: &mut dyn Operator, keep: Duration) {
        let began = Instant::now();
        self.next = match batches(operator, keep, began + OFTEN).await {
            Ok(true) => began,
            Ok(false) => began + (keep / PARTS).clamp(OFTEN, SELDOM),
            Err(error) => {
                telemetry::not_forgotten(&error);
                began + AGAIN
            }
        };
    }
}

/// Whether there is more when the time is up.
async fn batches(operator: &mut dyn Operator, keep: Duration, end: Instant) -> Result<bool> {
    loop {
        let forgotten = within(DEADLINE, "forgetting what was handled", operator.forget(keep, BATCH)).await?;
        telemetry::forgotten(&forgotten);
        if !forgotten.more || Instant::now() >= end {
            return Ok(forgotten.more);
        }
        sleep(PAUSE).await;
    }
}
