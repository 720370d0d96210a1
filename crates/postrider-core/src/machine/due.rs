//! Which of the rows that are due may go at once.
//!
//! A [delayed](super::delayed) one waits until what was written before it is read.
//!
//! A row that was sent to a destination before is the head of its key there: what comes before it was sent with it at the
//! latest, though another relay may have died before it recorded that. An operator makes others due, too: what he replays,
//! and the first row set aside for a head that he discards. Whether something of its key stands before such a row the row
//! does not tell. Of a lane that was gained not long ago, earlier rows may not have been read yet, and others may be on
//! their way back to the table at this moment. So a row goes at once only where its lane is read as far as it, and everything
//! before it is settled, in memory, or known to be the table's; otherwise its key is looked at, as after every gain, and
//! the look brings the first of its rows in its turn.

use super::Machine;
use super::admit::Found;
use super::destinations::{DestinationIndex, Destinations};
use super::events::Ticket;
use super::queue::Queue;
use crate::lane::Lane;
use crate::message::Key;
use crate::row::{Closed, Retrying, Row, RowId};

impl Machine {
    /// Takes in a row of our own that was found by this due read, unless it is here already or all of it waits in the table;
    /// whether it came in.
    pub(super) fn admit_due(&mut self, row: Row, ticket: Ticket) -> bool {
        if !self.is_news(ticket, &row) {
            if !self.reads.settled_since(ticket, &row) {
                self.freed_here(&row);
            }
            return false;
        }
        let Some(blocked) = self.blocked(&row, ticket) else { return false };
        let (id, lane, due_again) = (row.id, row.lane, self.due_again(&row));
        self.admit(row, Found::Due, blocked);
        if let Some(key) = due_again.filter(|_| self.goes_nowhere(id)) {
            self.look_everywhere(key, lane);
        }
        true
    }

    /// Where a row that was found by this due read must wait in the table; none where all of it waits: until more is read,
    /// or for a look at its key, which is asked for.
    fn blocked(&mut self, row: &Row, ticket: Ticket) -> Option<Destinations> {
        // What is over is sent nowhere, and overtakes nothing.
        if self.is_over(row) {
            return Some(Destinations::NONE);
        }
        match row.retrying {
            Retrying::No if self.waits_for_the_reading(row, ticket) => None,
            Retrying::No => Some(Destinations::NONE),
            Retrying::Yes => self.blocked_until_a_look(row),
        }
    }

    fn blocked_until_a_look(&mut self, row: &Row) -> Option<Destinations> {
        let Some(key) = self.group(row, Found::Due) else { return Some(Destinations::NONE) };
        let is_read = self.schedule.is_read_to(row.lane, row.id);
        let record = self.keys.find(&key).and_then(|key| self.keys.get(key));
        let may_overtake = |destination: &DestinationIndex| {
            let may_stand_before = || record.is_some_and(|record| record.may_stand_before(row.id, *destination));
            !is_read || (!self.was_sent(row, *destination) && may_stand_before())
        };
        let owed = self.owed(row);
        // Where it stands behind others in the table it is set aside.
        let closed = match &row.closed {
            Closed::Open => Destinations::NONE,
            Closed::For(names) => self.settings.named(names),
            Closed::ForMany(_) | Closed::ForAll => owed,
        };
        // What stands before it there may be in memory, and accepted since the table was told: not where something of its key
        // is on its way.
        let may_be_open = match record.filter(|record| is_read && record.members > 0) {
            Some(record) => closed.both(owed).without(self.paused().with(record.places(Queue::is_going))),
            None => Destinations::NONE,
        };
        let unsure: Destinations = owed.without(closed).iter().filter(may_overtake).collect();
        let unsure = unsure.with(may_be_open);
        if unsure.without(self.paused()).is_empty() {
            // Nobody looks for what waits for a destination that pauses.
            return Some(unsure);
        }
        let key = self.keys.place(key, row.lane);
        if let Some(record) = self.keys.get_mut(key) {
            record.look_at(unsure);
        }
        self.review(key);
        None
    }

    /// The key of a row that was scheduled, where there is more than one destination.
    fn due_again(&self, row: &Row) -> Option<Key> {
        let is_due_again = row.retrying == Retrying::Yes && self.outlets.len() > 1;
        if is_due_again { self.group(row, Found::Due) } else { None }
    }

    /// Whether a due row that came in can be sent nowhere now. An operator may have made it due in the place of the one that
    /// held the key, and what stands behind it may go where it does not.
    fn goes_nowhere(&self, row: RowId) -> bool {
        self.window.get(row).is_some_and(|entry| entry.waiting.without(self.paused()).is_empty())
    }

    /// A row in memory is due, which it was not when it came: an operator opened its key, and made due what stands first in
    /// the table.
    fn freed_here(&mut self, row: &Row) {
        let entry = self.window.get_mut(row.id).filter(|entry| !entry.scheduled && row.retrying == Retrying::Yes);
        let Some(entry) = entry else { return };
        entry.scheduled = true;
        if let Some(key) = self.group(row, Found::Due) {
            self.look_everywhere(key, row.lane);
        }
    }

    /// Of a key it is not known any more where its rows in the table wait.
    fn look_everywhere(&mut self, key: Key, lane: Lane) {
        let everywhere = self.everywhere();
        let key = self.keys.place(key, lane);
        if let Some(record) = self.keys.get_mut(key) {
            record.look_at(everywhere);
            record.look_again = true;
        }
        self.review(key);
    }

    /// Whether an attempt was charged to the row there.
    fn was_sent(&self, row: &Row, destination: DestinationIndex) -> bool {
        let settings = self.settings.destinations.get(destination.get());
        let charged = settings.and_then(|settings| row.progress.get(&settings.name)).copied().unwrap_or(0);
        // With one destination the table may know the attempts without telling which destination they were at.
        charged > 0 || (self.outlets.len() == 1 && row.attempts > 0)
    }
}
