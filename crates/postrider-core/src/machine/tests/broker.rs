//! A broker that does what the script says, and remembers what it accepted.

use std::collections::BTreeMap;

use super::rng::Rng;
use crate::*;

/// What the broker does with everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Up,
    /// Nothing arrives; this is the answer.
    Down(ErrorKind),
    /// Everything arrives, every answer is lost.
    Mute,
}

/// What one message does to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// It is answered with this kind.
    Fails(ErrorKind),
    /// No connection stands whenever it is handed over.
    NeverSent,
    /// It breaks the connection.
    Breaks,
    /// The relay dies when it is handed over; what stood before it in its call has arrived.
    Kills,
}

/// A message that was accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub row: i64,
    pub id: MessageId,
    pub attempt: u32,
}

/// One destination's broker.
#[derive(Debug)]
pub struct Broker {
    pub profile: BrokerProfile,
    pub mode: Mode,
    pub poison: BTreeMap<MessageId, Poison>,
    /// In so many of a thousand calls the connection breaks somewhere.
    pub breaks: u64,
    /// In so many of a thousand calls the answer is short.
    pub short: u64,
    pub killed: bool,
    pub log: Vec<Accepted>,
    pub calls: Vec<Vec<MessageId>>,
    /// How long a call takes, in microseconds, at most; at least a tenth of it.
    pub latency: u64,
    /// How often each message was in a call that failed by chance.
    unlucky: BTreeMap<MessageId, u32>,
}

/// A message that chance has hit so often is spared: more would be its attempts, although nothing is wrong with it. One
/// more may be charged when an outage begins just after another message was accepted.
const UNLUCKY: u32 = 2;

impl Broker {
    pub fn new(order: OrderInBatch, isolation: Isolation) -> Self {
        let profile = BrokerProfile {
            name: "scripted",
            order,
            isolation,
            durability: Durability::Durable,
            max_batch: 16,
            max_concurrent: 4,
        };
        let (poison, log, calls) = (BTreeMap::new(), Vec::new(), Vec::new());
        let unlucky = BTreeMap::new();
        Self {
            killed: false,
            profile,
            mode: Mode::Up,
            poison,
            breaks: 0,
            short: 0,
            log,
            calls,
            latency: 2_000,
            unlucky,
        }
    }

    pub fn publish(&mut self, rng: &mut Rng, ids: &BTreeMap<MessageId, i64>, batch: &[Outgoing]) -> Vec<Published> {
        self.calls.push(batch.iter().map(|outgoing| outgoing.message.id).collect());
        if let Mode::Down(kind) = self.mode {
            return batch.iter().map(|_| failed(kind)).collect();
        }
        let spared = |message: &Outgoing| self.unlucky.get(&message.message.id).is_some_and(|times| *times >= UNLUCKY);
        let spared = batch.iter().any(spared);
        let breaks_at = rng.chance(self.breaks).then(|| rng.below(batch.len() as u64 + 1) as usize).filter(|_| !spared);
        let reply_lost = rng.chance(500);
        let mut results: Vec<Published> = Vec::new();
        let mut closed: Vec<Key> = Vec::new();
        let mut broken = false;
        let shared = self.profile.isolation == Isolation::SharedConnection;
        for (place, outgoing) in batch.iter().enumerate() {
            let key = outgoing.message.key.clone();
            let poison = self.poison.get(&outgoing.message.id).copied();
            let breaks = breaks_at == Some(place) || poison == Some(Poison::Breaks);
            if broken {
                results.push(failed(ErrorKind::Unavailable));
                continue;
            }
            if key.as_ref().is_some_and(|key| closed.contains(key)) {
                results.push(Published::NotSent);
                continue;
            }
            let result = match poison {
                _ if breaks => {
                    if poison.is_none() && rng.chance(500) {
                        self.accept(ids, outgoing);
                    }
                    broken = shared;
                    failed(ErrorKind::Unknown)
                }
                Some(Poison::Fails(kind)) => failed(kind),
                Some(Poison::NeverSent) => {
                    Published::Failed(Error::new(ErrorKind::Unavailable, "not connected").unsent())
                }
                Some(Poison::Kills) => {
                    self.killed = true;
                    return results;
                }
                _ => {
                    self.accept(ids, outgoing);
                    Published::Accepted(crate::Accepted::FRESH)
                }
            };
            if let (Published::Failed(_), Some(key)) = (&result, key) {
                closed.push(key);
            }
            results.push(result);
        }
        if self.mode == Mode::Mute || (broken && shared && reply_lost) {
            return batch.iter().map(|_| failed(ErrorKind::Unknown)).collect();
        }
        let short = rng.chance(self.short) && !spared;
        if short {
            results.pop();
        }
        if short || breaks_at.is_some() {
            batch.iter().for_each(|outgoing| *self.unlucky.entry(outgoing.message.id).or_insert(0) += 1);
        }
        results
    }

    fn accept(&mut self, ids: &BTreeMap<MessageId, i64>, outgoing: &Outgoing) {
        let id = outgoing.message.id;
        self.log.push(Accepted { row: ids[&id], id, attempt: outgoing.attempt.0 });
    }

    /// The rows accepted, in order, repeats included.
    pub fn rows(&self) -> Vec<i64> {
        self.log.iter().map(|accepted| accepted.row).collect()
    }
}

fn failed(kind: ErrorKind) -> Published {
    Published::Failed(Error::new(kind, "scripted"))
}
