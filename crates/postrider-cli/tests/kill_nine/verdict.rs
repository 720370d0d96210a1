//! The ledger of what was committed against the file of what was delivered.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

/// One message of the load, as the writer knows it.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) id: String,
    pub(crate) key: u64,
}

/// What the writer did, in order.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) committed: Vec<Written>,
    pub(crate) rolled_back: HashSet<String>,
}

/// What the broker's file holds, in order, repeats included.
#[derive(Debug)]
pub(crate) struct Delivered {
    file: PathBuf,
    offset: u64,
    order: Vec<String>,
    known: HashSet<String>,
}

impl Delivered {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, offset: 0, order: Vec::new(), known: HashSet::new() }
    }

    /// Reads the whole lines that have come since the last time. A torn one is left for later: the next relay removes
    /// it.
    pub(crate) fn take_in(&mut self) {
        let mut reader = BufReader::new(File::open(&self.file).unwrap());
        reader.seek(SeekFrom::Start(self.offset)).unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            let read = reader.read_line(&mut line).unwrap();
            if read == 0 || !line.ends_with('\n') {
                return;
            }
            self.offset += u64::try_from(read).unwrap();
            let json: serde_json::Value = serde_json::from_str(&line).unwrap();
            let id = json["id"].as_str().unwrap().to_owned();
            self.known.insert(id.clone());
            self.order.push(id);
        }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    pub(crate) fn count(&self) -> usize {
        self.order.len()
    }
}

/// Whether the promises held.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) lost: usize,
    pub(crate) ghosts: usize,
    pub(crate) misordered: usize,
    pub(crate) repeats: usize,
}

impl Verdict {
    pub(crate) fn holds(&self) -> bool {
        self.lost == 0 && self.ghosts == 0 && self.misordered == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, ghosts, misordered, repeats } = self;
        write!(f, "lost {lost}, ghosts {ghosts}, order violations {misordered}, repeats {repeats}")
    }
}

pub(crate) fn judge(ledger: &Ledger, delivered: &Delivered) -> Verdict {
    let place: HashMap<&str, (u64, usize)> =
        ledger.committed.iter().enumerate().map(|(n, written)| (written.id.as_str(), (written.key, n))).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut last: HashMap<u64, usize> = HashMap::new();
    let (mut ghosts, mut misordered, mut repeats) = (0, 0, 0);
    for id in &delivered.order {
        let Some((key, n)) = place.get(id.as_str()).copied() else {
            ghosts += 1;
            continue;
        };
        if !seen.insert(id) {
            repeats += 1;
            continue;
        }
        if last.insert(key, n).is_some_and(|before| before > n) {
            misordered += 1;
        }
    }
    Verdict { lost: place.len() - seen.len(), ghosts, misordered, repeats }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(delivered: &[&str]) -> Verdict {
        let written = |(id, key): (&str, u64)| Written { id: id.to_owned(), key };
        let committed = [("a1", 1), ("b1", 2), ("a2", 1)].map(written).to_vec();
        let ledger = Ledger { committed, rolled_back: HashSet::from(["x".to_owned()]) };
        let order: Vec<_> = delivered.iter().map(|id| (*id).to_owned()).collect();
        judge(&ledger, &Delivered { file: PathBuf::new(), offset: 0, known: order.iter().cloned().collect(), order })
    }

    #[test]
    fn each_broken_promise_is_seen() {
        assert!(verdict(&["b1", "a1", "a1", "a2"]).holds());
        assert_eq!(verdict(&["a1", "a2"]).lost, 1);
        assert_eq!(verdict(&["a1", "b1", "a2", "x"]).ghosts, 1);
        assert_eq!(verdict(&["a2", "a1", "b1"]).misordered, 1);
    }
}
