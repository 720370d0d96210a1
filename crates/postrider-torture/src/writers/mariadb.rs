//! Writers on MariaDB, through a proxy of their own: one message by the procedure, many by plain INSERTs.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, Params, Value};
use postrider::Message;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{Act, Hand, bulk_keys};
use crate::moment::Moment;
use crate::record::{Class, Felt, Key, Outcome};

/// Longer than any fault that an application should sit out.
const PATIENCE: Duration = Duration::from_secs(20);
/// The row is there already: two that inserted it would lock what is beside it too.
const LOCK: &str = "update torture_counter set n = last_insert_id(n + ?) where `key` = ?";
const NOTE: &str = "insert into torture_ledger (message_id, `key`, n) values ";
const EARLY: &str = "insert into torture_scratch (note) values ('early')";
const NAME: &str = "set @message_id = ?";
const ENQUEUE: &str = "call postrider_enqueue(?, ?, ?, ?, null, null, ?, ?, @message_id)";
const INSERT: &str =
    "insert into postrider_outbox (topic, `key`, payload, headers, deliver_at, expires_at, message_id) values ";
/// Rows of one statement.
const MANY: usize = 500;

type Answer<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Writes until the load is over.
pub async fn write(mut hand: Hand, url: String) {
    let mut kept: Option<Conn> = None;
    while !hand.is_over() {
        let started = Instant::now();
        let Some(mut connection) = (match kept.take() {
            Some(connection) => Some(connection),
            None => connect(&url).await,
        }) else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let act = Act::draw(&mut hand.random);
        let at = hand.recorder.now();
        let mut ids = Vec::new();
        let mut stage = Outcome::RolledBack;
        let done = timeout(PATIENCE, act_out(&mut hand, &mut connection, act, at, &mut ids, &mut stage)).await;
        let well = matches!(done, Ok(Ok(())));
        let outcome = if well && stage == Outcome::Unknown { Outcome::Committed } else { stage };
        hand.recorder.ended(&ids, outcome);
        if act == Act::Serialised {
            hand.recorder.open().felt.push(Felt { at, took: started.elapsed(), well });
        }
        // After any failure the connection is in an unknown state. One that is dropped with its transaction open is closed,
        // and nothing of it is kept.
        kept = (well && act != Act::Disconnect).then_some(connection);
        sleep(hand.pause(started.elapsed())).await;
    }
}

async fn connect(url: &str) -> Option<Conn> {
    timeout(PATIENCE, Conn::new(Opts::from_url(url).ok()?)).await.ok()?.ok()
}

/// One transaction. `stage` is what is known if it breaks off here: `RolledBack` until COMMIT is sent, then `Unknown`.
async fn act_out(
    hand: &mut Hand,
    tx: &mut Conn,
    act: Act,
    begun: Moment,
    ids: &mut Vec<Uuid>,
    stage: &mut Outcome,
) -> Answer<()> {
    tx.query_drop("start transaction").await?;
    match act {
        Act::Serialised => {
            let key = hand.key(Class::Serialised);
            serialised(hand, tx, key, begun, ids).await?;
        }
        Act::EarlyId => {
            tx.query_drop(EARLY).await?;
            sleep(Duration::from_millis(hand.random.below(80))).await;
            let key = hand.key(Class::Serialised);
            serialised(hand, tx, key, begun, ids).await?;
        }
        Act::Savepoint => {
            let key = hand.key(Class::Serialised);
            let n = lock(tx, key, 1).await?;
            tx.query_drop("savepoint one").await?;
            let mut undone = Vec::new();
            enqueue(hand, tx, key, n, begun, &mut undone).await?;
            tx.query_drop("rollback to savepoint one").await?;
            hand.recorder.ended(&undone, Outcome::RolledBack);
            enqueue(hand, tx, key, n, begun, ids).await?;
        }
        Act::RollBack | Act::Disconnect => {
            let key = hand.key(Class::Serialised);
            serialised(hand, tx, key, begun, ids).await?;
            if act == Act::RollBack {
                tx.query_drop("rollback").await?;
            }
            return Ok(());
        }
        Act::Unserialised => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, tx, key, 0, begun, ids).await?;
            if hand.random.chance(0.3) {
                sleep(Duration::from_millis(hand.random.below(150))).await;
            }
        }
        Act::WriteFirst => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(hand.random.below(20))).await;
            lock(tx, key, 1).await?;
        }
        Act::Idle => {
            tx.query_drop(EARLY).await?;
            let key = hand.key(Class::Unserialised);
            enqueue(hand, tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(3000 + hand.random.below(7000))).await;
        }
        Act::Bulk => bulk(hand, tx, begun, ids).await?,
        Act::Delayed => {
            let key = hand.key(Class::Delayed);
            enqueue(hand, tx, key, 0, begun, ids).await?;
        }
        Act::Expiring => {
            let key = hand.key(Class::Expiring);
            enqueue(hand, tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(hand.random.below(200))).await;
        }
        Act::Held => {
            let key = hand.key(Class::Held);
            serialised(hand, tx, key, begun, ids).await?;
        }
        Act::Poison => {
            let key = hand.poisoned();
            enqueue(hand, tx, key, 0, begun, ids).await?;
        }
    }
    *stage = Outcome::Unknown;
    tx.query_drop("commit").await?;
    Ok(())
}

