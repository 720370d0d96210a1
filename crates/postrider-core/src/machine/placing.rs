//! A message that has no place at a destination: its template names what the message lacks, or may not decide.
//!
//! It is the message's own fault, and said before anything is sent: charged like a message that the broker rejects, and
//! no evidence about the destination, so that a thousand of them pause nothing.

use super::Machine;
use super::destinations::DestinationIndex;
use crate::error::{Error, ErrorKind};
use crate::row::RowId;

impl Machine {
    /// Why a message has no place there, if it has none.
    pub(super) fn misplaced(&self, row: RowId, destination: DestinationIndex) -> Option<Error> {
        let settings = self.settings.destinations.get(destination.get())?;
        if settings.template.is_certain() {
            return None;
        }
        let message = self.window.get(row)?.message.as_ref()?;
        let why = settings.template.render(message).err()?;
        let text = format!("the route {:?} has no place for this message: {why}", settings.name.as_str());
        Some(Error::new(ErrorKind::Rejected, text))
    }

    /// Charges a message whose turn it is and that has no place there; whether it has none.
    pub(super) fn has_no_place(&mut self, row: RowId, destination: DestinationIndex) -> bool {
        let why = self.misplaced(row, destination);
        if let Some(why) = &why {
            self.charge_misplaced(row, destination, why);
        }
        why.is_some()
    }

    /// Charges a message whose turn it is for having no place there.
    pub(super) fn charge_misplaced(&mut self, row: RowId, destination: DestinationIndex, why: &Error) {
        let key = self.window.get(row).and_then(|entry| entry.key);
        self.mark_flying(row, destination);
        self.note_failure(row, destination, why);
        self.charge(row, destination, why);
        self.resolve(row);
        if let Some(key) = key {
            self.line_up(key, destination);
        }
    }
}
