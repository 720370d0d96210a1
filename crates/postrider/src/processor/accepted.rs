//! Outputs that the broker has while others of their message failed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use postrider_core::MessageId;

/// How many ids are known at most: 64 KiB. The oldest give way, and are sent once more.
const MOST: usize = 4_096;

/// What goes no second time from this process. Another process, or this one restarted, sends it again, with the same ids.
///
/// A message of which one output is refused for good is tried again for as long as it stands: without this, every try sends
/// those before that one.
#[derive(Debug, Default)]
pub(super) struct AcceptedBefore(Mutex<VecDeque<MessageId>>);

impl AcceptedBefore {
    pub(super) fn has(&self, id: MessageId) -> bool {
        self.with(|ids| ids.contains(&id))
    }

    pub(super) fn remember(&self, accepted: &[MessageId]) {
        self.with(|ids| {
            ids.extend(accepted);
            ids.drain(..ids.len().saturating_sub(MOST));
        });
    }

    /// The whole of their message is sent.
    pub(super) fn forget(&self, sent: &[MessageId]) {
        self.with(|ids| ids.retain(|id| !sent.contains(id)));
    }

    fn with<R>(&self, what: impl FnOnce(&mut VecDeque<MessageId>) -> R) -> R {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_oldest_give_way_and_what_is_over_is_forgotten() {
        let id = |n: usize| MessageId(Uuid::from_u128(n as u128));
        let before = AcceptedBefore::default();
        before.remember(&(0..=MOST).map(id).collect::<Vec<_>>());
        assert!(!before.has(id(0)));
        assert!(before.has(id(1)) && before.has(id(MOST)));
        before.forget(&[id(1), id(7)]);
        assert!(!before.has(id(1)) && before.has(id(2)));
    }
}