async fn serialised(hand: &mut Hand, tx: &mut Conn, key: Key, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let n = lock(tx, key, 1).await?;
    enqueue(hand, tx, key, n, begun, ids).await
}

/// Takes the key's row, and with it the next numbers of the key; the last of them.
async fn lock(tx: &mut Conn, key: Key, count: u32) -> Answer<u32> {
    tx.exec_drop(LOCK, (count, key.to_string())).await?;
    let n = tx.last_insert_id().ok_or_else(|| format!("the key {key} has no row"))?;
    Ok(u32::try_from(n)?)
}

/// One message, by the procedure.
async fn enqueue(hand: &mut Hand, tx: &mut Conn, key: Key, n: u32, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let (id, message) = hand.message(key, n, begun);
    ids.push(id);
    tx.exec_drop(NAME, (id.to_string(),)).await?;
    tx.exec_drop(ENQUEUE, Params::Positional(values(&message).into())).await?;
    note(tx, &[(id, key, n)]).await
}

/// What both ways to write take of a message, in their order.
fn values(message: &Message) -> [Value; 6] {
    [
        message.topic.as_str().into(),
        message.key.as_ref().map(|key| key.as_str()).into(),
        message.payload.to_vec().into(),
        message.headers.to_json().into(),
        message.deliver_at.map(|at| at.0).into(),
        message.expires_at.map(|at| at.0).into(),
    ]
}

async fn note(tx: &mut Conn, rows: &[(Uuid, Key, u32)]) -> Answer<()> {
    for some in rows.chunks(MANY) {
        let each: Vec<String> = some.iter().map(|(id, key, n)| format!("('{id}', '{key}', {n})")).collect();
        tx.query_drop(format!("{NOTE}{}", each.join(", "))).await?;
    }
    Ok(())
}

/// All bulk keys, so that two of these transactions wait for each other and never in a circle.
async fn bulk(hand: &mut Hand, tx: &mut Conn, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let each = u32::try_from(1 + hand.random.skewed(120))?;
    let mut lasts = Vec::new();
    for key in bulk_keys() {
        lasts.push((key, lock(tx, key, each).await?));
    }
    let (mut messages, mut rows) = (Vec::new(), Vec::new());
    for step in 0..each {
        for (key, last) in &lasts {
            let n = last + 1 + step - each;
            let (id, message) = hand.message(*key, n, begun);
            ids.push(id);
            messages.push((id, message));
            rows.push((id, *key, n));
        }
    }
    for some in messages.chunks(MANY) {
        let sql = format!("{INSERT}{}", vec!["(?, ?, ?, ?, ?, ?, ?)"; some.len()].join(", "));
        let each = |(id, message): &(Uuid, Message)| values(message).into_iter().chain([id.to_string().into()]);
        tx.exec_drop(sql, Params::Positional(some.iter().flat_map(each).collect())).await?;
    }
    note(tx, &rows).await
}
