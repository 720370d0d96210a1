//! Forgetting what was handled, so that what is read again is older than everything that is remembered.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use postrider::{Inbox, Message, MessageId, Processed, Timestamp};
use uuid::Uuid;

use super::counting::{ENTITIES, KEPT, TOUCH, processor};
use super::hands::connect;
use super::{ConsumerKind, Place};
use crate::Fallible;

/// What the inbox is to keep in the end.
const IN_THE_END: Duration = Duration::from_secs(1);
/// Until everything is older, and every partition that has something over: those are ten seconds long.
const WAITS: Duration = Duration::from_secs(12);

/// Forgets what was handled until now: the inbox by keeping only what is of this moment, processors as they do when everything
/// has been kept for as long as it is to be.
///
/// # Errors
/// When the database is away.
pub async fn forget(place: &Place) -> Fallible<()> {
    tokio::time::sleep(WAITS).await;
    match place.kind {
        ConsumerKind::Inbox => of_the_inbox(place).await,
        ConsumerKind::Processor => in_documents(place).await,
        ConsumerKind::KnownIds => {
            for stage in place.kind.stages() {
                let _ = processor(place, *stage).await?.clock(later).build()?.keep_up().await?;
            }
            Ok(())
        }
        // Nothing is kept of a message that is over.
        ConsumerKind::Token | ConsumerKind::Cursor => Ok(()),
    }
}

async fn of_the_inbox(place: &Place) -> Fallible<()> {
    let mut client = connect(&place.url).await?;
    loop {
        let tx = client.transaction().await?;
        let forgotten = Inbox::new().forget(&tx, IN_THE_END).await?;
        tx.commit().await?;
        if !forgotten.more {
            return Ok(());
        }
    }
}

/// Ids leave a document when it is written.
async fn in_documents(place: &Place) -> Fallible<()> {
    for stage in place.kind.stages() {
        let processor = processor(place, *stage).await?.clock(later).build()?;
        for entity in 0..ENTITIES {
            let message = Message::new(TOUCH, "").id(of(entity)).key(entity);
            match processor.process(&message.into()).await {
                Processed::Applied => {}
                other => return Err(format!("the entity {entity} could not be written: {other}").into()),
            }
        }
    }
    Ok(())
}

/// The time at which everything that was handled has been kept for long enough.
fn later() -> Timestamp {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + KEPT;
    Timestamp(i64::try_from(at.as_micros()).unwrap_or(i64::MAX))
}

/// A fresh id that belongs to an entity.
fn of(entity: u16) -> Uuid {
    let mut bytes = MessageId::fresh().0.into_bytes();
    bytes[14..].copy_from_slice(&entity.to_be_bytes());
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receivers::counting::entity;

    #[test]
    fn every_entity_has_an_id_that_is_its_own() {
        assert!((0..ENTITIES).all(|number| entity(of(number)) == number && of(number).get_version_num() == 7));
    }
}
