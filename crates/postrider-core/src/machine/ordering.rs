//! Which messages wait for each other.

use super::Machine;
use super::admit::Found;
use crate::message::Key;
use crate::row::{Row, RowState};

/// The order that is kept, at each destination for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Ordering {
    /// The messages of a key, in the order of their rows; messages without a key wait for nobody.
    #[default]
    Key,
    /// None: messages go beside each other whatever their keys, and one that fails is overtaken. Rows that an earlier
    /// configuration set aside behind their key's head still leave in order.
    None,
    /// All messages of the outbox, in the order of their rows, whatever their keys. The outbox has one lane.
    Everything,
}

impl Ordering {
    /// The word for it in `/status` and in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::None => "none",
            Self::Everything => "everything",
        }
    }
}

impl Machine {
    /// Which messages wait for each other.
    pub fn ordering(&self) -> Ordering {
        self.settings.ordering
    }

    /// The messages that a row keeps its order with; none when it waits for nobody.
    pub(super) fn group(&self, row: &Row, found: Found) -> Option<Key> {
        match self.settings.ordering {
            Ordering::Key => row.key().cloned(),
            Ordering::Everything => Some(Key::everything()),
            Ordering::None => {
                let left_over = found == Found::Look && row.state == RowState::SetAside;
                row.key().filter(|_| left_over).cloned()
            }
        }
    }

    /// Whether whatever is new would only be set aside: everything waits for one message. Then it is left where it is.
    pub(super) fn everything_waits(&self) -> bool {
        self.settings.ordering == Ordering::Everything
            && self.keys.find(&Key::everything()).and_then(|key| self.keys.get(key)).is_some_and(|record| {
                let waits = record.aside.with(record.failing);
                !self.keys.waits_for_rows() && self.settings.destinations_of_routes().without(waits).is_empty()
            })
    }
}
