//! What happened: written by everybody, judged at the end.
//!
//! Memory is bounded by the load: about 150 bytes per message, and nothing per poll or retry.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::moment::{Clock, Moment};
use crate::plan::Kind;

/// What the writers of a key promise about its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// They lock the key's row first: `n` is the order of the commits.
    Serialised,
    /// They lock nothing.
    Unserialised,
    /// Thousands of messages in one transaction; serialised too.
    Bulk,
    /// No broker takes them: they must die, alone.
    Poison,
    /// They are for later, or stand among those; they lock nothing.
    Delayed,
    /// They are worth nothing soon: delivered until then, or dead; they lock nothing.
    Expiring,
    /// Serialised, and the broker takes some of them only when it has been healed: until then they hold their key.
    Held,
}

/// A key, such as `s17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its class.
    pub class: Class,
    /// Its number.
    pub number: u16,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.class {
            Class::Serialised => 's',
            Class::Unserialised => 'u',
            Class::Bulk => 'b',
            Class::Poison => 'p',
            Class::Delayed => 'd',
            Class::Expiring => 'e',
            Class::Held => 'h',
        };
        write!(f, "{letter}{}", self.number)
    }
}

impl Key {
    /// Whether `n` is the order of the commits.
    pub fn is_serialised(self) -> bool {
        matches!(self.class, Class::Serialised | Class::Bulk | Class::Held)
    }

    /// Whether its messages are to go at once, so that a wait says something about the relays.
    pub fn is_prompt(self) -> bool {
        !matches!(self.class, Class::Poison | Class::Delayed | Class::Expiring | Class::Held)
    }
}

/// What the writer knows about its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has not ended.
    Open,
    /// The database said so.
    Committed,
    /// It never asked for a commit, or was refused.
    RolledBack,
    /// It asked, and heard nothing.
    Unknown,
}

/// A message that was written.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its key.
    pub key: Key,
    /// Which of its key, from 1, in the order of the commits; 0 where nobody knows.
    pub n: u32,
    /// Before BEGIN.
    pub begun: Moment,
    /// When the commit was acknowledged; never, if it was not.
    pub acknowledged: Moment,
    /// How its transaction ended.
    pub outcome: Outcome,
    /// It is not to be delivered earlier.
    pub not_before: Moment,
    /// It is not to be sent later; never, where it has no end.
    pub not_after: Moment,
    /// What its bytes come to.
    pub print: u64,
    /// The token that it carries, where receivers ask for one.
    pub token: Option<Uuid>,
    /// Whether it is in the ledger: then it was committed, whatever its writer heard.
    pub in_ledger: bool,
    /// When the relay removed it from the outbox, by the database's clock.
    pub settled: Option<Settled>,
}

/// A row that left the outbox.
#[derive(Debug, Clone)]
pub struct Settled {
    /// When.
    pub at: Moment,
    /// The lane's term at that moment.
    pub term: i64,
    /// Whether the session that did it was that of the lane's owner.
    pub by_owner: bool,
}

/// A message that the broker has.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Its id.
    pub id: Uuid,
    /// When the broker took it.
    pub at: Moment,
    /// The lane that the relay says.
    pub lane: u16,
    /// The term that the relay says.
    pub term: i64,
    /// Which attempt the relay says it is.
    pub attempt: u32,
    /// What its bytes come to.
    pub print: u64,
}

/// A fault that happened.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Which.
    pub kind: Kind,
    /// From when.
    pub from: Moment,
    /// Until when; never, while it lasts.
    pub until: Moment,
    /// What it hit.
    pub target: String,
    /// Messages in the windows of the relays that it hit.
    pub in_flight: u64,
    /// What became of the lanes of a killed relay.
    pub takeover: Takeover,
}

/// What became of the lanes of a relay that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// It had none, or nobody was killed.
    Needless,
    /// They have no other owner yet.
    Awaited,
    /// All of them had another owner after this time.
    After(Duration),
}

/// A transaction of one ordinary message, as the application felt it.
#[derive(Debug, Clone, Copy)]
pub struct Felt {
    /// When it began.
    pub at: Moment,
    /// How long it took.
    pub took: Duration,
    /// Whether it went through.
    pub well: bool,
}

/// The outbox from outside.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When.
    pub at: Moment,
    /// Messages that wait, without the dead.
    pub backlog: u64,
    /// Memory of the largest relay.
    pub rss: u64,
}

/// The highest that was seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Highest {
    /// Bytes of memory of one relay.
    pub rss: u64,
    /// Open files of one relay.
    pub files: u64,
    /// Database connections of one relay.
    pub connections: u64,
    /// Messages that waited.
    pub backlog: u64,
    /// Bytes of the outbox.
    pub table: u64,
    /// Bytes of the database's log.
    pub log: u64,
}

