//! Writers on PostgreSQL, through a proxy of their own.

use std::time::{Duration, Instant};

use postrider::Outbox;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls, Transaction};
use uuid::Uuid;

use super::{Act, Hand, bulk_keys};
use crate::moment::Moment;
use crate::record::{Class, Felt, Key, Outcome};

/// Longer than any fault that an application should sit out.
const PATIENCE: Duration = Duration::from_secs(20);
const LOCK: &str = "insert into torture_counter (key, n) values ($1, $2) \
    on conflict (key) do update set n = torture_counter.n + excluded.n returning n";
const NOTE: &str =
    "insert into torture_ledger (message_id, key, n) select * from unnest($1::uuid[], $2::text[], $3::int[])";
const EARLY: &str = "insert into torture_scratch values (pg_current_xact_id()::text)";

type Answer<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Writes until the load is over.
pub async fn write(mut hand: Hand, url: String) {
    let mut client: Option<Client> = None;
    while !hand.is_over() {
        let started = Instant::now();
        let Some(mut connected) = (match client.take() {
            Some(client) => Some(client),
            None => connect(&url).await,
        }) else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let act = Act::draw(&mut hand.random);
        let at = hand.recorder.now();
        let mut ids = Vec::new();
        let mut stage = Outcome::RolledBack;
        let done = timeout(PATIENCE, act_out(&mut hand, &mut connected, act, at, &mut ids, &mut stage)).await;
        let well = matches!(done, Ok(Ok(())));
        let outcome = if well && stage == Outcome::Unknown { Outcome::Committed } else { stage };
        hand.recorder.ended(&ids, outcome);
        if act == Act::Serialised {
            hand.recorder.open().felt.push(Felt { at, took: started.elapsed(), well });
        }
        // After any failure the connection is in an unknown state.
        client = (well && act != Act::Disconnect).then_some(connected);
        sleep(hand.pause(started.elapsed())).await;
    }
}

async fn connect(url: &str) -> Option<Client> {
    let (client, connection) = timeout(PATIENCE, tokio_postgres::connect(url, NoTls)).await.ok()?.ok()?;
    tokio::spawn(connection);
    Some(client)
}

/// One transaction. `stage` is what is known if it breaks off here: `RolledBack` until COMMIT is sent, then `Unknown`.
async fn act_out(
    hand: &mut Hand,
    client: &mut Client,
    act: Act,
    begun: Moment,
    ids: &mut Vec<Uuid>,
    stage: &mut Outcome,
) -> Answer<()> {
    let tx = client.transaction().await?;
    match act {
        Act::Serialised => {
            let key = hand.key(Class::Serialised);
            serialised(hand, &tx, key, begun, ids).await?;
        }
        Act::EarlyId => {
            tx.execute(EARLY, &[]).await?;
            sleep(Duration::from_millis(hand.random.below(80))).await;
            let key = hand.key(Class::Serialised);
            serialised(hand, &tx, key, begun, ids).await?;
        }
        Act::Savepoint => {
            let key = hand.key(Class::Serialised);
            let n = lock(&tx, key, 1).await?;
            tx.batch_execute("savepoint one").await?;
            let mut undone = Vec::new();
            enqueue(hand, &tx, key, n, begun, &mut undone).await?;
            tx.batch_execute("rollback to savepoint one").await?;
            hand.recorder.ended(&undone, Outcome::RolledBack);
            enqueue(hand, &tx, key, n, begun, ids).await?;
        }
        Act::RollBack | Act::Disconnect => {
            let key = hand.key(Class::Serialised);
            serialised(hand, &tx, key, begun, ids).await?;
            if act == Act::RollBack {
                tx.rollback().await?;
            } else {
                // The connection goes away with the transaction open; dropped, it would be rolled back first.
                std::mem::forget(tx);
            }
            return Ok(());
        }
        Act::Unserialised => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &tx, key, 0, begun, ids).await?;
            if hand.random.chance(0.3) {
                sleep(Duration::from_millis(hand.random.below(150))).await;
            }
        }
        Act::WriteFirst => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(hand.random.below(20))).await;
            lock(&tx, key, 1).await?;
        }
        Act::Idle => {
            tx.execute(EARLY, &[]).await?;
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(3000 + hand.random.below(7000))).await;
        }
        Act::Bulk => bulk(hand, &tx, begun, ids).await?,
        Act::Delayed => {
            let key = hand.key(Class::Delayed);
            enqueue(hand, &tx, key, 0, begun, ids).await?;
        }
        Act::Expiring => {
            let key = hand.key(Class::Expiring);
            enqueue(hand, &tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(hand.random.below(200))).await;
        }
        Act::Held => {
            let key = hand.key(Class::Held);
            serialised(hand, &tx, key, begun, ids).await?;
        }
        Act::Poison => {
            let key = hand.poisoned();
            enqueue(hand, &tx, key, 0, begun, ids).await?;
        }
    }
    *stage = Outcome::Unknown;
    tx.commit().await?;
    Ok(())
}

async fn serialised(hand: &mut Hand, tx: &Transaction<'_>, key: Key, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let n = lock(tx, key, 1).await?;
    enqueue(hand, tx, key, n, begun, ids).await
}

/// Takes the key's row, and with it the next numbers of the key; the last of them.
async fn lock(tx: &Transaction<'_>, key: Key, count: i32) -> Answer<u32> {
    let n: i32 = tx.query_one(LOCK, &[&key.to_string(), &count]).await?.get(0);
    Ok(u32::try_from(n)?)
}

async fn enqueue(
    hand: &mut Hand,
    tx: &Transaction<'_>,
    key: Key,
    n: u32,
    begun: Moment,
    ids: &mut Vec<Uuid>,
) -> Answer<()> {
    let (id, message) = hand.message(key, n, begun);
    ids.push(id);
    Outbox::new().enqueue(tx, message).await?;
    note(tx, &[(id, key, n)]).await
}

async fn note(tx: &Transaction<'_>, rows: &[(Uuid, Key, u32)]) -> Answer<()> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.0).collect();
    let keys: Vec<String> = rows.iter().map(|row| row.1.to_string()).collect();
    let numbers: Vec<i32> = rows.iter().map(|row| i32::try_from(row.2).unwrap_or(0)).collect();
    tx.execute(NOTE, &[&ids, &keys, &numbers]).await?;
    Ok(())
}

/// All bulk keys, so that two of these transactions wait for each other and never in a circle.
async fn bulk(hand: &mut Hand, tx: &Transaction<'_>, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let each = 1 + hand.random.skewed(120);
    let mut lasts = Vec::new();
    for key in bulk_keys() {
        lasts.push((key, lock(tx, key, i32::try_from(each)?).await?));
    }
    let (mut messages, mut rows) = (Vec::new(), Vec::new());
    for step in 0..u32::try_from(each)? {
        for (key, last) in &lasts {
            let n = last + 1 + step - u32::try_from(each)?;
            let (id, message) = hand.message(*key, n, begun);
            ids.push(id);
            messages.push(message);
            rows.push((id, *key, n));
        }
    }
    Outbox::new().enqueue_all(tx, messages).await?;
    note(tx, &rows).await
}
