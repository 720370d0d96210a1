//! What ends a message that was taken.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{Incoming, Receipt, Result};
use tokio::time::timeout;

use super::committing;
use super::desk::{Given, Noted};
use super::membership::Membership;

/// The receipt of one message.
pub(super) struct KafkaReceipt {
    membership: Arc<Membership>,
    /// None when its word was said.
    given: Option<Given>,
}

impl fmt::Debug for KafkaReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.given.as_ref().map(|given| given.record.place());
        f.debug_struct("KafkaReceipt").field("place", &place).finish_non_exhaustive()
    }
}

/// A message in somebody's hands, with its receipt.
pub(super) fn incoming(membership: &Arc<Membership>, given: Given) -> Incoming {
    let place = given.record.place();
    Incoming {
        message: given.record.message(&place),
        payload: given.record.payload(),
        place,
        position: given.record.position(),
        // Kafka does not count.
        deliveries: None,
        receipt: Box::new(KafkaReceipt { membership: Arc::clone(membership), given: Some(given) }),
    }
}

#[async_trait]
impl Receipt for KafkaReceipt {
    async fn acknowledge(mut self: Box<Self>) -> Result<()> {
        let Some(given) = self.given.take() else { return Ok(()) };
        let hears = match self.membership.desk.over(&given)? {
            Noted::Recorded | Noted::Later => return Ok(()),
            Noted::Soon(hears) => hears,
        };
        self.membership.wish();
        match timeout(self.membership.settings.timeout, hears).await {
            Ok(Ok(told)) => told,
            _ => Err(committing::not_in_time(&self.membership)),
        }
    }

    async fn extend(&self) -> Result<()> {
        match &self.given {
            Some(given) => self.membership.desk.holds(given),
            None => Ok(()),
        }
    }

    async fn release(mut self: Box<Self>) -> Result<()> {
        match self.given.take() {
            Some(given) => self.membership.desk.back(given),
            None => Ok(()),
        }
    }
}

impl Drop for KafkaReceipt {
    /// Dropped without a word, it comes again: nobody else could get it, so it must be given again here.
    fn drop(&mut self) {
        if let Some(given) = self.given.take() {
            // Where it is another member's by now, it comes again there.
            let _ = self.membership.desk.back(given);
        }
    }
}
