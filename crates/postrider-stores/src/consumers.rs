//! What each consumer of an inbox received, as far as it was counted.

use std::collections::BTreeMap;

use postrider_core::{ConsumerStatus, Measured, Timestamp};

/// The newest records of one consumer.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) consumer: String,
    pub(crate) count: u64,
    pub(crate) last: Timestamp,
}

/// What each consumer received, of its newest records and of how many messages it refused. Where as many records were
/// looked at as the look takes, there may be more.
pub(crate) fn consumers(newest: Vec<Newest>, refused: Vec<(String, u64)>, bound: u32) -> Vec<ConsumerStatus> {
    let looked_at: u64 = newest.iter().map(|newest| newest.count).sum();
    let measured = |count| match looked_at < u64::from(bound) {
        true => Measured::Exact(count),
        false => Measured::Estimated(count),
    };
    let mut consumers = BTreeMap::new();
    for Newest { consumer, count, last } in newest {
        let status = ConsumerStatus { consumer, remembered: measured(count), last: Some(last), refused: 0 };
        consumers.insert(status.consumer.clone(), status);
    }
    for (consumer, refused) in refused {
        let unknown = || ConsumerStatus { consumer: consumer.clone(), remembered: measured(0), last: None, refused: 0 };
        consumers.entry(consumer.clone()).or_insert_with(unknown).refused = refused;
    }
    consumers.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(consumer: &str, count: u64) -> Newest {
        Newest { consumer: consumer.to_owned(), count, last: Timestamp(7) }
    }

    #[test]
    fn what_was_counted_whole_is_exact_and_who_only_refused_is_there_too() {
        let found = consumers(vec![newest("mail", 2), newest("billing", 3)], vec![("audit".to_owned(), 4)], 6);
        let found: Vec<_> = found.iter().map(|one| (one.consumer.as_str(), one.remembered, one.refused)).collect();
        let exact = Measured::Exact;
        assert_eq!(found, [("audit", exact(0), 4), ("billing", exact(3), 0), ("mail", exact(2), 0)]);
    }

    #[test]
    fn where_the_look_was_full_there_may_be_more() {
        let found = consumers(vec![newest("mail", 6)], vec![("mail".to_owned(), 1)], 6);
        assert_eq!((found.len(), found[0].remembered, found[0].refused), (1, Measured::Estimated(6), 1));
    }
}
