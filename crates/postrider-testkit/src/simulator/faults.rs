//! What goes wrong, and when.

use super::broker::Mode;

/// How a store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreMode {
    /// Nothing arrives, and the caller is told so.
    Refuses,
    /// The caller is told that the outcome is unknown; a third of it arrives.
    Unknown,
    /// Nothing is answered; a third of it arrives.
    Hangs,
}

/// Something that goes wrong, or that somebody does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The process is killed, and started again after `down`.
    Crash { relay: usize, down: u64 },
    /// The process stands still while its clock and the world go on.
    Pause { relay: usize, lasts: u64 },
    /// The process is asked to stop, and started again `down` after it has ended.
    Stop { relay: usize, down: u64 },
    /// A destination misbehaves.
    Broker { place: usize, mode: Mode, lasts: u64 },
    /// The store is away for everybody.
    Store { mode: StoreMode, lasts: u64 },
    /// The store is away for one relay.
    Cut { relay: usize, mode: StoreMode, lasts: u64 },
    /// The database ends every connection and comes back as another life.
    Restart { down: u64 },
    /// The database's clock is set.
    Clock { step: i64 },
    /// Requests and answers are lost and late.
    Lossy { lasts: u64 },
    /// A destination takes twenty times as long.
    Slow { place: usize, lasts: u64 },
    /// An operator replays every dead letter.
    Replay,
    /// An operator replays or discards each message that holds its key.
    Open,
    /// An operator discards a dead letter.
    Discard,
    /// Retention removes every dead letter.
    Prune,
    /// A foreign hand deletes a row that nobody has sent yet.
    Delete(usize),
    /// Somebody says that there are new rows.
    Hint(usize),
}

impl Fault {
    /// Whether it can be made to happen to a relay at an awkward moment.
    pub(super) const fn has_moments(&self) -> bool {
        matches!(self, Self::Crash { .. } | Self::Pause { .. } | Self::Stop { .. } | Self::Cut { .. })
    }

    /// Whether it is a fault, and not just something that somebody does.
    pub(super) const fn is_fault(&self) -> bool {
        !matches!(self, Self::Replay | Self::Open | Self::Discard | Self::Prune | Self::Delete(_) | Self::Hint(_))
    }

    /// The same thing, happening to this relay.
    pub(super) fn to(mut self, to: usize) -> Self {
        match &mut self {
            Self::Crash { relay, .. }
            | Self::Pause { relay, .. }
            | Self::Stop { relay, .. }
            | Self::Cut { relay, .. } => {
                *relay = to;
            }
            _ => {}
        }
        self
    }
}

/// An awkward moment in the life of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// It decided to publish, and nothing left it yet.
    Publishing,
    /// A broker has its batch, and it does not know.
    Published,
    /// It decided to settle, and nothing left it yet.
    Settling,
    /// Its outcomes are recorded, and it does not know.
    Settled,
    /// Rows were read for it, and it does not have them.
    Read,
    /// Lanes were acquired for it, and it does not know.
    Acquired,
    /// Its lease was renewed, and it does not know.
    Renewed,
    /// Its surplus lanes were released, and it does not know.
    Released,
}

impl Moment {
    pub(super) const ALL: &'static [Self] = &[
        Self::Publishing,
        Self::Published,
        Self::Published,
        Self::Settling,
        Self::Settled,
        Self::Read,
        Self::Acquired,
        Self::Renewed,
        Self::Released,
    ];
}

/// When something goes wrong.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// At a time.
    At(u64),
    /// At the first such moment of any relay after a time.
    On(u64, Moment),
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trouble {
    pub(super) when: When,
    pub(super) fault: Fault,
}
