//! What is believed for a while.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long something is believed after it was seen.
const WHILE: Duration = Duration::from_secs(60);
/// How many things are kept.
const MOST: usize = 10_000;

/// What was seen, for a minute each.
#[derive(Debug)]
pub(super) struct Recent<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// This was seen.
    pub(super) fn note(&self, key: K, value: V, now: Instant) {
        let mut all = self.all();
        if all.len() >= MOST && !all.contains_key(&key) {
            all.clear();
        }
        all.insert(key, (now, value));
    }

    /// What was seen last, if that is not too long ago.
    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q, now: Instant) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let all = self.all();
        let (at, value) = all.get(key)?;
        (now.saturating_duration_since(*at) < WHILE).then(|| value.clone())
    }

    /// Believes none of these any more.
    pub(super) fn forget(&self, is_one: impl Fn(&K) -> bool) {
        self.all().retain(|key, _| !is_one(key));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_believed_for_a_while_or_until_it_is_forgotten() {
        let (recent, start) = (Recent::default(), Instant::now());
        let at = |partition| ("orders".to_owned(), partition);
        recent.note(at(1), "one", start);
        assert_eq!(recent.get(&at(1), start), Some("one"));
        assert_eq!((recent.get(&at(0), start), recent.get(&at(1), start + WHILE)), (None, None));
        recent.note(at(1), "another", start + WHILE);
        assert_eq!(recent.get(&at(1), start + WHILE), Some("another"));
        recent.forget(|(topic, _)| topic == "orders");
        assert_eq!(recent.get(&at(1), start + WHILE), None);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let (recent, now) = (Recent::default(), Instant::now());
        (0..MOST + 1).for_each(|key| recent.note(key, (), now));
        assert_eq!((recent.get(&0, now), recent.get(&MOST, now), recent.all().len()), (None, Some(()), 1));
    }
}
