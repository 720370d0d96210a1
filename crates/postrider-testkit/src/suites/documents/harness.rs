//! What the suite needs to know about a store of documents, and the words of its cases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{Collection, DocumentKey, DocumentStore, Draft, Revision, Stored, Version, WriteError};
use serde_json::Value;
use uuid::Uuid;

use crate::suites::Exclusion;

/// One place of its own for documents, prepared and empty when it is made.
#[async_trait]
pub trait DocumentHarness: Send + Sync {
    /// A client of the place: each call gives another one, as another process would have it.
    async fn client(&self) -> Arc<dyn DocumentStore>;

    /// A client of a place where nothing is prepared; each call gives another client of the same place.
    async fn unprepared(&self) -> Arc<dyn DocumentStore>;

    /// Takes the store away from its clients.
    async fn stop(&self);

    /// Brings it back, with what was written.
    async fn start(&self);

    /// Ends the store as a crash of its process does, and starts it again on what is there.
    async fn crash(&self);

    /// How long a call may take at most, whatever happens: the store's own deadline and a little more.
    fn deadline(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// How often a race is run.
    fn rounds(&self) -> usize {
        100
    }

    /// A text that stands in the credentials and must never be shown, if there are any.
    fn secret(&self) -> Option<String> {
        None
    }

    /// The cases that this store can't pass by its nature.
    fn exclusions(&self) -> &'static [Exclusion] {
        &[]
    }
}

/// A collection of the suite.
pub(super) fn collection(name: &str) -> Collection {
    Collection::new(name).expect("the suite's own collection is legal")
}

/// A document of the suite.
pub fn key(name: &str) -> DocumentKey {
    DocumentKey::new(&collection("carts"), name).expect("the suite's own name is legal")
}

/// A write of this JSON that is never due, with a revision of its own.
pub fn draft(json: impl Into<Bytes>) -> Draft {
    Draft { json: json.into(), due: None, revision: Revision(Uuid::new_v4()) }
}

/// A write of a number.
pub(super) fn number(n: usize) -> Draft {
    draft(format!("{{\"n\": {n}}}"))
}

/// The value of a text of JSON.
pub(super) fn value(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_else(|error| panic!("{:?}: {error}", String::from_utf8_lossy(json)))
}

/// The number that stands in a document.
pub(super) fn counted(stored: &Stored) -> usize {
    let counted = value(&stored.json)["n"].as_u64().expect("the document has a number");
    usize::try_from(counted).expect("the number is small")
}

/// Reads a document that is there.
pub(super) async fn loaded(store: &Arc<dyn DocumentStore>, key: &DocumentKey) -> Stored {
    store.load(key).await.expect("the document is read").unwrap_or_else(|| panic!("there is no document {key}"))
}

/// Demands that a document has this value and this version.
pub(super) async fn holds(store: &Arc<dyn DocumentStore>, key: &DocumentKey, draft: &Draft, version: &Version) {
    let stored = loaded(store, key).await;
    assert_eq!(value(&stored.json), value(&draft.json), "the value of {key}");
    assert_eq!(&stored.version, version, "the version of {key}");
}

/// Demands that there is no such document.
pub(super) async fn absent(store: &Arc<dyn DocumentStore>, key: &DocumentKey) {
    let found = store.load(key).await.expect("the document is read");
    assert!(found.is_none(), "there is a document {key}: {:?}", found.map(|found| found.version));
}

/// Demands that a write was refused because the document is not as the caller thought.
pub(super) fn conflict<T: std::fmt::Debug>(written: Result<T, WriteError>) {
    assert!(matches!(written, Err(WriteError::Conflict)), "expected a conflict, found {written:?}");
}
