//! How large the model is, and what may go wrong in it.

use std::time::Duration;

use postrider_core::{Attempts, Lane, Retention, RetryPolicy, Tick};

/// Relays.
pub const RELAYS: usize = 3;
/// Lanes.
pub const LANES: usize = 2;
/// The most messages.
pub const MESSAGES: usize = 4;

/// The length of a lease, in ticks of the database's clock.
pub(super) const TTL: u8 = 2;
/// The keys of the messages, and the lane of each key: two messages of one key, one of another in the other lane, and
/// one of a third key in the first lane.
pub(super) const KEYS: [(char, Lane); MESSAGES] = [('a', Lane(0)), ('a', Lane(0)), ('b', Lane(1)), ('c', Lane(0))];
/// The message whose transaction is open at the start, and may be rolled back.
pub(super) const OPEN: usize = 1;
/// The message that kills every relay which fetches it, where there is one.
pub(super) const POISON: usize = 0;

/// How large the model is, and what may go wrong in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Messages, up to [`MESSAGES`].
    pub messages: usize,
    /// Ticks of the database's clock; a lease lasts two.
    pub ticks: u8,
    /// What may go wrong.
    pub troubles: Troubles,
    /// Whether there is a message that kills its relay.
    pub poison: Poison,
    /// How the writer of the second message stands at the start.
    pub writer: Writer,
}

/// How the writer of the second message stands at the start. The others have committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Writer {
    /// Its transaction is committed.
    Committed,
    /// Its transaction is open; it commits or is rolled back at any time.
    Open,
}

/// How often what may happen, in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Troubles {
    /// Relays that die.
    pub crashes: u8,
    /// Relays that are stopped, or whose machine is suspended.
    pub pauses: u8,
    /// Requests or answers that are lost, or renewals that are answered late.
    pub losses: u8,
    /// Messages that the broker refuses.
    pub refusals: u8,
    /// Lanes that are handed back in good order: no fault, but a change of owner.
    pub handbacks: u8,
}

/// Whether there is a message that kills every relay which fetches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Poison {
    /// There is none, and a relay that died stays dead.
    Absent,
    /// The first message is one, and relays that died are started again.
    First,
}

impl Bounds {
    /// No fault; a writer that commits or rolls back, refusals, lanes that move.
    pub const QUIET: Self = Self {
        messages: 3,
        ticks: 4,
        troubles: Troubles { crashes: 0, pauses: 0, losses: 0, refusals: 2, handbacks: 2 },
        poison: Poison::Absent,
        writer: Writer::Open,
    };

    /// A relay that pauses, a relay that dies, and a refusal, in one history.
    pub const PAUSE_AND_CRASH: Self = Self {
        ticks: 3,
        troubles: Troubles { crashes: 1, pauses: 1, losses: 0, refusals: 1, handbacks: 0 },
        writer: Writer::Committed,
        ..Self::QUIET
    };

    /// A request or an answer that is lost or late, and a refusal, while a lane moves.
    pub const LOSS: Self = Self {
        ticks: 3,
        troubles: Troubles { crashes: 0, pauses: 0, losses: 1, refusals: 1, handbacks: 1 },
        writer: Writer::Committed,
        ..Self::QUIET
    };

    /// A message that kills its relay, a crash that it has nothing to do with, and a lane that moves.
    pub const DEADLY: Self = Self {
        ticks: 8,
        troubles: Troubles { crashes: 1, pauses: 0, losses: 0, refusals: 0, handbacks: 1 },
        poison: Poison::First,
        writer: Writer::Committed,
        ..Self::QUIET
    };

    /// What every run of the tests checks, each with its name.
    pub const USUAL: [(&'static str, Self); 4] = [
        ("no fault", Self::QUIET),
        ("a pause and a crash", Self::PAUSE_AND_CRASH),
        ("a loss", Self::LOSS),
        ("a deadly message", Self::DEADLY),
    ];
}

/// The policy of a message: the third is given up at its first refusal, the others are tried twice.
pub(super) fn policy(message: usize) -> RetryPolicy {
    let attempts = Attempts::AtMost(if message == 2 { 1 } else { 2 });
    RetryPolicy { attempts, ..RetryPolicy::default() }
}

/// What retention is told.
pub(super) const RETENTION: Retention = Retention { delivered: Some(ticks(1)), dead: None };

/// Ticks as time: a second each.
pub(super) const fn ticks(ticks: u8) -> Duration {
    Duration::from_secs(ticks as u64)
}

/// A moment on a relay's own clock.
pub(super) const fn moment(local: u8) -> Tick {
    Tick::after_start(ticks(local))
}

/// A lane by its place.
pub(super) const fn lane(place: usize) -> Lane {
    Lane(place as u16)
}

/// The lane of a message, as an index.
pub(super) fn lane_of(message: usize) -> usize {
    usize::from(KEYS[message].1.0)
}

/// The messages that must go before this one.
pub(super) fn before(message: usize) -> impl Iterator<Item = usize> {
    (0..message).filter(move |earlier| KEYS[*earlier].0 == KEYS[message].0)
}
