//! Small documents beside the entities: how they are read and written.

use bytes::Bytes;
use postrider_core::{Collection, DocumentKey, Draft, Error, ErrorKind, Result, Revision, Stored, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// The format of the records.
pub(super) const FORMAT: u32 = 1;

/// The key of this name.
pub(super) fn key(collection: &Collection, name: &str) -> Result<DocumentKey> {
    DocumentKey::new(collection, name).map_err(|invalid| Error::new(ErrorKind::Config, invalid.to_string()))
}

/// A write of this record.
pub(super) fn draft(record: &impl Serialize, due: Option<Timestamp>) -> Result<Draft> {
    let failed = |error| Error::new(ErrorKind::Rejected, "a record cannot be written as JSON").because(error);
    let json = serde_json::to_vec(record).map(Bytes::from).map_err(failed)?;
    Ok(Draft { json, due, revision: Revision(Uuid::new_v4()) })
}

/// Reads a record.
pub(super) fn read<T: DeserializeOwned>(stored: &Stored) -> Result<T> {
    serde_json::from_slice(&stored.json).map_err(|error| {
        let text = "a record cannot be read: a newer Postrider wrote it, or it is something else";
        Error::new(ErrorKind::Config, text).because(error)
    })
}
