//! The order of a batch by keys: which messages may go at once, and which one comes after which.

use std::collections::HashMap;

use postrider_core::Outgoing;

/// The first message of every key and each one without a key, in the batch's order; and for each message the next one of
/// its key.
pub(crate) fn in_order(batch: &[Outgoing]) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut firsts = Vec::with_capacity(batch.len());
    let mut followers = vec![None; batch.len()];
    let mut last_of: HashMap<&str, usize> = HashMap::with_capacity(batch.len());
    for (index, outgoing) in batch.iter().enumerate() {
        let before = outgoing.message.key.as_ref().and_then(|key| last_of.insert(key.as_str(), index));
        match before.and_then(|before| followers.get_mut(before)) {
            Some(follower) => *follower = Some(index),
            None => firsts.push(index),
        }
    }
    (firsts, followers)
}
