//! Where the servers know a producer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a server is believed to remember: far less than it does when it is left as it was
/// (`producer.id.expiration.ms`, a day).
const REMEMBERED: Duration = Duration::from_secs(60);
/// How many partitions are kept.
const MOST: usize = 10_000;

/// The partitions in which something of one producer was stored, by topic and number, and when.
///
/// There, a server takes the producer's messages by their numbers alone, and nothing behind one that it refused. A server
/// that knows nothing of a producer takes whatever number comes first (`ProducerAppendInfo.checkSequence` of Kafka).
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<String, HashMap<i32, Instant>>>);

impl Known {
    /// Something was stored there.
    pub(super) fn note(&self, topic: &str, partition: i32, now: Instant) {
        let mut topics = self.topics();
        if !topics.contains_key(topic) {
            if topics.len() >= MOST {
                topics.clear();
            }
            topics.insert(topic.to_owned(), HashMap::new());
        }
        if let Some(partitions) = topics.get_mut(topic) {
            partitions.insert(partition, now);
        }
    }

    /// Whether the producer is known there.
    pub(super) fn has(&self, topic: &str, partition: i32, now: Instant) -> bool {
        let topics = self.topics();
        let at = topics.get(topic).and_then(|partitions| partitions.get(&partition));
        at.is_some_and(|at| now.saturating_duration_since(*at) < REMEMBERED)
    }

    /// The topic may not be what it was.
    pub(super) fn forget(&self, topic: &str) {
        self.topics().remove(topic);
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<String, HashMap<i32, Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_known_where_something_was_stored_and_for_a_while() {
        let (known, start) = (Known::default(), Instant::now());
        known.note("orders", 1, start);
        assert!(known.has("orders", 1, start) && !known.has("orders", 0, start) && !known.has("stock", 1, start));
        assert!(!known.has("orders", 1, start + REMEMBERED));
        known.forget("orders");
        assert!(!known.has("orders", 1, start));
    }
}
