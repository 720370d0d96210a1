//! The application: writers of every kind, with a ledger row in the transaction of each message.

mod acts;
mod mariadb;
mod postgres;
mod purse;
mod sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::{Message, TOKEN_HEADER, Timestamp, Tokens};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Fallible;
use crate::moment::Moment;
use crate::place::store::Store;
use crate::random::Random;
use crate::record::{Class, Key, Outcome, Recorder, Written, print};
use crate::settings::{BrokerKind, Settings};

use purse::Purse;

/// The topic of what can be delivered.
pub const TOPIC: &str = "torture.order";
/// The topic of what no broker takes.
pub const POISON: &str = "torture.poison";
/// The topic whose dead letters hold their key.
pub const HOLD: &str = "torture.hold";
/// The header that tells which of its key a message is.
pub const NUMBER: &str = "torture-n";
/// Above what the broker ever takes.
const POISON_BYTES: usize = 80 << 10;
/// Above what the broker takes, but for when it has been healed.
const SICK_BYTES: usize = 40 << 10;
/// How many messages of the keys that can be held are such.
const SICK: f64 = 0.07;
/// How many messages of the keys with delayed ones are such.
const LATER: f64 = 0.6;
/// Keys that one bulk transaction writes to, all of them always in the same order.
const BULK_KEYS: u16 = 16;
/// The most messages of each of them.
const MOST_OF_A_KEY: u16 = 120;
const UNSERIALISED_KEYS: u16 = 30;
const POISON_KEYS: u16 = 3;
const TIMED_KEYS: u16 = 10;
const HELD_KEYS: u16 = 4;

/// What a writer does in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Locks the key, writes, commits.
    Serialised,
    /// Draws its transaction id long before it locks the key.
    EarlyId,
    /// Writes, and takes the key's lock only then: the number of its row was drawn before it was its turn, so that the
    /// order of the locks is not promised to it.
    WriteFirst,
    /// Takes a message back to a savepoint, and writes another.
    Savepoint,
    /// Rolls back.
    RollBack,
    /// Goes away before COMMIT.
    Disconnect,
    /// Writes without any lock; sometimes it takes its time before COMMIT.
    Unserialised,
    /// Writes thousands of messages.
    Bulk,
    /// Holds a transaction open for seconds.
    Idle,
    /// Writes what no broker takes.
    Poison,
    /// Writes what is for later, or what stands before that.
    Delayed,
    /// Writes what has an end soon, sometimes before COMMIT.
    Expiring,
    /// Locks a key that is sometimes held, writes, commits.
    Held,
}

impl Act {
    fn draw(random: &mut Random) -> Self {
        match random.below(1000) {
            0..490 => Self::Serialised,
            490..515 => Self::Delayed,
            515..540 => Self::Expiring,
            540..560 => Self::Held,
            560..640 => Self::EarlyId,
            640..700 => Self::Savepoint,
            700..790 => Self::RollBack,
            790..820 => Self::Disconnect,
            820..920 => Self::Unserialised,
            920..980 => Self::WriteFirst,
            980..985 => Self::Bulk,
            985..988 => Self::Idle,
            988..992 => Self::Poison,
            _ => Self::Serialised,
        }
    }
}

/// A writer's own things.
#[derive(Debug)]
pub struct Hand {
    /// The record.
    pub recorder: Arc<Recorder>,
    /// Its dice.
    pub random: Random,
    keys: u16,
    /// A file takes everything: there is no poison for it.
    poison: Class,
    pause: Duration,
    stop: Arc<AtomicBool>,
    /// Tokens for the messages, where receivers ask for some.
    purse: Option<Purse>,
}

/// The writers at work.
#[derive(Debug)]
pub struct Writers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Writers {
    /// Starts them.
    pub fn start(settings: &Settings, recorder: &Arc<Recorder>, store: &Store, tokens: Option<&Tokens>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let each = f64::from(settings.rate.max(1)) / f64::from(u32::try_from(settings.writers.max(1)).unwrap_or(1));
        for number in 0..settings.writers.max(1) {
            let hand = Hand {
                recorder: Arc::clone(recorder),
                random: Random::new(settings.seed, 100 + number as u64),
                keys: settings.keys.max(1),
                poison: if settings.broker == BrokerKind::File { Class::Unserialised } else { Class::Poison },
                pause: Duration::from_secs_f64(1.0 / each),
                stop: Arc::clone(&stop),
                purse: tokens.cloned().map(Purse::new),
            };
            match store {
                Store::Postgres(place) => {
                    tasks.spawn(acts::write::<tokio_postgres::Client>(hand, place.writers_url()));
                }
                Store::Mariadb(place) => {
                    tasks.spawn(acts::write::<mysql_async::Conn>(hand, place.writers_url()));
                }
                Store::Sqlite(place) => {
                    let file = place.file();
                    tasks.spawn_blocking(move || sqlite::write(hand, &file));
                }
            }
        }
        Self { stop, tasks }
    }

