//! Ids of handled messages in a store of their own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postrider_core::receiving::{Known, made_at};
use postrider_core::{
    Collection, DocumentKey, DocumentStore, Error, ErrorKind, Invalid, MessageId, Result, Stored, Timestamp, WriteError,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::keeping::Kept;
use super::memory::Asked;
use super::records::{FORMAT, draft, is_of_the_record, key, read};

/// How many due ids are asked for at once.
const PAGE: usize = 500;
/// How many of them are forgotten at once.
const AT_ONCE: usize = 8;
/// How often the floor is written before somebody else is believed to do it.
const TRIES: usize = 5;

/// Which messages were handled, in a store that the entities need not share.
///
/// One document for each id, for as long as it is kept. When ids are forgotten, first a floor is written: from then on a
/// message with an older UUIDv7 is refused as too old, so that the window fails closed. An id without a time is taken for a
/// first one when it is forgotten.
#[derive(Debug, Clone)]
pub struct KnownIds {
    store: Arc<dyn DocumentStore>,
    collection: Collection,
    keep: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    format: u32,
    /// When it was handled, in microseconds since 1970.
    at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Floor {
    format: u32,
    /// Ids of an earlier time may be forgotten.
    since: i64,
}

impl KnownIds {
    /// Ids in the collection `known_ids` of this store, each kept for so long after it was handled.
    ///
    /// Keep what the longest repeat needs: the broker's retention, a replay, a restored backup.
    ///
    /// # Errors
    /// Never for this collection; see [`collection`](Self::collection).
    pub fn new(store: Arc<dyn DocumentStore>, keep: Duration) -> std::result::Result<Self, Invalid> {
        Ok(Self { store, collection: Collection::new("known_ids")?, keep })
    }

    /// The same in another collection.
    #[must_use]
    pub fn collection(self, collection: Collection) -> Self {
        Self { collection, ..self }
    }

    /// Asks of an id. Reads the id first and the floor behind it: an id that was forgotten in between lies below that floor.
    pub(super) async fn ask(&self, consumer: &str, id: MessageId) -> Result<Asked> {
        if self.store.load(&self.key(consumer, id)?).await?.is_some() {
            return Ok(Asked::Is(Known::Handled));
        }
        let Some(made) = made_at(id) else { return Ok(Asked::Is(Known::New)) };
        let floor = self.floor(consumer).await?;
        let is_forgotten = floor.is_some_and(|(floor, _)| made.0 < floor.since);
        Ok(if is_forgotten { Asked::TooOld } else { Asked::Is(Known::New) })
    }

    /// Records that a message was handled; again does no harm.
    pub(super) async fn remember(&self, consumer: &str, id: MessageId, now: Timestamp) -> Result<()> {
        let from = made_at(id).map_or(now, |made| made.max(now));
        let due = Timestamp(from.0.saturating_add(micros(self.keep)));
        let draft = draft(&Seen { format: FORMAT, at: now.0 }, Some(due))?;
        match self.store.create(&self.key(consumer, id)?, &draft).await {
            Ok(_) | Err(WriteError::Conflict) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::TooLarge { limit, .. }) => {
                let text = format!("the store takes {limit} bytes, which is less than a known id has");
                Err(Error::new(ErrorKind::Config, text))
            }
        }
    }

    /// Forgets what was handled longer ago than it is kept.
    ///
    /// The floor rises before the first id goes. What cannot be read stays, and is told.
    ///
    /// # Errors
    /// When the store fails; what was forgotten until then is forgotten.
    pub(super) async fn forget(&self, consumer: &str, now: Timestamp, kept: &mut Kept) -> Result<()> {
        let since = now.0.saturating_sub(micros(self.keep));
        let floor = match self.raise(consumer, since).await {
            Ok(Some(floor)) => floor,
            Ok(None) => return Ok(()),
            Err(error) if is_of_the_record(&error) => {
                kept.stuck.push((floor_name(consumer), error));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut after = None;
        loop {
            let page = self.store.due(&self.collection, now, after.as_ref(), PAGE).await?;
            for keys in page.chunks(AT_ONCE) {
                let gone = join_all(keys.iter().map(|key| self.forget_one(consumer, key, floor))).await;
                for (key, gone) in keys.iter().zip(gone) {
                    match gone {
                        Ok(gone) => kept.forgotten += u64::from(gone),
                        Err(error) if is_of_the_record(&error) => kept.stuck.push((key.name().to_owned(), error)),
                        Err(error) => return Err(error),
                    }
                }
            }
            if page.len() < PAGE {
                return Ok(());
            }
            after = page.into_iter().next_back();
        }
    }

    async fn forget_one(&self, consumer: &str, key: &DocumentKey, floor: i64) -> Result<bool> {
        let Some(id) = of(consumer, key) else { return Ok(false) };
        let Some(stored) = self.store.load(key).await? else { return Ok(false) };
        let at = read::<Seen>(&stored)?.at;
        if made_at(id).map_or(at, |made| made.0.max(at)) >= floor {
            return Ok(false);
        }
        match self.store.delete(key, &stored.version).await {
            Ok(()) => Ok(true),
            // Nobody writes an id twice: somebody else forgot it.
            Err(WriteError::Conflict) => Ok(false),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::TooLarge { .. }) => Ok(false),
        }
    }

    /// Raises the floor: as it stands then, for everybody; none when others keep changing it.
    async fn raise(&self, consumer: &str, since: i64) -> Result<Option<i64>> {
        let key = self.floor_key(consumer)?;
        for _ in 0..TRIES {
            let known = self.floor(consumer).await?;
            if let Some((floor, _)) = &known
                && floor.since >= since
            {
                return Ok(Some(floor.since));
            }
            let draft = draft(&Floor { format: FORMAT, since }, None)?;
            let written = match &known {
                Some((_, stored)) => self.store.replace(&key, &stored.version, &draft).await,
                None => self.store.create(&key, &draft).await,
            };
            match written {
                Ok(_) => return Ok(Some(since)),
                Err(WriteError::Conflict) => {}
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::TooLarge { .. }) => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn floor(&self, consumer: &str) -> Result<Option<(Floor, Stored)>> {
        let Some(stored) = self.store.load(&self.floor_key(consumer)?).await? else { return Ok(None) };
        Ok(Some((read(&stored)?, stored)))
    }

    fn key(&self, consumer: &str, id: MessageId) -> Result<DocumentKey> {
        key(&self.collection, &format!("{id}@{consumer}"))
    }

    fn floor_key(&self, consumer: &str) -> Result<DocumentKey> {
        key(&self.collection, &floor_name(consumer))
    }
}

fn floor_name(consumer: &str) -> String {
    format!("floor@{consumer}")
}

/// The id that a key is of, where it is this consumer's.
fn of(consumer: &str, key: &DocumentKey) -> Option<MessageId> {
    let (id, whose) = key.name().split_once('@')?;
    let id = Uuid::parse_str(id).ok()?;
    (whose == consumer).then_some(MessageId(id))
}

fn micros(keep: Duration) -> i64 {
    i64::try_from(keep.as_micros()).unwrap_or(i64::MAX)
}
