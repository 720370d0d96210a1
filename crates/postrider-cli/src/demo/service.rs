//! The order service: it writes each order and its message in one transaction, and takes some of them back.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider::{Message, MessageId, Outbox};
use postrider_core::Jitter;
use rusqlite::{Connection, TransactionBehavior};

use super::numbers::below;
use super::record::Order;
use crate::failure::{Failure, Outcome};

/// The application's own tables.
const TABLES: &str = "\
create table if not exists customers (name text primary key, orders integer not null default 0);
create table if not exists orders (
  id integer primary key, message_id text not null, customer text not null, number integer not null,
  quantity integer not null
);";
/// Comes first in the transaction: whoever holds the customer's row decides the order of the customer's messages.
const NEXT_NUMBER: &str = "\
insert into customers (name, orders) values (?1, 1)
on conflict (name) do update set orders = orders + 1 returning orders";
const WRITE: &str = "insert into orders (message_id, customer, number, quantity) values (?1, ?2, ?3, ?4)";
const READ: &str = "select message_id, customer, number, quantity from orders order by id";
const IN_OUTBOX: &str = "select message_id from postrider_outbox";

/// How many customers order.
const CUSTOMERS: u32 = 40;
/// The chance of a transaction that is rolled back.
const ROLLED_BACK: f64 = 0.1;

/// What the picture shows of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    /// Transactions committed.
    pub(super) committed: u64,
    /// Transactions rolled back.
    pub(super) rolled_back: u64,
    /// The longest transaction.
    pub(super) slowest: Duration,
}

/// The order service.
#[derive(Debug, Clone)]
pub(super) struct Service {
    path: PathBuf,
    outbox: Outbox,
    began: Instant,
    written: Arc<Mutex<Written>>,
    rolled_back: Arc<Mutex<HashSet<MessageId>>>,
    poison: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
}

/// How the service behaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Transactions in a second.
    pub(super) rate: u32,
    /// What its choices are drawn from.
    pub(super) seed: u64,
}

impl Service {
    /// Creates the tables: its own, and the outbox.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub(super) fn open(path: &Path, began: Instant) -> Outcome<Self> {
        let database = connect(path)?;
        let outbox = Outbox::new();
        outbox.migrate(&database).map_err(|error| Failure::store(&error))?;
        database.execute_batch(TABLES).map_err(unusable)?;
        Ok(Self {
            path: path.to_owned(),
            outbox,
            began,
            written: Arc::default(),
            rolled_back: Arc::default(),
            poison: Arc::default(),
            stopped: Arc::default(),
        })
    }

    /// Writes orders until [`stop`](Self::stop), and says so after each commit. Blocks.
    ///
    /// # Errors
    /// When the database refuses a transaction: the relay must never make the application fail.
    pub(super) fn write_orders(&self, pace: Pace, committed: impl Fn()) -> Outcome<()> {
        let mut database = connect(&self.path)?;
        let mut chance = Jitter::seeded(pace.seed);
        let start = Instant::now();
        let between = Duration::from_secs(1) / pace.rate.max(1);
        let mut due = Duration::ZERO;
        while !self.stopped.load(Ordering::Relaxed) {
            if let Some(early) = due.checked_sub(start.elapsed()) {
                // Short naps, so that a slow pace ends as promptly as a fast one.
                std::thread::sleep(early.min(Duration::from_millis(50)));
                continue;
            }
            // After a stall the pace goes on from here; the lost time is not made up for in a burst.
            due = (due + between).max(start.elapsed().saturating_sub(Duration::from_millis(200)));
            if self.place(&mut database, &mut chance)? {
                committed();
            }
        }
        Ok(())
    }

    /// One transaction; whether it was committed.
    fn place(&self, database: &mut Connection, chance: &mut Jitter) -> Outcome<bool> {
        let customer = format!("customer-{:02}", below(CUSTOMERS, chance));
        let poison = self.poison.swap(false, Ordering::Relaxed);
        let quantity = if poison { 0 } else { 1 + below(9, chance) };
        let regret = chance.fraction() < ROLLED_BACK && !poison;
        let started = Instant::now();
        let tx = database.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unusable)?;
        let number: i64 = tx
            .prepare_cached(NEXT_NUMBER)
            .and_then(|mut next| next.query_row([&customer], |row| row.get(0)))
            .map_err(unusable)?;
        let placed_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let order = serde_json::json!({
            "customer": customer, "number": number, "quantity": quantity, "placed_us": placed_us,
        });
        let message = Message::json("orders.placed", &order).map_err(refused)?.key(&customer);
        let id = message.id;
        tx.prepare_cached(WRITE)
            .and_then(|mut write| write.execute((id.to_string(), &customer, number, quantity)))
            .map_err(unusable)?;
        self.outbox.enqueue(&tx, message).map_err(refused)?;
        if regret { tx.rollback() } else { tx.commit() }.map_err(unusable)?;
        let mut written = locked(&self.written);
        written.slowest = written.slowest.max(started.elapsed());
        if regret {
            written.rolled_back += 1;
            locked(&self.rolled_back).insert(id);
        } else {
            written.committed += 1;
        }
        Ok(!regret)
    }

    /// The next order is one that the consumer can never take.
    pub(super) fn place_a_bad_order(&self) {
        self.poison.store(true, Ordering::Relaxed);
    }

    /// No more orders.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// What it has written so far.
    pub(super) fn written(&self) -> Written {
        *locked(&self.written)
    }

    /// The messages of the transactions that were rolled back.
    pub(super) fn rolled_back(&self) -> HashSet<MessageId> {
        locked(&self.rolled_back).clone()
    }

    /// The orders, as they stand in the application's table.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn orders(&self) -> Outcome<Vec<Order>> {
        let database = connect(&self.path)?;
        let mut read = database.prepare(READ).map_err(unusable)?;
        let rows = read
            .query_map((), |row| {
                let id: String = row.get(0)?;
                Ok((
                    id,
                    Order { id: MessageId::fresh(), customer: row.get(1)?, number: row.get(2)?, quantity: row.get(3)? },
                ))
            })
            .map_err(unusable)?;
        rows.map(|row| row.map(|(id, order)| Order { id: parsed(&id), ..order }).map_err(unusable)).collect()
    }

    /// The messages that stand in the outbox now: it is an ordinary table.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn in_outbox(&self) -> Outcome<HashSet<MessageId>> {
        let database = connect(&self.path)?;
        let mut read = database.prepare(IN_OUTBOX).map_err(unusable)?;
        let rows = read.query_map((), |row| row.get::<_, String>(0)).map_err(unusable)?;
        rows.map(|id| id.map(|id| parsed(&id)).map_err(unusable)).collect()
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An id as it was written; nonsense is an id that nothing else has.
fn parsed(id: &str) -> MessageId {
    id.parse().map_or_else(|_| MessageId::fresh(), MessageId)
}

pub(super) fn connect(path: &Path) -> Outcome<Connection> {
    let database = Connection::open(path).map_err(unusable)?;
    database.busy_timeout(Duration::from_secs(10)).map_err(unusable)?;
    Ok(database)
}

pub(super) fn unusable(error: rusqlite::Error) -> Failure {
    Failure::usage(
        format!("the demo cannot use its database: {error}"),
        "free the disk, or name a folder that you may write to with --keep",
    )
}

fn refused(error: impl Display) -> Failure {
    Failure::usage(
        format!("the order service cannot enqueue: {error}"),
        "free the disk, or name a folder that you may write to with --keep",
    )
}
