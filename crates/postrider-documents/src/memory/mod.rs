//! A store in this process: the reference, and for tests.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use postrider_core::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Error, ErrorKind, Finding, Level, Result,
    Stored, Timestamp, Version, WriteError,
};

use crate::found::found;

/// Opens a store of its own: two openings share nothing.
///
/// # Errors
/// `Config` when the URL is not `memory:`.
pub async fn open(url: &str) -> Result<Arc<dyn DocumentStore>> {
    if url == "memory:" {
        return Ok(Arc::new(MemoryDocuments::new()));
    }
    let text = "a store of documents in memory has no options; it is written memory:";
    Err(Error::new(ErrorKind::Config, text))
}

/// Documents in this process. A clone is the same store.
#[derive(Debug, Clone, Default)]
pub struct MemoryDocuments {
    documents: Arc<Mutex<BTreeMap<DocumentKey, Draft>>>,
    limit: Option<u64>,
}

impl MemoryDocuments {
    /// A store without documents.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same store, which takes documents of so many bytes at most.
    #[must_use]
    pub fn limit(self, bytes: u64) -> Self {
        Self { limit: Some(bytes), ..self }
    }

    fn documents(&self) -> MutexGuard<'_, BTreeMap<DocumentKey, Draft>> {
        // A document is replaced whole: one that panicked left no half of it.
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fits(&self, draft: &Draft) -> std::result::Result<(), WriteError> {
        self.limit.map_or(Ok(()), |limit| draft.fits(limit))
    }
}

#[async_trait]
impl DocumentStore for MemoryDocuments {
    fn profile(&self) -> DocumentProfile {
        DocumentProfile { name: "memory", limit: self.limit, due: DueIndex::Indexed }
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        let documents = self.documents();
        Ok(documents.get(key).map(|draft| Stored { json: draft.json.clone(), version: draft.version() }))
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError> {
        self.fits(draft)?;
        let mut documents = self.documents();
        if documents.contains_key(key) {
            return Err(WriteError::Conflict);
        }
        documents.insert(key.clone(), draft.clone());
        Ok(draft.version())
    }

    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError> {
        self.fits(draft)?;
        match self.documents().get_mut(key) {
            Some(known) if known.version() == *over => *known = draft.clone(),
            _ => return Err(WriteError::Conflict),
        }
        Ok(draft.version())
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError> {
        let mut documents = self.documents();
        if documents.get(key).is_none_or(|known| known.version() != *over) {
            return Err(WriteError::Conflict);
        }
        documents.remove(key);
        Ok(())
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        let documents = self.documents();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = documents.range::<DocumentKey, _>((from, Bound::Unbounded));
        let due =
            behind.filter(|(key, draft)| key.collection() == collection && draft.due.is_some_and(|due| due <= by));
        Ok(due.map(|(key, _)| key.clone()).take(at_most).collect())
    }

    async fn prepare(&self) -> Result<()> {
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let advice = "for tests only: everything is lost with the process";
        Ok(vec![found(Level::Warning, "documents", "kept in memory".to_owned(), advice)])
    }
}
