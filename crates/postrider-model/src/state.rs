//! What the model remembers: the database, the relays, and what the broker has received.
//!
//! Everything is small and has one spelling, because every state is kept.

use postrider_core::{HeldLane, LaneRecord, RelayId, Tick};
use uuid::Uuid;

use super::bounds::{LANES, MESSAGES, RELAYS, Troubles};

/// A set of messages, by their bit.
pub(super) type Set = u8;

/// The bit of a message.
pub(super) const fn bit(message: usize) -> Set {
    1 << message
}

/// The messages of a set, in order.
pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..MESSAGES).filter(move |message| set & bit(*message) != 0)
}

/// One moment of one history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The database's clock.
    pub(super) now: u8,
    pub(super) rows: [Row; MESSAGES],
    pub(super) lanes: [LaneRecord; LANES],
    /// When each relay's membership ends; none for a relay that is no member.
    pub(super) expires: [Option<u8>; RELAYS],
    pub(super) relays: [Relay; RELAYS],
    /// How often each message was received by the broker, up to twice.
    pub(super) received: [u8; MESSAGES],
    /// How often the broker refused each message.
    pub(super) refused: [u8; MESSAGES],
    /// A settle whose connection is gone, and which the database may still carry out.
    pub(super) stray: Option<Settle>,
    /// How often a message killed its relay.
    pub(super) kills: u8,
    /// What may still go wrong.
    pub(super) left: Troubles,
    pub(super) wrong: Wrong,
}

/// What must never happen, remembered. All stay false in a model without a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Wrong {
    /// A message was first received before its predecessor was received or given up.
    pub(super) overtaken: bool,
    /// A settle changed a row of a lane that was somebody else's, or ours under another term.
    pub(super) meddled: bool,
    /// A relay whose clock is right published on a lease that it had lost.
    pub(super) distrusted: bool,
}

/// A message in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) attempts: u8,
    pub(super) suspicion: u8,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Its transaction is open.
    Open,
    /// Its transaction was rolled back.
    RolledBack,
    /// To be delivered.
    Pending,
    /// A dead letter, because the broker refused it.
    Dead,
    /// A dead letter, because relays died of it.
    RelayDied,
    /// Delivered, and kept in the history until the next tick.
    History,
    /// Removed by retention or by nobody knows whom.
    Gone,
}

/// A relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Relay {
    pub(super) life: Life,
    /// Its membership, counted: each has a new id.
    pub(super) generation: u8,
    /// Whether it takes itself for a member.
    pub(super) joined: bool,
    /// How much its clock lost while its machine was suspended.
    pub(super) behind: u8,
    /// Until when it trusts its lease, by its own clock; zero when that is over.
    pub(super) trusted_until: Tick,
    /// When the renewal was sent, by its own clock, whose answer is late.
    pub(super) late: Option<u8>,
    pub(super) held: [Option<HeldLane>; LANES],
    /// What it knows of the messages it has read.
    pub(super) window: [Step; MESSAGES],
    pub(super) flight: Option<Flight>,
    pub(super) settle: Option<Settle>,
}

/// Whether a relay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Life {
    Up,
    /// It does nothing, and its clock goes on (a stopped process).
    Stopped,
    /// It does nothing, and its clock stands still (a suspended machine).
    Suspended,
    Down,
}

/// How far a message has come in a relay's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// It was not read, or is not ours any more.
    Unread,
    /// It may be sent.
    Waiting,
    /// It is sent and not answered.
    Flying,
    /// This is to be recorded.
    Ended(Ending),
}

/// What became of a message: the outcomes of the core, without their texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    Delivered,
    /// To be tried again, with so many charged attempts.
    Retry(u8),
    /// Given up, with so many charged attempts.
    Dead(u8),
}

/// A publish call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    /// What is sent.
    pub(super) sent: Set,
    /// Of these, what has stayed in the window since.
    pub(super) stays: Set,
}

/// A settle on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Settle {
    pub(super) me: RelayId,
    /// The lanes and terms under which it was sent.
    pub(super) leases: [Option<HeldLane>; LANES],
    pub(super) endings: [Option<Ending>; MESSAGES],
    /// Of these, what has stayed in the window since.
    pub(super) stays: Set,
}

impl Relay {
    pub(super) const NEW: Self = Self {
        life: Life::Up,
        generation: 0,
        joined: true,
        behind: 0,
        trusted_until: Tick::ZERO,
        late: None,
        held: [None; LANES],
        window: [Step::Unread; MESSAGES],
        flight: None,
        settle: None,
    };

    /// The id of its membership.
    pub(super) fn id(&self, place: usize) -> RelayId {
        RelayId(Uuid::from_u64_pair(place as u64, u64::from(self.generation)))
    }

    pub(super) fn is_up(&self) -> bool {
        self.life == Life::Up
    }
}

impl Row {
    pub(super) const fn new(place: Place) -> Self {
        Self { place, attempts: 0, suspicion: 0 }
    }

    /// Whether it is to be delivered.
    pub(super) fn is_pending(&self) -> bool {
        self.place == Place::Pending
    }

    /// Whether its transaction committed.
    pub(super) fn is_committed(&self) -> bool {
        !matches!(self.place, Place::Open | Place::RolledBack)
    }

    /// Whether nothing more will be done about it.
    pub(super) fn is_over(&self) -> bool {
        !matches!(self.place, Place::Open | Place::Pending)
    }

    /// Whether it was given up.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.place, Place::Dead | Place::RelayDied)
    }
}
