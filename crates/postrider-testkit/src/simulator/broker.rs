//! A broker that does what the seed says, and remembers what it accepted.

use postrider_core::{
    Accepted, BrokerProfile, Durability, Error, ErrorKind, Isolation, Key, OrderInBatch, Outgoing, Published,
};

use super::rng::Rng;

/// What the broker does with everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Up,
    /// Nothing arrives; this is the answer.
    Down(ErrorKind),
    /// Everything arrives, every answer is an unknown outcome.
    Mute,
    /// Nothing is answered, and half of it arrives.
    Silent,
}

impl Mode {
    /// Every way of being away.
    pub(super) const AWAY: &'static [Self] = &[
        Self::Down(ErrorKind::Unavailable),
        Self::Down(ErrorKind::Config),
        Self::Down(ErrorKind::Throttled),
        Self::Down(ErrorKind::Unknown),
        Self::Mute,
        Self::Silent,
    ];
}

/// What one message does to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Poison {
    /// It is answered with this kind.
    Fails(ErrorKind),
    /// It breaks the connection.
    Breaks,
    /// A relay dies of reading it whole.
    KillsReader,
    /// A relay dies of sending it.
    KillsPublisher,
}

impl Poison {
    /// Whether a relay dies of it.
    pub(super) const fn kills(self) -> bool {
        matches!(self, Self::KillsReader | Self::KillsPublisher)
    }
}

/// A message that it accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    pub(super) row: i64,
}

/// One destination's broker.
#[derive(Debug)]
pub(super) struct SimBroker {
    pub(super) profile: BrokerProfile,
    pub(super) mode: Mode,
    /// In so many of a thousand calls the connection breaks somewhere.
    pub(super) breaks: u64,
    /// In so many of a thousand calls the answer is short.
    pub(super) short: u64,
    /// How long a call takes, in microseconds, at most; at least a tenth of it.
    pub(super) latency: u64,
    pub(super) log: Vec<Delivery>,
}

/// What became of a call, beside the answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Became {
    pub(super) accepted: usize,
    /// Something was accepted without the caller being told.
    pub(super) untold: bool,
    pub(super) broke: bool,
    pub(super) short: bool,
}

impl SimBroker {
    pub(super) fn new(order: OrderInBatch, isolation: Isolation) -> Self {
        let profile = BrokerProfile {
            name: "simulated",
            order,
            isolation,
            durability: Durability::Durable,
            max_batch: 16,
            max_concurrent: 4,
        };
        Self { profile, mode: Mode::Up, breaks: 0, short: 0, latency: 2_000, log: Vec::new() }
    }

    /// The row numbers that a call carries are the ids of its messages.
    pub(super) fn publish(
        &mut self,
        rng: &mut Rng,
        poison: impl Fn(i64) -> Option<Poison>,
        batch: &[Outgoing],
    ) -> (Vec<Published>, Became) {
        let mut became = Became::default();
        if let Mode::Down(kind) = self.mode {
            return (batch.iter().map(|_| failed(kind)).collect(), became);
        }
        let breaks_at = rng.chance(self.breaks).then(|| rng.place(batch.len() + 1));
        let reply_lost = rng.chance(500);
        let shared = self.profile.isolation == Isolation::SharedConnection;
        let mut results: Vec<Published> = Vec::with_capacity(batch.len());
        let mut closed: Vec<&Key> = Vec::new();
        let mut broken = false;
        for (place, outgoing) in batch.iter().enumerate() {
            let (row, key) = (row_of(outgoing), outgoing.message.key.as_ref());
            let poison = poison(row);
            let breaks = breaks_at == Some(place) || poison == Some(Poison::Breaks);
            if broken {
                results.push(failed(ErrorKind::Unavailable));
                continue;
            }
            if key.is_some_and(|key| closed.contains(&key)) {
                results.push(Published::NotSent);
                continue;
            }
            let result = match poison {
                _ if breaks => {
                    if poison.is_none() && rng.chance(500) {
                        self.log.push(Delivery { row });
                        became.untold = true;
                    }
                    broken = shared;
                    became.broke = true;
                    failed(ErrorKind::Unknown)
                }
                Some(Poison::Fails(kind)) => failed(kind),
                Some(Poison::Breaks | Poison::KillsReader | Poison::KillsPublisher) | None => {
                    self.log.push(Delivery { row });
                    became.accepted += 1;
                    Published::Accepted(Accepted::FRESH)
                }
            };
            if let (Published::Failed(_), Some(key)) = (&result, key) {
                closed.push(key);
            }
            results.push(result);
        }
        if self.mode == Mode::Mute || (broken && shared && reply_lost) {
            became.untold |= became.accepted > 0;
            return (batch.iter().map(|_| failed(ErrorKind::Unknown)).collect(), became);
        }
        if rng.chance(self.short) {
            results.pop();
            became.short = true;
            became.untold |= became.accepted > 0;
        }
        (results, became)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match self.mode {
            Mode::Down(kind) if kind != ErrorKind::Rejected => Err(Error::new(kind, "simulated")),
            _ => Ok(()),
        }
    }
}

/// The row of a message: its id is the row's number.
pub(super) fn row_of(outgoing: &Outgoing) -> i64 {
    i64::try_from(outgoing.message.id.0.as_u128()).unwrap_or(0)
}

pub(super) fn failed(kind: ErrorKind) -> Published {
    Published::Failed(Error::new(kind, "simulated"))
}
