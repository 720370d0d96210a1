//! Which reads are under way, and what was settled since they were sent.

use std::collections::{BTreeSet, VecDeque};

use super::events::Ticket;
use crate::message::MessageId;
use crate::row::{Row, RowId, RowMap};

/// The book of reads: every re-read is judged against what was settled between its sending and its answer.
#[derive(Debug, Default)]
pub(super) struct Reads {
    next: u64,
    open: BTreeSet<u64>,
    settled: RowMap<(u64, Option<MessageId>)>,
    order: VecDeque<(u64, RowId)>,
}

impl Reads {
    pub(super) fn send(&mut self) -> Ticket {
        self.next += 1;
        self.open.insert(self.next);
        Ticket(self.next)
    }

    /// Ends a read, after its answer was judged.
    pub(super) fn close(&mut self, ticket: Ticket) {
        self.open.remove(&ticket.0);
        let oldest = self.open.first().copied().unwrap_or(u64::MAX);
        while let Some((since, row)) = self.order.front().copied() {
            if since >= oldest {
                break;
            }
            self.order.pop_front();
            if self.settled.get(&row).is_some_and(|(at, _)| *at == since) {
                self.settled.remove(&row);
            }
        }
    }

    /// The row with this message was settled now: reads under way may still bring it.
    pub(super) fn settle(&mut self, row: RowId, message: Option<MessageId>) {
        if self.open.is_empty() {
            return;
        }
        self.settled.insert(row, (self.next, message));
        self.order.push_back((self.next, row));
    }

    /// Whether the row was settled, with the message that it has, after this read was sent.
    pub(super) fn settled_since(&self, ticket: Ticket, row: &Row) -> bool {
        let settled = self.settled.get(&row.id);
        settled.is_some_and(|(at, message)| ticket.0 <= *at && !row.has_another_message_than(*message))
    }

    /// A mark that lies behind every read under way.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// Whether a read that was sent before the mark is still under way.
    pub(super) fn any_before(&self, mark: u64) -> bool {
        self.open.first().is_some_and(|oldest| *oldest <= mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::by_hand::row;

    #[test]
    fn a_read_sent_before_the_settle_is_told_and_one_sent_after_is_not() {
        let mut reads = Reads::default();
        let early = reads.send();
        let row = row(7, None);
        reads.settle(row.id, row.message_id());
        let late = reads.send();
        assert!(reads.settled_since(early, &row));
        assert!(!reads.settled_since(late, &row));
        reads.close(early);
        assert!(reads.settled.is_empty(), "nothing is kept that no read under way can ask for");
        reads.close(late);
    }

    #[test]
    fn nothing_is_kept_while_no_read_is_under_way() {
        let mut reads = Reads::default();
        reads.settle(RowId(1), None);
        assert!(reads.settled.is_empty());
    }

    #[test]
    fn what_was_sent_before_a_mark_is_under_way_until_the_last_of_it_is_closed() {
        let mut reads = Reads::default();
        assert!(!reads.any_before(reads.mark()));
        let (first, second) = (reads.send(), reads.send());
        let mark = reads.mark();
        let later = reads.send();
        for ticket in [first, second] {
            assert!(reads.any_before(mark));
            reads.close(ticket);
        }
        assert!(!reads.any_before(mark) && reads.any_before(reads.mark()));
        reads.close(later);
        assert!(!reads.any_before(reads.mark()));
    }
}
