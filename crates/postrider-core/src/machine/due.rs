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
use crate::row::{Closed, Retrying, Row};

impl Machine {
    /// Whether a row that was found by this due read waits: until more is read, or for a look at its key, which is asked for.
    pub(super) fn waits(&mut self, row: &Row, ticket: Ticket) -> bool {
        // What is over is sent nowhere, and overtakes nothing.
        if self.is_over(row) {
            return false;
        }
        match row.retrying {
            Retrying::No => self.waits_for_the_reading(row, ticket),
            Retrying::Yes => self.waits_for_a_look(row),
        }
    }

    fn waits_for_a_look(&mut self, row: &Row) -> bool {
        let Some(key) = self.group(row, Found::Due) else { return false };
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
        let unsure: Destinations = owed.without(closed).iter().filter(may_overtake).collect();
        if unsure.is_empty() {
            return false;
        }
        let key = self.keys.place(key, row.lane);
        if let Some(record) = self.keys.get_mut(key) {
            record.look_at(unsure);
        }
        self.review(key);
        true
    }

    /// Whether an attempt was charged to the row there.
    fn was_sent(&self, row: &Row, destination: DestinationIndex) -> bool {
        let settings = self.settings.destinations.get(destination.get());
        let charged = settings.and_then(|settings| row.progress.get(&settings.name)).copied().unwrap_or(0);
        // With one destination the table may know the attempts without telling which destination they were at.
        charged > 0 || (self.outlets.len() == 1 && row.attempts > 0)
    }
}
