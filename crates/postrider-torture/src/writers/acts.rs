//! What a writer does at a server, whichever that is: one act after another, each a transaction, through a proxy of its own.

use std::time::{Duration, Instant};

use postrider::Message;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{Act, Hand, MOST_OF_A_KEY, bulk_keys};
use crate::moment::Moment;
use crate::record::{Class, Felt, Key, Outcome};

/// Longer than any fault that an application should sit out.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the server said, or did not.
pub(super) type Answer<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A session of the application.
pub(super) trait Session: Sized {
    /// Its transaction. Dropped, it ends with nothing of it kept.
    type Open<'a>: Transaction
    where
        Self: 'a;

    /// A new session.
    async fn connect(url: &str) -> Answer<Self>;

    /// Begins a transaction.
    async fn begin(&mut self) -> Answer<Self::Open<'_>>;
}

/// An open transaction.
pub(super) trait Transaction: Sized {
    /// The statement that draws the transaction's id, where the database has one, and writes a row of no meaning.
    const EARLY: &'static str;

    /// Runs a statement that takes and gives nothing.
    async fn run(&mut self, statement: &str) -> Answer<()>;

    /// Takes the key's row, and with it the next numbers of the key; the last of them.
    async fn lock(&mut self, key: Key, count: u32) -> Answer<u32>;

    /// Writes one message.
    async fn enqueue(&mut self, message: Message) -> Answer<()>;

    /// Writes many messages.
    async fn enqueue_all(&mut self, messages: Vec<Message>) -> Answer<()>;

    /// Writes messages into the ledger, each with its key and number.
    async fn note(&mut self, rows: &[(Uuid, Key, u32)]) -> Answer<()>;

    /// Ends it for good.
    async fn commit(self) -> Answer<()>;

    /// Ends it with nothing of it kept.
    async fn roll_back(self) -> Answer<()>;

    /// Leaves it open, for a session that goes away with it.
    fn leave_open(self);
}

/// Writes until the load is over.
pub(super) async fn write<S: Session>(mut hand: Hand, url: String) {
    let mut kept: Option<S> = None;
    while !hand.is_over() {
        let started = Instant::now();
        let Some(mut session) = (match kept.take() {
            Some(session) => Some(session),
            None => timeout(PATIENCE, S::connect(&url)).await.ok().and_then(Result::ok),
        }) else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let act = Act::draw(&mut hand.random);
        if let Err(error) = hand.provide(act).await {
            hand.recorder.wrong("I5", format!("no tokens could be made: {error}"));
            break;
        }
        let at = hand.recorder.now();
        let mut ids = Vec::new();
        let mut stage = Outcome::RolledBack;
        let done = timeout(PATIENCE, act_out(&mut hand, &mut session, act, at, &mut ids, &mut stage)).await;
        let well = matches!(done, Ok(Ok(())));
        let outcome = if well && stage == Outcome::Unknown { Outcome::Committed } else { stage };
        hand.recorder.ended(&ids, outcome);
        if act == Act::Serialised {
            hand.recorder.open().felt.push(Felt { at, took: started.elapsed(), well });
        }
        // After any failure the session is in an unknown state.
        kept = (well && act != Act::Disconnect).then_some(session);
        sleep(hand.pause(started.elapsed())).await;
    }
    hand.give_back();
}