    /// Lets every writer end its transaction.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Hand {
    /// Whether the load is over.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// How long to wait before the next transaction, so that the rate comes out, after one that took so long.
    pub fn pause(&mut self, took: Duration) -> Duration {
        let wanted = self.pause.mul_f64(0.5 + self.random.fraction());
        wanted.saturating_sub(took)
    }

    /// Makes the tokens ahead that the messages of an act may need.
    ///
    /// # Errors
    /// When their store does not answer.
    async fn provide(&mut self, act: Act) -> Fallible<()> {
        let wanted = if act == Act::Bulk { usize::from(BULK_KEYS * MOST_OF_A_KEY) } else { 2 };
        match &mut self.purse {
            Some(purse) => purse.fill(wanted).await,
            None => Ok(()),
        }
    }

    /// Tells which tokens no message will have.
    fn give_back(self) {
        let spare = self.purse.into_iter().flat_map(Purse::into_rest);
        self.recorder.open().spare_tokens.extend(spare);
    }

    /// A key of a class.
    pub fn key(&mut self, class: Class) -> Key {
        let number = match class {
            Class::Serialised => self.random.skewed(self.keys.into()),
            Class::Unserialised => self.random.below(UNSERIALISED_KEYS.into()),
            Class::Bulk => self.random.below(BULK_KEYS.into()),
            Class::Poison => self.random.below(POISON_KEYS.into()),
            Class::Delayed | Class::Expiring => self.random.below(TIMED_KEYS.into()),
            Class::Held => self.random.below(HELD_KEYS.into()),
        };
        Key { class, number: u16::try_from(number).unwrap_or(0) }
    }

    /// The key of a message that no broker takes.
    pub fn poisoned(&mut self) -> Key {
        self.key(self.poison)
    }

    /// A message, written down before anything is known about its end.
    pub fn message(&mut self, key: Key, n: u32, begun: Moment) -> (Uuid, Message) {
        let small = 20 + usize::try_from(self.random.below(400)).unwrap_or(0);
        let (topic, size) = match key.class {
            Class::Poison => (POISON, POISON_BYTES),
            Class::Held if self.random.chance(SICK) => (HOLD, SICK_BYTES),
            Class::Held => (HOLD, small),
            _ => (TOPIC, small),
        };
        let in_millis = |millis: u64| begun.after(Duration::from_millis(millis));
        let (not_before, not_after) = match key.class {
            Class::Delayed if self.random.chance(LATER) => (in_millis(500 + self.random.below(3500)), Moment::NEVER),
            Class::Expiring => (Moment(0), in_millis(50 + self.random.below(2000))),
            _ => (Moment(0), Moment::NEVER),
        };
        let mut payload = format!("{key} {n} ").into_bytes();
        while payload.len() < size {
            payload.extend_from_slice(&self.random.bits().to_le_bytes());
        }
        let (name, number) = (key.to_string(), n.to_string());
        let print = print(topic, &name, &number, &payload);
        let id = postrider::MessageId::fresh().0;
        let token = self.purse.as_mut().and_then(Purse::take);
        let written = Written {
            key,
            n: if key.is_serialised() { n } else { 0 },
            begun,
            acknowledged: Moment::NEVER,
            outcome: Outcome::Open,
            not_before,
            not_after,
            print,
            token,
            in_ledger: false,
            settled: None,
        };
        self.recorder.writes(id, written);
        let mut message = Message::new(topic, payload).id(id).key(name).header(NUMBER, number);
        let stamp = |moment| Timestamp(self.recorder.clock.stamp(moment));
        if not_before != Moment(0) {
            message = message.deliver_at(stamp(not_before));
        }
        if not_after != Moment::NEVER {
            message = message.expires_at(stamp(not_after));
        }
        if let Some(token) = token {
            message = message.header(TOKEN_HEADER, token.to_string());
        }
        (id, message)
    }
}

/// Every key that is ever written to, where there are so many of the serialised ones.
pub fn keys(serialised: u16) -> Vec<Key> {
    let counts = [
        (Class::Serialised, serialised.max(1)),
        (Class::Unserialised, UNSERIALISED_KEYS),
        (Class::Bulk, BULK_KEYS),
        (Class::Poison, POISON_KEYS),
        (Class::Delayed, TIMED_KEYS),
        (Class::Expiring, TIMED_KEYS),
        (Class::Held, HELD_KEYS),
    ];
    counts.into_iter().flat_map(|(class, count)| (0..count).map(move |number| Key { class, number })).collect()
}

/// The keys that a bulk transaction writes to, in the order in which it locks them.
pub fn bulk_keys() -> Vec<Key> {
    (0..BULK_KEYS).map(|number| Key { class: Class::Bulk, number }).collect()
}
