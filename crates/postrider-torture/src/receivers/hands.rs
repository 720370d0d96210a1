//! What is done with a message, in each way to remember it.

use std::sync::Arc;
use std::time::Duration;

use postrider::documents;
use postrider::{Advance, Delivery, Inbox, InboxError, Message, Processed, Processor, Seen};
use tokio_postgres::{Client, NoTls};

use super::counting::{Counting, processor};
use super::stage::Stage;
use super::{ConsumerKind, Place};
use crate::Fallible;

/// While nothing is forgotten the inbox is divided by this: partitions of ten seconds.
const DIVIDES: Duration = Duration::from_secs(70);
const SETUP: &str = "create table torture_effect (message_id uuid not null)";
const EFFECT: &str = "insert into torture_effect values ($1)";
const REFUSALS: &str =
    "create table torture_refused (consumer text, message_id uuid, primary key (consumer, message_id))";
const REFUSE: &str = "insert into torture_refused values ($1, $2) on conflict do nothing";

/// Whether the message is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It had its effect, now or before, or is refused for good.
    Over,
    /// It comes again.
    Again,
}

/// What handles messages, one at a time.
pub enum Hands {
    /// An effect is a row.
    Inbox(Box<Client>),
    /// The same.
    Cursor(Box<Client>),
    /// Effects are counted in entities.
    Processor(Arc<Counter>),
}

/// A processor, and where it keeps what it refuses.
pub struct Counter {
    stage: Stage,
    /// What counts.
    pub processor: Processor<Counting>,
    refusals: Client,
}

impl Counter {
    /// Connects.
    ///
    /// # Errors
    /// When the database is away.
    pub async fn open(place: &Place, stage: Stage) -> Fallible<Self> {
        Ok(Self { stage, processor: processor(place, stage).await?.build()?, refusals: connect(&place.url).await? })
    }
}

/// Makes tables and streams.
pub(super) async fn prepare(place: &Place) -> Fallible<()> {
    let mut client = connect(&place.url).await?;
    for stage in place.kind.stages() {
        stage.prepare(&place.broker).await?;
    }
    match place.kind {
        ConsumerKind::Inbox | ConsumerKind::Cursor => {
            postrider::migrate(&client).await?;
            client.batch_execute(SETUP).await?;
            let tx = client.transaction().await?;
            let _ = Inbox::new().forget(&tx, DIVIDES).await?;
            Ok(tx.commit().await?)
        }
        ConsumerKind::Processor | ConsumerKind::KnownIds | ConsumerKind::Token => {
            client.batch_execute(REFUSALS).await?;
            Ok(documents::open(&place.url).await?.prepare().await?)
        }
    }
}

pub(super) async fn connect(url: &str) -> Fallible<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Hands {
    /// Handles one delivery.
    ///
    /// # Errors
    /// When it can not be handled at all, or the database is away.
    pub async fn handle(&mut self, delivery: Delivery) -> Fallible<Done> {
        match self {
            Self::Inbox(client) => in_transaction(client, delivery.message).await,
            Self::Cursor(client) => by_the_cursor(client, delivery).await,
            Self::Processor(counter) => counter.handle(delivery).await,
        }
    }
}

impl Counter {
    async fn handle(&self, delivery: Delivery) -> Fallible<Done> {
        let id = delivery.id().0;
        match self.processor.process(&delivery).await {
            Processed::Applied | Processed::Resumed | Processed::Repeat => Ok(Done::Over),
            Processed::TooOld => {
                self.refusals.execute(REFUSE, &[&self.stage.name(), &id]).await?;
                Ok(Done::Over)
            }
            Processed::Again { .. } => Ok(Done::Again),
            Processed::Failed(error) => Err(error),
            other @ Processed::TooLarge { .. } => Err(other.to_string().into()),
        }
    }
}

async fn in_transaction(client: &mut Client, message: Message) -> Fallible<Done> {
    let (inbox, id, consumer) = (Inbox::new(), message.id, Stage::First.name());
    let tx = client.transaction().await?;
    match inbox.first_seen(&tx, consumer, id).await {
        Ok(Seen::First) => {
            tx.execute(EFFECT, &[&id.0]).await?;
            tx.commit().await?;
        }
        Ok(Seen::Repeat) => tx.commit().await?,
        Err(InboxError::TooOld) => {
            tx.rollback().await?;
            let tx = client.transaction().await?;
            inbox.refuse(&tx, consumer, message, "older than what the inbox remembers").await?;
            tx.commit().await?;
        }
        // Somebody else is at the message, or about to make the partition of its time.
        Err(InboxError::Contended(_) | InboxError::Future) => {
            tx.rollback().await?;
            return Ok(Done::Again);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Done::Over)
}

async fn by_the_cursor(client: &mut Client, delivery: Delivery) -> Fallible<Done> {
    let at = delivery.position.as_ref().ok_or("a message of Kafka without a position")?;
    let tx = client.transaction().await?;
    match Inbox::new().advance_rising(&tx, Stage::First.name(), &at.source, at.part, at.number).await {
        Ok(Advance::Next) => {
            tx.execute(EFFECT, &[&delivery.id().0]).await?;
        }
        Ok(Advance::Repeat) => {}
        Ok(other @ Advance::Gap { .. }) => return Err(format!("where numbers only rise: {other:?}").into()),
        Err(InboxError::Contended(_)) => {
            tx.rollback().await?;
            return Ok(Done::Again);
        }
        Err(error) => return Err(error.into()),
    }
    tx.commit().await?;
    Ok(Done::Over)
}