/// One transaction. `stage` is what is known if it breaks off here: `RolledBack` until COMMIT is sent, then `Unknown`.
async fn act_out<S: Session>(
    hand: &mut Hand,
    session: &mut S,
    act: Act,
    begun: Moment,
    ids: &mut Vec<Uuid>,
    stage: &mut Outcome,
) -> Answer<()> {
    let mut tx = session.begin().await?;
    match act {
        Act::Serialised => {
            let key = hand.key(Class::Serialised);
            serialised(hand, &mut tx, key, begun, ids).await?;
        }
        Act::EarlyId => {
            tx.run(S::Open::EARLY).await?;
            sleep(Duration::from_millis(hand.random.below(80))).await;
            let key = hand.key(Class::Serialised);
            serialised(hand, &mut tx, key, begun, ids).await?;
        }
        Act::Savepoint => {
            let key = hand.key(Class::Serialised);
            let n = tx.lock(key, 1).await?;
            tx.run("savepoint one").await?;
            let mut undone = Vec::new();
            enqueue(hand, &mut tx, key, n, begun, &mut undone).await?;
            tx.run("rollback to savepoint one").await?;
            hand.recorder.ended(&undone, Outcome::RolledBack);
            enqueue(hand, &mut tx, key, n, begun, ids).await?;
        }
        Act::RollBack => {
            let key = hand.key(Class::Serialised);
            serialised(hand, &mut tx, key, begun, ids).await?;
            return tx.roll_back().await;
        }
        Act::Disconnect => {
            let key = hand.key(Class::Serialised);
            serialised(hand, &mut tx, key, begun, ids).await?;
            tx.leave_open();
            return Ok(());
        }
        Act::Unserialised => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &mut tx, key, 0, begun, ids).await?;
            if hand.random.chance(0.3) {
                sleep(Duration::from_millis(hand.random.below(150))).await;
            }
        }
        Act::WriteFirst => {
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &mut tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(hand.random.below(20))).await;
            tx.lock(key, 1).await?;
        }
        Act::Idle => {
            tx.run(S::Open::EARLY).await?;
            let key = hand.key(Class::Unserialised);
            enqueue(hand, &mut tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(3000 + hand.random.below(7000))).await;
        }
        Act::Bulk => bulk(hand, &mut tx, begun, ids).await?,
        Act::Delayed => {
            let key = hand.key(Class::Delayed);
            enqueue(hand, &mut tx, key, 0, begun, ids).await?;
        }
        Act::Expiring => {
            let key = hand.key(Class::Expiring);
            enqueue(hand, &mut tx, key, 0, begun, ids).await?;
            sleep(Duration::from_millis(hand.random.below(200))).await;
        }
        Act::Held => {
            let key = hand.key(Class::Held);
            serialised(hand, &mut tx, key, begun, ids).await?;
        }
        Act::Poison => {
            let key = hand.poisoned();
            enqueue(hand, &mut tx, key, 0, begun, ids).await?;
        }
    }
    *stage = Outcome::Unknown;
    tx.commit().await
}

async fn serialised(
    hand: &mut Hand,
    tx: &mut impl Transaction,
    key: Key,
    begun: Moment,
    ids: &mut Vec<Uuid>,
) -> Answer<()> {
    let n = tx.lock(key, 1).await?;
    enqueue(hand, tx, key, n, begun, ids).await
}

async fn enqueue(
    hand: &mut Hand,
    tx: &mut impl Transaction,
    key: Key,
    n: u32,
    begun: Moment,
    ids: &mut Vec<Uuid>,
) -> Answer<()> {
    let (id, message) = hand.message(key, n, begun);
    ids.push(id);
    tx.enqueue(message).await?;
    tx.note(&[(id, key, n)]).await
}

/// All bulk keys, so that two of these transactions wait for each other and never in a circle.
async fn bulk(hand: &mut Hand, tx: &mut impl Transaction, begun: Moment, ids: &mut Vec<Uuid>) -> Answer<()> {
    let each = u32::try_from(1 + hand.random.skewed(MOST_OF_A_KEY.into()))?;
    let mut lasts = Vec::new();
    for key in bulk_keys() {
        lasts.push((key, tx.lock(key, each).await?));
    }
    let (mut messages, mut rows) = (Vec::new(), Vec::new());
    for step in 0..each {
        for (key, last) in &lasts {
            let n = last + 1 + step - each;
            let (id, message) = hand.message(*key, n, begun);
            ids.push(id);
            messages.push(message);
            rows.push((id, *key, n));
        }
    }
    tx.enqueue_all(messages).await?;
    tx.note(&rows).await
}
