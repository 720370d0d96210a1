//! The verdict on a run: what an application committed against what a consumer received.

use std::collections::{HashMap, HashSet};
use std::fmt;

/// A message that an application committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its id.
    pub id: String,
    /// Its key.
    pub key: String,
}

/// How often each promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Committed and never received.
    pub lost: usize,
    /// Received and never committed.
    pub ghosts: usize,
    /// First received after a later one of the same key.
    pub misordered: usize,
    /// Received again: no broken promise, but to be explained.
    pub repeats: usize,
}

impl Verdict {
    /// Whether nothing is lost, no ghost was seen, and the order per key held.
    pub fn holds(&self) -> bool {
        self.lost == 0 && self.ghosts == 0 && self.misordered == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, ghosts, misordered, repeats } = self;
        write!(f, "lost {lost}, ghosts {ghosts}, order violations {misordered}, repeats {repeats}")
    }
}

/// Judges ids in the order of their arrival by what was committed, in the order of the commits.
pub fn judge<'a>(committed: &[Committed], received: impl IntoIterator<Item = &'a str>) -> Verdict {
    let place: HashMap<&str, (&str, usize)> =
        committed.iter().enumerate().map(|(n, one)| (one.id.as_str(), (one.key.as_str(), n))).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut last: HashMap<&str, usize> = HashMap::new();
    let (mut ghosts, mut misordered, mut repeats) = (0, 0, 0);
    for id in received {
        let Some((id, &(key, n))) = place.get_key_value(id) else {
            ghosts += 1;
            continue;
        };
        if !seen.insert(id) {
            repeats += 1;
            continue;
        }
        if last.get(key).is_some_and(|before| *before > n) {
            misordered += 1;
        }
        last.insert(key, n);
    }
    Verdict { lost: place.len() - seen.len(), ghosts, misordered, repeats }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(received: &[&str]) -> Verdict {
        let committed =
            [("a1", "a"), ("b1", "b"), ("a2", "a")].map(|(id, key)| Committed { id: id.into(), key: key.into() });
        judge(&committed, received.iter().copied())
    }

    #[test]
    fn each_broken_promise_is_seen() {
        assert!(verdict(&["b1", "a1", "a1", "a2", "a1"]).holds());
        assert_eq!(verdict(&["b1", "a1", "a1", "a2"]).repeats, 1);
        assert_eq!(verdict(&["a1", "a2"]).lost, 1);
        assert_eq!(verdict(&["a1", "b1", "a2", "x"]).ghosts, 1);
        assert_eq!(verdict(&["a2", "a1", "b1"]).misordered, 1);
    }
}
