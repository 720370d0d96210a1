//! Delayed messages whose moment has come, and that wait until what was written before it is read.
//!
//! The due query finds a message by its own moment, wherever it stands in the table. Where the relay has a backlog, earlier
//! messages of its key may not have been read yet. How far the reading came no row number tells: transactions commit out of
//! the order of their rows, and a reading that takes several pages goes towards the present of its first page. So what is
//! due waits for a reading that *began* after it was found and that came to its end: everything that had been committed by
//! then is in memory, settled, or known to be the table's.
//!
//! Only row numbers wait in memory: the due query leaves them out meanwhile, and brings them as they are then.

use std::collections::{BTreeMap, BTreeSet};

use super::Machine;
use super::admit::Found;
use super::events::Ticket;
use crate::lane::Lane;
use crate::row::{Row, RowId};

/// The most row numbers in memory. Where so many wait, the others come again with each due read until there is place, and
/// what is due later than they are comes after them.
const MOST: usize = 8_192;

/// What waits, and how far the reading came.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    /// Each with its lane, and the read that found it.
    waiting: BTreeMap<RowId, (Lane, Ticket)>,
    /// The first read of the reading that is under way.
    began: Option<Ticket>,
    /// Everything is read that had been committed when this read was sent.
    complete: Option<Ticket>,
}

impl Delayed {
    /// A read of new rows was answered, or failed: the reading goes on, or began with it.
    pub(super) fn reading(&mut self, ticket: Ticket) {
        self.began.get_or_insert(ticket);
    }

    /// The reading came to its end.
    pub(super) fn has_read_everything(&mut self) {
        self.complete = self.began.take().or(self.complete);
    }

    /// Whether everything is read that had been committed when this read was sent.
    fn is_read_since(&self, found: Ticket) -> bool {
        self.complete.is_some_and(|complete| found < complete)
    }

    /// Whether the reading has come far enough for any row that waits.
    pub(super) fn may_go(&self) -> bool {
        self.waiting.values().any(|(_, found)| self.is_read_since(*found))
    }

    /// The rows for which it has not.
    pub(super) fn not_yet(&self) -> impl Iterator<Item = RowId> {
        let waiting = self.waiting.iter().filter(|(_, (_, found))| !self.is_read_since(*found));
        waiting.map(|(row, _)| *row)
    }

    /// The lanes of which rows wait.
    pub(super) fn lanes(&self) -> BTreeSet<Lane> {
        self.waiting.values().map(|(lane, _)| *lane).collect()
    }

    /// A due read brought all rows there are but those that were left out: what else was waiting is gone.
    pub(super) fn keep(&mut self, left_out: &[RowId], brought: &[(Lane, RowId)]) {
        if !self.is_empty() {
            let there: BTreeSet<RowId> = left_out.iter().copied().chain(brought.iter().map(|(_, row)| *row)).collect();
            self.waiting.retain(|row, _| there.contains(row));
        }
    }

    /// The row came into the window, whatever read brought it: it is due as all others from there.
    pub(super) fn admitted(&mut self, row: RowId) {
        self.waiting.remove(&row);
    }

    pub(super) fn forget(&mut self, lane: Lane) {
        self.waiting.retain(|_, (of, _)| *of != lane);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Machine {
    /// Whether a row that was found by this due read, and that was never tried, waits until more is read.
    pub(super) fn waits_for_the_reading(&mut self, row: &Row, ticket: Ticket) -> bool {
        if self.group(row, Found::Due).is_none() {
            return false;
        }
        let found = self.delayed.waiting.get(&row.id).map_or(ticket, |(_, found)| *found);
        if self.delayed.is_read_since(found) {
            self.delayed.waiting.remove(&row.id);
            if self.schedule.is_read_to(row.lane, row.id) {
                return false;
            }
        }
        if self.delayed.len() < MOST {
            self.delayed.waiting.entry(row.id).or_insert((row.lane, ticket));
            return true;
        }
        // Where everything waits for one message, nothing new is read before a due read brings that one.
        self.delayed.waiting.contains_key(&row.id) || !self.everything_waits()
    }
}
