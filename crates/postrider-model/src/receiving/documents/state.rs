//! Everything that is remembered between two steps.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use postrider_core::receiving::{Document, Effect, Kinds, Leftover, SweepEffect};

use super::Bounds;

/// Small numbers for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Small;

/// A message for a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Which receiver, in the order in which messages go through them.
    pub stage: u8,
    /// Which message; what it sends has its number at the next stage.
    pub message: u8,
}

/// The token of a message, and which of those that were made for it. The first ones were there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    pub number: u8,
    pub message: u8,
}

impl Kinds for Small {
    type Id = Id;
    /// How often each message had its effect.
    type State = [u8; 2];
    /// The message that is sent on.
    type Outputs = u8;
    /// A number that rises with every write, or a hash of the content where that rule is broken.
    type Version = u64;
    type Token = Token;
    /// Which run of a handler it was.
    type Attempt = u8;
}

/// Whether a token may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Validity {
    Pending,
    Active,
    Gone,
}

/// A message as a broker holds it. It stays there: brokers deliver again what was acknowledged long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    pub id: Id,
    pub token: Option<Token>,
    /// The run of the handler that it comes from; none for what came from outside.
    pub attempt: Option<u8>,
}

/// A worker in the middle of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Worker {
    pub stage: u8,
    /// Which run of the handler is its own; none before it has one.
    pub run: Option<u8>,
    /// The version of the document as it knows it.
    pub version: Option<u64>,
    /// It has done more than read.
    pub has_acted: bool,
    pub effect: Effect<Small>,
}

/// The document of one entity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stored {
    pub document: Option<Document<Small>>,
    pub version: u64,
}

impl Stored {
    /// Its version; none where there is no document.
    pub fn current(&self) -> Option<u64> {
        self.document.is_some().then_some(self.version)
    }
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) entities: Vec<Stored>,
    pub(super) known: BTreeSet<Id>,
    pub(super) tokens: BTreeMap<Token, Validity>,
    pub(super) broker: BTreeSet<Held>,
    pub(super) acknowledged: BTreeSet<Id>,
    pub(super) workers: Vec<Option<Worker>>,
    /// Requests whose senders do not wait for the answer any more.
    pub(super) late: Vec<Worker>,
    /// What outputs are stored beside the documents under, and the run of the handler that they are from.
    pub(super) staged: BTreeMap<u8, u8>,
    /// The look at something left over, in its middle.
    pub(super) sweep: Option<SweepEffect<Small>>,
    /// Which runs of the handler were committed, for which message.
    pub(super) applied: BTreeMap<Id, Vec<u8>>,
    pub(super) deliveries: u8,
    pub(super) losses: u8,
    pub(super) sweeps: u8,
    /// A token that was gone is there again.
    pub(super) returned: bool,
    pub(super) seen: Seen,
}

/// What happened on the way, so that what never happens is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    pub resumed: bool,
    pub conflict: bool,
    pub repeat: bool,
    pub swept: bool,
}

impl Hash for Seen {
    /// Two ways to one state are one: what was seen on either says nothing of what can follow.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Outputs that were moved are stored under this and the number of their message: only where that is tried.
pub const MOVED: u8 = 100;

/// The number of the tokens of what comes from outside.
pub const OUTSIDE: u8 = u8::MAX;

impl State {
    pub(super) fn new(bounds: Bounds) -> Self {
        let first = (0..bounds.messages).map(|message| {
            let token = Token { number: OUTSIDE, message };
            Held { id: Id { stage: 0, message }, token: Some(token), attempt: None }
        });
        let broker: BTreeSet<Held> = first.collect();
        Self {
            entities: vec![Stored { document: None, version: 0 }; usize::from(bounds.stages)],
            known: BTreeSet::new(),
            tokens: broker.iter().filter_map(|held| Some((held.token?, Validity::Active))).collect(),
            broker,
            acknowledged: BTreeSet::new(),
            workers: vec![None; bounds.workers],
            late: Vec::new(),
            staged: BTreeMap::new(),
            sweep: None,
            applied: BTreeMap::new(),
            deliveries: 0,
            losses: 0,
            sweeps: 0,
            returned: false,
            seen: Seen::default(),
        }
    }

    /// Whether nothing is under way, and every message that exists is acknowledged.
    pub(super) fn is_over(&self) -> bool {
        let to_handle = self.broker.iter().filter(|held| usize::from(held.id.stage) < self.entities.len());
        self.is_idle() && to_handle.map(|held| held.id).all(|id| self.acknowledged.contains(&id))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.late.is_empty() && self.sweep.is_none() && self.workers.iter().all(Option::is_none)
    }

    /// What was made beside the documents for an attempt that may never have committed.
    pub(super) fn leftovers(&self) -> impl Iterator<Item = Leftover<Small>> {
        let pending = self.tokens.iter().filter(|(_, validity)| **validity == Validity::Pending);
        let tokens = pending.map(|(token, _)| Leftover::Token(*token));
        let staged = self.staged.keys().filter(|under| **under < MOVED);
        tokens.chain(staged.map(|attempt| Leftover::Staged(*attempt)))
    }

    /// The version of the document of a receiver; none where there is no document.
    pub(super) fn version(&self, stage: u8) -> Option<u64> {
        self.entities[usize::from(stage)].current()
    }

    /// A number for a run of a handler: the lowest that nothing has any more, so that what left no trace leaves no gap.
    pub(super) fn new_run(&self) -> u8 {
        let workers = self.workers.iter().flatten().chain(&self.late);
        let used: BTreeSet<u8> = (self.applied.values().flatten().copied())
            .chain(self.staged.iter().flat_map(|(under, made_by)| [*under, *made_by]))
            .chain(self.broker.iter().filter_map(|held| held.attempt))
            .chain(workers.filter_map(|worker| worker.run))
            .collect();
        (0..).find(|run| !used.contains(run)).unwrap_or_default()
    }

    /// The token that is made next for a message.
    pub(super) fn new_token(&self, message: u8) -> Token {
        let made = self.tokens.keys().filter(|token| token.message == message && token.number != OUTSIDE);
        Token { number: made.zip(1..).last().map_or(0, |(_, count)| count), message }
    }

    pub(super) fn validity(&self, token: Token) -> Validity {
        self.tokens.get(&token).copied().unwrap_or(Validity::Gone)
    }
}
