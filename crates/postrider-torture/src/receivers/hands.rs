//! What is done with a message, in each way to remember it.

use std::sync::Arc;
use std::time::Duration;

use postrider::documents;
use postrider::{
    Delivery, EntityKey, Handler, Inbox, InboxError, KnownIds, Message, MessageId, Outputs, Processed, Processor, Seen,
};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::ConsumerKind;
use crate::Fallible;

/// The name of the consumer, and of the collection of its entities.
pub(super) const CONSUMER: &str = "effects";
/// What is older is refused when the stream is read again.
const KEPT: Duration = Duration::from_secs(1);
const ALL: Duration = Duration::from_secs(86_400);
const SETUP: &str = "create table torture_effect (message_id uuid not null)";

/// Whether the message is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It had its effect, now or before, or is refused for good.
    Over,
    /// It comes again.
    Again,
}

/// What handles messages.
pub enum Hands {
    /// An effect is a row.
    Inbox(Box<Client>),
    /// Effects are counted in an entity.
    Processor(Box<Processor<Counting>>),
}

/// Counts the messages of each of 256 entities.
pub struct Counting;

impl Handler for Counting {
    type State = u64;
    type Error = std::convert::Infallible;

    fn entity(&self, message: &Delivery) -> EntityKey {
        EntityKey::new(entity(message.id().0))
    }

    async fn handle(&self, count: &mut u64, _message: &Delivery, _out: &mut Outputs) -> Result<(), Self::Error> {
        *count += 1;
        Ok(())
    }
}

/// The entity of a message: its last byte.
pub fn entity(id: Uuid) -> u8 {
    id.as_bytes()[15]
}

/// Makes the tables.
pub async fn prepare(kind: ConsumerKind, url: &str) -> Fallible<()> {
    match kind {
        ConsumerKind::Inbox => {
            let client = connect(url).await?;
            postrider::migrate(&client).await?;
            Ok(client.batch_execute(SETUP).await?)
        }
        ConsumerKind::Processor | ConsumerKind::KnownIds => Ok(documents::open(url).await?.prepare().await?),
    }
}

/// Forgets what was handled longer than a moment ago.
pub async fn forget(kind: ConsumerKind, url: &str) -> Fallible<()> {
    tokio::time::sleep(KEPT * 2).await;
    match kind {
        ConsumerKind::Inbox => {
            let mut client = connect(url).await?;
            loop {
                let tx = client.transaction().await?;
                let forgotten = Inbox::new().forget(&tx, KEPT).await?;
                tx.commit().await?;
                if !forgotten.more {
                    return Ok(());
                }
            }
        }
        ConsumerKind::Processor => Ok(()),
        ConsumerKind::KnownIds => Ok(processor(kind, url, KEPT).await?.keep_up().await.map(drop)?),
    }
}

pub(super) async fn connect(url: &str) -> Fallible<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn processor(kind: ConsumerKind, url: &str, keep: Duration) -> Fallible<Processor<Counting>> {
    let store = documents::open(url).await?;
    let builder = Processor::builder(CONSUMER, Arc::clone(&store), Counting).collection(CONSUMER).keep(keep);
    Ok(match kind {
        ConsumerKind::KnownIds => builder.known_ids(KnownIds::new(store, keep)?),
        ConsumerKind::Inbox | ConsumerKind::Processor => builder,
    }
    .build()?)
}

impl Hands {
    /// Connects.
    pub async fn open(kind: ConsumerKind, url: &str) -> Fallible<Self> {
        Ok(match kind {
            ConsumerKind::Inbox => Self::Inbox(Box::new(connect(url).await?)),
            ConsumerKind::Processor | ConsumerKind::KnownIds => {
                Self::Processor(Box::new(processor(kind, url, ALL).await?))
            }
        })
    }

    /// Handles one delivery.
    pub async fn handle(&mut self, id: Uuid, payload: &[u8]) -> Fallible<Done> {
        let message = Message::new("received", payload.to_vec()).id(id);
        match self {
            Self::Inbox(client) => in_transaction(client, message).await,
            Self::Processor(processor) => Ok(match processor.process(&message.into()).await {
                Processed::Applied | Processed::Resumed | Processed::Repeat | Processed::TooOld => Done::Over,
                Processed::Again { .. } => Done::Again,
                Processed::Failed(error) => return Err(error),
                other @ Processed::TooLarge { .. } => return Err(other.to_string().into()),
            }),
        }
    }
}

async fn in_transaction(client: &mut Client, message: Message) -> Fallible<Done> {
    let (inbox, id) = (Inbox::new(), message.id);
    let tx = client.transaction().await?;
    match inbox.first_seen(&tx, CONSUMER, MessageId(id.0)).await {
        Ok(Seen::First) => {
            tx.execute("insert into torture_effect values ($1)", &[&id.0]).await?;
            tx.commit().await?;
        }
        Ok(Seen::Repeat) => tx.commit().await?,
        Err(InboxError::TooOld) => {
            tx.rollback().await?;
            let tx = client.transaction().await?;
            inbox.refuse(&tx, CONSUMER, message, "older than what the inbox remembers").await?;
            tx.commit().await?;
        }
        Err(InboxError::Contended(_)) => {
            tx.rollback().await?;
            return Ok(Done::Again);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Done::Over)
}
