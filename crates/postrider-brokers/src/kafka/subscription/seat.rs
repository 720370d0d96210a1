//! One partition while it is ours, and what is left of it when it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use super::offsets::Book;
use super::record::{Partition, Record};

/// One partition, from when it was given to us until it is taken away.
#[derive(Debug)]
pub(super) struct Seat {
    /// No two have the same.
    pub(super) assignment: u64,
    /// Which log it is of, as far as that is known: another number from when the client goes back in it.
    pub(super) era: u64,
    pub(super) book: Book,
    /// What came and is in nobody's hands, by offset: what was given back stands where it stood.
    pub(super) waiting: BTreeMap<i64, Arc<Record>>,
    /// Whether the client says that it goes on elsewhere, and nothing has come from there: nobody knows which position is right.
    pub(super) is_adrift: bool,
    /// Eras that are over while something of them is in hand: below this offset they and this one have the same messages.
    before: Vec<(u64, i64)>,
    watchers: Vec<Watcher>,
}

/// Who waits for the broker to record that a message is over.
#[derive(Debug)]
struct Watcher {
    offset: i64,
    told: oneshot::Sender<Result<()>>,
}

/// A partition that was taken away: nothing of it is ours any more, but for its last position.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) partition: Partition,
    /// What is to be recorded of it, if anything.
    pub(super) position: Option<i64>,
    watchers: Vec<Watcher>,
}

impl Seat {
    /// A partition that was just given to us.
    pub(super) fn new(assignment: u64) -> Self {
        Self {
            assignment,
            era: assignment,
            book: Book::default(),
            waiting: BTreeMap::new(),
            is_adrift: false,
            before: Vec::new(),
            watchers: Vec::new(),
        }
    }

    /// Bytes of what waits.
    pub(super) fn weight(&self) -> usize {
        self.waiting.values().map(|record| record.weight()).sum()
    }

    /// Whether what was given as the message of this offset in an era still is.
    pub(super) fn has(&self, era: u64, offset: i64) -> bool {
        era == self.era || self.before.iter().any(|(before, below)| *before == era && offset < *below)
    }

    /// Lets the log go on at an offset that is below what came, in a new era: what came from there on, in hand or not, is not
    /// ours any more. What is before stays: the client does not give it again.
    pub(super) fn begin_anew(&mut self, partition: &Partition, offset: i64, era: u64) {
        self.waiting.split_off(&offset);
        self.book.begin_anew(offset);
        self.before.push((self.era, offset));
        self.before.iter_mut().for_each(|(_, below)| *below = offset.min(*below));
        let first = self.book.position().unwrap_or(offset);
        self.before.retain(|(_, below)| first < *below);
        self.era = era;
        for watcher in self.watchers.extract_if(.., |watcher| watcher.offset >= offset) {
            // Who waits no longer need not know.
            let _ = watcher.told.send(Err(fenced(partition)));
        }
    }

    /// The position, where it is to be recorded.
    pub(super) fn unrecorded(&self) -> Option<i64> {
        self.book.unrecorded().filter(|_| !self.is_adrift)
    }

    /// Waits until the broker has recorded that a message is over.
    pub(super) fn watch(&mut self, offset: i64) -> oneshot::Receiver<Result<()>> {
        let (told, hears) = oneshot::channel();
        self.watchers.push(Watcher { offset, told });
        hears
    }

    /// Tells those who wait for what lies before a position.
    pub(super) fn tell(&mut self, position: i64, result: impl Fn() -> Result<()>) {
        for watcher in self.watchers.extract_if(.., |watcher| watcher.offset < position) {
            // Who waits no longer need not know.
            let _ = watcher.told.send(result());
        }
    }

    /// Gives it away.
    pub(super) fn leave(self, partition: Partition) -> Left {
        Left { partition, position: self.unrecorded(), watchers: self.watchers }
    }
}

impl Left {
    /// Tells those who wait that the broker recorded its last position. Without one they learn that it did not.
    pub(super) fn recorded(self) {
        if self.position.is_none() {
            return self.fence();
        }
        for watcher in self.watchers {
            let _ = watcher.told.send(Ok(()));
        }
    }

    /// Tells those who wait that it is another member's.
    pub(super) fn fence(self) {
        for watcher in self.watchers {
            let _ = watcher.told.send(Err(fenced(&self.partition)));
        }
    }
}

/// What was taken is not ours any more.
pub(super) fn fenced(partition: &Partition) -> Error {
    let text = format!(
        "partition {} of the topic {:?} is not this member's any more; the message comes again to whoever has it",
        partition.number, partition.topic
    );
    Error::new(ErrorKind::Fenced, text)
}
