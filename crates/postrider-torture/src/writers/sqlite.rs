//! Writers on SQLite: one at a time, as SQLite has it.

use std::path::Path;
use std::time::{Duration, Instant};

use postrider::Outbox;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tokio::runtime::Handle;
use uuid::Uuid;

use super::{Act, Hand, bulk_keys};
use crate::moment::Moment;
use crate::record::{Class, Felt, Key, Outcome};

/// What an application is told to set, and a little more.
const BUSY: Duration = Duration::from_secs(10);
const LOCK: &str = "insert into torture_counter (key, n) values (?1, ?2) \
    on conflict (key) do update set n = n + excluded.n returning n";
const NOTE: &str = "insert into torture_ledger (message_id, key, n) values (?1, ?2, ?3)";

type Answer<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Writes until the load is over.
pub fn write(mut hand: Hand, file: &Path) {
    let mut connection = None;
    while !hand.is_over() {
        let started = Instant::now();
        let Some(mut connected) = connection.take().or_else(|| connect(file).ok()) else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let act = Act::draw(&mut hand.random);
        if let Err(error) = Handle::current().block_on(hand.provide(act)) {
            hand.recorder.wrong("I5", format!("no tokens could be made: {error}"));
            break;
        }
        let at = hand.recorder.now();
        let mut ids = Vec::new();
        let mut stage = Outcome::RolledBack;
        let well = act_out(&mut hand, &mut connected, act, at, &mut ids, &mut stage).is_ok();
        let outcome = if well && stage == Outcome::Unknown { Outcome::Committed } else { stage };
        hand.recorder.ended(&ids, outcome);
        if act == Act::Serialised {
            hand.recorder.open().felt.push(Felt { at, took: started.elapsed(), well });
        }
        connection = (well && act != Act::Disconnect).then_some(connected);
        std::thread::sleep(hand.pause(started.elapsed()));
    }
    hand.give_back();
}

fn connect(file: &Path) -> Answer<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

fn act_out(
    hand: &mut Hand,
    connection: &mut Connection,
    act: Act,
    begun: Moment,
    ids: &mut Vec<Uuid>,
    stage: &mut Outcome,
) -> Answer<()> {
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match act {
        // There is no early id here: BEGIN IMMEDIATE takes the one write lock, and numbers are drawn under it.
        Act::Serialised | Act::EarlyId => {
            let key = hand.key(Class::Serialised);
            serialised(hand, &tx, key, begun, ids)?;
        }
        Act::Savepoint => {
            let key = hand.key(Class::Serialised);
            let n = lock(&tx, key, 1)?;
            let point = tx.savepoint()?;
            let mut undone = Vec::new();
            let (id, message) = hand.message(key, n, begun);
            undone.push(id);
            Outbox::new().enqueue(&point, message)?;
            point.execute(NOTE, params![id.to_string(), key.to_string(), n])?;
            // Dropped, a savepoint is taken back.
            drop(point);
            hand.recorder.ended(&undone, Outcome::RolledBack);
            enqueue(hand, &tx, key, n, begun, ids)?;
        }
        Act::RollBack | Act::Disconnect => {
            let key = hand.key(Class::Serialised);
            serialised(hand, &tx, key, begun, ids)?;
            if act == Act::Disconnect {
                // The connection is closed with the transaction open; dropped, it would be rolled back first.
                std::mem::forget(tx);
            }
            return Ok(());
        }
        Act::Unserialised | Act::Idle => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &tx, key, 0, begun, ids)?;
            // Whoever holds the one write lock stops everybody: a few milliseconds are all that an application may.
            std::thread::sleep(Duration::from_millis(hand.random.below(10)));
        }
        Act::WriteFirst => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &tx, key, 0, begun, ids)?;
            lock(&tx, key, 1)?;
        }
        Act::Bulk => bulk(hand, &tx, begun, ids)?,
        Act::Delayed => {
            let key = hand.key(Class::Delayed);
            enqueue(hand, &tx, key, 0, begun, ids)?;
        }
        Act::Expiring => {
            let key = hand.key(Class::Expiring);
            enqueue(hand, &tx, key, 0, begun, ids)?;
            std::thread::sleep(Duration::from_millis(hand.random.below(10)));
        }
        Act::Held => {
            let key = hand.key(Class::Held);
            serialised(hand, &tx, key, begun, ids)?;
        }
        Act::Poison => {
            let key = hand.poisoned();
            enqueue(hand, &tx, key, 0, begun, ids)?;
        }
    }
    *stage = Outcome::Unknown;
    tx.commit()?;
    Ok(())
}

fn serialised(hand: &mut Hand, tx: &Transaction<'_>, key: Key, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let n = lock(tx, key, 1)?;
    enqueue(hand, tx, key, n, begun, ids)
}

fn lock(tx: &Transaction<'_>, key: Key, count: u32) -> Answer<u32> {
    Ok(tx.query_row(LOCK, params![key.to_string(), count], |row| row.get(0))?)
}

fn enqueue(hand: &mut Hand, tx: &Transaction<'_>, key: Key, n: u32, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let (id, message) = hand.message(key, n, begun);
    ids.push(id);
    Outbox::new().enqueue(tx, message)?;
    tx.execute(NOTE, params![id.to_string(), key.to_string(), n])?;
    Ok(())
}

fn bulk(hand: &mut Hand, tx: &Transaction<'_>, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let each = u32::try_from(1 + hand.random.skewed(60))?;
    let mut lasts = Vec::new();
    for key in bulk_keys() {
        lasts.push((key, lock(tx, key, each)?));
    }
    for step in 0..each {
        for (key, last) in &lasts {
            enqueue(hand, tx, *key, last + 1 + step - each, begun, ids)?;
        }
    }
    Ok(())
}
