//! The limit of a store and a broker: what they do without a relay between them.
//!
//! A minimal pipeline reads pages, publishes each message with its acknowledgement, and removes the rows: no decisions,
//! no order, no retries. It goes through the same drivers as a relay, so it measures what a relay adds to them; what the
//! drivers themselves cost only the bench target `private` measures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{
    Attempt, Broker, Content, DestinationTemplate, Error, ErrorKind, HeldLane, Outcome, Outgoing, Published, RelayId,
    Result, Room, Row, Settlement, Settler, Source, Store,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::drain::Drained;
use crate::load::Load;
use crate::witness::{Book, Moments, Witness};

/// Nobody else is there who could want the lanes.
const LEASE: Duration = Duration::from_secs(86_400);
/// A page.
const ROOM: Room = Room { rows: 4_096, bytes: 16 << 20 };
/// Pages under way between two steps.
const AHEAD: usize = 2;
/// How soon it reads again after it found nothing.
const PAUSE: Duration = Duration::from_millis(1);
/// Without a new row for so long the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Empties an outbox that holds exactly the messages of a load and that no relay has ever seen.
///
/// # Errors
/// The store's and the broker's: nothing is tried again.
pub async fn limit(store: Arc<dyn Store>, broker: Arc<dyn Broker>, load: &Load) -> Result<Drained> {
    let book = Arc::new(Book::new(load.messages, Moments::NotKept));
    let witness = Arc::new(Witness::new(broker, Arc::clone(&book)));
    let began = Instant::now();
    let (mut leases, me) = (store.leases().await?, RelayId(Uuid::now_v7()));
    leases.join(me, "bench-limit", LEASE).await?;
    let held = leases.acquire(me, store.profile().lanes.get()).await?;
    let (to_publish, pages) = mpsc::channel(AHEAD);
    let (to_settle, published) = mpsc::channel(AHEAD);
    let mut steps = JoinSet::new();
    steps.spawn(read(store.source().await?, held.clone(), load.messages, to_publish));
    steps.spawn(publish(witness, held.clone(), pages, to_settle));
    steps.spawn(settle(store.settler().await?, me, held, published));
    while let Some(ended) = steps.join_next().await {
        ended.map_err(panicked)??;
    }
    let took = began.elapsed();
    leases.leave(me).await?;
    let mut verdict = book.verdict(load.messages);
    // It keeps no order, so it has none to break.
    verdict.order = None;
    Ok(Drained { took, verdict })
}

async fn read(
    mut source: Box<dyn Source>,
    held: Vec<HeldLane>,
    messages: u64,
    pages: mpsc::Sender<Vec<Row>>,
) -> Result<()> {
    let (mut read, mut last) = (0, Instant::now());
    while read < messages {
        let page = source.read(&held, ROOM).await?;
        if page.rows.is_empty() {
            if last.elapsed() > PATIENCE {
                return Err(Error::new(ErrorKind::Unavailable, format!("{read} of {messages} messages were read")));
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        last = Instant::now();
        read += u64::try_from(page.rows.len()).unwrap_or(u64::MAX);
        if pages.send(page.rows).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Publishes some pages at once, with as many calls as the broker takes.
async fn publish(
    broker: Arc<Witness>,
    held: Vec<HeldLane>,
    mut pages: mpsc::Receiver<Vec<Row>>,
    to_settle: mpsc::Sender<Vec<Settlement>>,
) -> Result<()> {
    let calls = Arc::new(Semaphore::new(broker.profile().max_concurrent.max(1)));
    let mut under_way = JoinSet::new();
    while let Some(rows) = pages.recv().await {
        if under_way.len() >= AHEAD
            && let Some(ended) = under_way.join_next().await
        {
            ended.map_err(panicked)??;
        }
        let batch = rows.iter().filter_map(|row| outgoing(row, &held)).collect();
        let page = publish_page(Arc::clone(&broker), Arc::clone(&calls), batch);
        let to_settle = to_settle.clone();
        under_way.spawn(async move {
            page.await?;
            // Whoever settles has failed, and says so.
            let _ = to_settle.send(rows.iter().map(delivered).collect()).await;
            Ok(())
        });
    }
    while let Some(ended) = under_way.join_next().await {
        ended.map_err(panicked)??;
    }
    Ok(())
}

async fn publish_page(broker: Arc<Witness>, calls: Arc<Semaphore>, page: Vec<Outgoing>) -> Result<()> {
    let mut under_way = JoinSet::new();
    for batch in page.chunks(broker.profile().max_batch.clamp(1, ROOM.rows)) {
        let Ok(call) = Arc::clone(&calls).acquire_owned().await else { break };
        let (broker, batch) = (Arc::clone(&broker), batch.to_vec());
        under_way.spawn(async move {
            let answers = broker.publish(&batch).await;
            drop(call);
            answers.into_iter().find_map(|answer| match answer {
                Published::Failed(error) => Some(error),
                Published::Accepted(_) | Published::NotSent => None,
            })
        });
    }
    while let Some(ended) = under_way.join_next().await {
        if let Some(error) = ended.map_err(panicked)? {
            return Err(error);
        }
    }
    Ok(())
}

async fn settle(
    mut settler: Box<dyn Settler>,
    me: RelayId,
    held: Vec<HeldLane>,
    mut published: mpsc::Receiver<Vec<Settlement>>,
) -> Result<()> {
    while let Some(page) = published.recv().await {
        settler.settle(me, &held, &page).await?;
    }
    Ok(())
}

fn outgoing(row: &Row, held: &[HeldLane]) -> Option<Outgoing> {
    let Content::Message(message) = &row.content else { return None };
    let term = held.iter().find(|held| held.lane == row.lane)?.term;
    Some(Outgoing {
        message: Arc::clone(message),
        destination: DestinationTemplate::topic().render(message).ok()?,
        attempt: Attempt(1),
        lane: row.lane,
        term,
        given_up: None,
    })
}

fn delivered(row: &Row) -> Settlement {
    Settlement {
        row: row.id,
        message: row.message_id(),
        lane: row.lane,
        outcome: Outcome::Delivered,
        attempt: Attempt(1),
        suspicion: 0,
    }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Unknown, "a step of the limit ended by a panic").because(error)
}