/// Everything.
#[derive(Debug, Default)]
pub struct Record {
    /// What was written, by id.
    pub written: HashMap<Uuid, Written>,
    /// What the broker has, in its order.
    pub delivered: Vec<Delivered>,
    /// The faults, in the order of their beginnings.
    pub faults: Vec<Fault>,
    /// The application's transactions.
    pub felt: Vec<Felt>,
    /// The outbox over time.
    pub samples: Vec<Sample>,
    /// The highest of everything.
    pub highest: Highest,
    /// Transactions by their ends.
    pub ends: Ends,
    /// When a lane came to another owner, and the term it got.
    pub takeovers: u64,
    /// Settles that were refused, as each relay counts them; a relay that is started again has another label, and begins
    /// at zero.
    pub fenced: HashMap<String, u64>,
    /// How often a relay found out in another way that its lanes were gone.
    pub stood_down: u64,
    /// Held keys that were replayed.
    pub replayed: u64,
    /// Settles that the database undid to end a deadlock that was made on purpose.
    pub deadlocks: u64,
    /// What receivers made of the messages, where there were some.
    pub effects: Option<Effects>,
    /// Tokens that writers made for messages that they did not write any more.
    pub spare_tokens: Vec<Uuid>,
    /// Sentences about what must not happen, by the invariant that forbids it.
    pub wrong: Vec<(&'static str, String)>,
}

/// What receivers made of the messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// How many effects there are, by what an effect counts for: its message, or its entity.
    pub counts: BTreeMap<String, u64>,
    /// Messages that were refused because they may be repeats, in each stage.
    pub refused: u64,
    /// Tokens that are left.
    pub tokens: u64,
    /// Cursors that are kept.
    pub cursors: u64,
    /// Tokens that were revoked, because their messages never came.
    pub revoked: u64,
    /// How often a receiver was killed.
    pub kills: u64,
}

/// How many transactions ended how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    /// Acknowledged.
    pub committed: u64,
    /// Rolled back.
    pub rolled_back: u64,
    /// Not known.
    pub unknown: u64,
}

impl Record {
    /// Settles that were refused, by all relays.
    pub fn fenced(&self) -> u64 {
        self.fenced.values().sum()
    }
}

/// The record and its clock.
#[derive(Debug)]
pub struct Recorder {
    /// The clock of everything.
    pub clock: Clock,
    record: Mutex<Record>,
}

impl Recorder {
    /// Begins.
    pub fn start() -> Self {
        Self { clock: Clock::start(), record: Mutex::default() }
    }

    /// The record, for a moment.
    pub fn open(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Now.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The record, when nobody writes any more.
    pub fn close(&self) -> Record {
        std::mem::take(&mut *self.open())
    }

    /// Writes down that a message is about to be written.
    pub fn writes(&self, id: Uuid, written: Written) {
        self.open().written.insert(id, written);
    }

    /// Writes down how the transaction of these messages ended.
    pub fn ended(&self, ids: &[Uuid], outcome: Outcome) {
        let now = self.now();
        let mut record = self.open();
        match outcome {
            Outcome::Open => {}
            Outcome::Committed => record.ends.committed += 1,
            Outcome::RolledBack => record.ends.rolled_back += 1,
            Outcome::Unknown => record.ends.unknown += 1,
        }
        for id in ids {
            let Some(written) = record.written.get_mut(id) else { continue };
            // A message that was taken back to a savepoint has ended already.
            if written.outcome == Outcome::Open {
                written.outcome = outcome;
                if outcome == Outcome::Committed {
                    written.acknowledged = now;
                }
            }
        }
    }

    /// Something that must not happen.
    pub fn wrong(&self, invariant: &'static str, what: String) {
        eprintln!("{}: {invariant}: {what}", self.now());
        self.open().wrong.push((invariant, what));
    }

    /// Begins a fault; the answer ends it.
    pub fn fault(&self, kind: Kind, target: String, in_flight: u64) -> usize {
        let from = self.now();
        let mut record = self.open();
        record.faults.push(Fault { kind, from, until: Moment::NEVER, target, in_flight, takeover: Takeover::Needless });
        record.faults.len() - 1
    }

    /// Ends a fault.
    pub fn healed(&self, fault: usize) {
        let now = self.now();
        if let Some(fault) = self.open().faults.get_mut(fault) {
            fault.until = now;
        }
    }
}

/// What a message's bytes come to: equal exactly when topic, key, number and payload are.
pub fn print(topic: &str, key: &str, n: &str, payload: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    for part in [topic.as_bytes(), key.as_bytes(), n.as_bytes(), payload] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
