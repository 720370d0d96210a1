//! The calls.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, TagSet};
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Error, ErrorKind, Finding, Level, Result,
    Revision, Stored, Timestamp, Version, WriteError,
};
use uuid::Uuid;

use super::LIMIT;
use super::classify::{is_object_missing, reading};
use super::client::{client, version};
use super::envelope::{Content, TOMBSTONE_SIZE, content, document, tombstone};
use super::options::{ObjectOptions, Tombstones};
use super::write::Condition;
use crate::found::found;

/// How often a create looks at what is in its way.
const LOOKS: usize = 4;
const READING: &str = "reading a document";
const LISTING: &str = "listing documents";

/// Documents in an object store.
pub struct ObjectDocuments {
    pub(super) options: ObjectOptions,
    pub(super) client: Arc<dyn ObjectStore>,
}

impl Debug for ObjectDocuments {
    // The client's own shows credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectDocuments").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ObjectDocuments {
    /// A store that connects when it is first asked.
    ///
    /// # Errors
    /// `Config` where the service needs more than was given.
    pub fn new(options: ObjectOptions) -> Result<Self> {
        let client = client(&options)?;
        Ok(Self { options, client })
    }

    /// What an object holds; none where there is no object.
    pub(super) async fn look(&self, object: &Path) -> Result<Option<(Version, Content)>> {
        let found = match self.client.get(object).await {
            Ok(found) => found,
            Err(error) if is_object_missing(&error) => return Ok(None),
            Err(error) => return Err(reading(READING, &self.options, error)),
        };
        let named = version(self.options.service, found.meta.e_tag.clone(), found.meta.version.clone());
        let bytes = found.bytes().await.map_err(|error| reading(READING, &self.options, error))?;
        let named = named.ok_or_else(|| {
            let text = format!("{READING} in {}: the service gave no version of it", self.options.shown());
            Error::new(ErrorKind::Config, text).advise("use a service that answers a read with an ETag")
        })?;
        Ok(Some((named, content(&bytes)?)))
    }
}

#[async_trait]
impl DocumentStore for ObjectDocuments {
    fn profile(&self) -> DocumentProfile {
        DocumentProfile { name: self.options.service.name(), limit: Some(LIMIT), due: DueIndex::Listed }
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        Ok(match self.look(&self.options.place.object(key)).await? {
            Some((version, Content::Document(_, json))) => Some(Stored { json, version }),
            Some((_, Content::Tombstone(_))) | None => None,
        })
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let (object, bytes) = (self.options.place.object(key), document(draft));
        let write = async |condition: Condition<'_>| {
            self.put(&object, (draft.revision, bytes.clone()), condition, TagSet::default()).await
        };
        let mut created = write(Condition::Absent).await;
        for _ in 0..LOOKS {
            if !matches!(created, Err(WriteError::Conflict)) {
                return created;
            }
            created = match self.look(&object).await? {
                Some((_, Content::Document(..))) => return Err(WriteError::Conflict),
                Some((tombstone, Content::Tombstone(_))) => write(Condition::Over(&tombstone)).await,
                None => write(Condition::Absent).await,
            };
        }
        created
    }

    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError> {
        draft.fits(LIMIT)?;
        let object = self.options.place.object(key);
        self.put(&object, (draft.revision, document(draft)), Condition::Over(over), TagSet::default()).await
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError> {
        let (object, revision) = (self.options.place.object(key), Revision(Uuid::new_v4()));
        let mut tags = TagSet::default();
        if self.options.tombstones == Tombstones::Tagged {
            tags.push("postrider", "tombstone");
        }
        self.put(&object, (revision, tombstone(revision)), Condition::Over(over), tags).await.map(|_| ())
    }

    async fn due(
        &self,
        collection: &Collection,
        _by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        let below = self.options.place.collection(collection);
        let mut listed = match after {
            Some(after) => self.client.list_with_offset(Some(&below), &self.options.place.object(after)),
            None => self.client.list(Some(&below)),
        };
        let mut named: Vec<DocumentKey> = Vec::new();
        while named.len() < at_most {
            let Some(object) = listed.next().await else { break };
            let object = object.map_err(|error| reading(LISTING, &self.options, error))?;
            if object.size == TOMBSTONE_SIZE {
                continue;
            }
            // Not every service begins behind what it is told.
            let key = self
                .options
                .place
                .document(collection, &object.location)
                .filter(|key| after.is_none_or(|after| key > after));
            if let Some(key) = key {
                if named.last().is_some_and(|last| *last >= key) {
                    let text = format!("{LISTING}: {} does not list in the order of the names", self.options.shown());
                    return Err(Error::new(ErrorKind::Config, text).advise("use a bucket of the general kind"));
                }
                named.push(key);
            }
        }
        Ok(named)
    }

    async fn prepare(&self) -> Result<()> {
        self.probe().await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.probe().await?;
        let tombstones = match self.options.tombstones {
            Tombstones::Plain => "what is deleted leaves 50 bytes for ever",
            Tombstones::Tagged => "what is deleted leaves 50 bytes with the tag postrider=tombstone",
        };
        let advice = match self.options.tombstones {
            Tombstones::Plain => "with tombstones=tagged in the URL a lifecycle rule of the bucket may expire them",
            Tombstones::Tagged => "let a lifecycle rule of the bucket expire them after a day or more",
        };
        Ok(vec![
            found(
                Level::Good,
                "documents",
                format!("in {}; a write whose condition does not hold is refused", self.options.shown()),
                "",
            ),
            found(
                Level::Good,
                "durability",
                "an answered write is as durable as the service says of an object".to_owned(),
                "",
            ),
            found(Level::Good, "tombstones", tombstones.to_owned(), advice),
        ])
    }
}
