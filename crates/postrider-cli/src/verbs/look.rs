//! One look at the outbox and its relay, and what two of them show.

use std::time::Duration;

use postrider_core::{StoreStatus, TopicPattern};

use crate::admin::report::{DestinationReport, Report};

/// One look at everything.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// What the store says.
    pub(crate) store: StoreStatus,
    /// What the relay says, or why it could not be asked.
    pub(crate) relay: Result<Report, String>,
    /// The topics that the routes configured here lead.
    pub(crate) routes: Vec<TopicPattern>,
}

impl Look {
    /// Messages that are due: to be delivered, not delayed, and not behind a key that waits for an operator.
    pub(crate) fn due(&self) -> u64 {
        let waiting = self.store.delayed.value().saturating_add(self.store.held_back.value());
        self.store.pending.value().saturating_sub(waiting)
    }

    /// Of these, those that wait for a new attempt or behind their key's head.
    pub(super) fn waiting(&self) -> u64 {
        let set_aside = self.store.set_aside.value().saturating_sub(self.store.held_back.value());
        self.store.retrying.value() + set_aside
    }

    pub(super) fn living(&self) -> usize {
        self.store.members.iter().filter(|member| !member.lease_left.is_zero()).count()
    }

    pub(super) fn paused(&self) -> Option<&DestinationReport> {
        self.relay.as_ref().ok()?.destinations.iter().find(|destination| destination.paused_seconds.is_some())
    }

    pub(super) fn silent(&self) -> Option<&DestinationReport> {
        self.relay.as_ref().ok()?.destinations.iter().find(|destination| destination.silent_seconds.is_some())
    }
}

/// Fewer messages are due, the oldest is another one, or the relay itself counts more.
pub(super) fn progressed(first: &Look, second: &Look, apart: Duration) -> bool {
    let fewer = second.due() < first.due();
    let younger = match (first.store.oldest_age, second.store.oldest_age) {
        (Some(before), Some(after)) => after < before + apart / 2,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let counted = match (&first.relay, &second.relay) {
        (Ok(before), Ok(after)) => after.delivered > before.delivered,
        _ => false,
    };
    fewer || younger || counted
}
