//! Small documents beside the entities: how they are read and written.

use bytes::Bytes;
use postrider_core::{Collection, DocumentKey, Draft, Error, ErrorKind, Result, Revision, Stored, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The format of the entities and the records.
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

/// The format that something says it has, read before anything else of it; none where it says none.
///
/// # Errors
/// `Config` for one that is newer than this program knows, of what is called `what`; and what is no JSON.
pub(super) fn format_of(
    json: &[u8],
    what: &str,
    unreadable: impl Fn(serde_json::Error) -> Error,
) -> Result<Option<u32>> {
    #[derive(Deserialize)]
    struct Peek {
        format: Option<u32>,
    }
    match serde_json::from_slice::<Peek>(json).map_err(unreadable)?.format {
        Some(format) if format > FORMAT => {
            let text = format!(
                "{what} has format {format}, and this program knows formats up to {FORMAT}: a newer Postrider wrote it; \
                 upgrade this one"
            );
            Err(Error::new(ErrorKind::Config, text))
        }
        format => Ok(format),
    }
}

/// Reads a record.
///
/// # Errors
/// `Config` for one that this program did not write: it is not to be written over.
pub(super) fn read<T: DeserializeOwned>(stored: &Stored) -> Result<T> {
    let foreign = || Error::new(ErrorKind::Config, "a record cannot be read: Postrider did not write it");
    let unreadable = |error| foreign().because(error);
    match format_of(&stored.json, "a record", unreadable)? {
        Some(FORMAT) => serde_json::from_slice(&stored.json).map_err(unreadable),
        _ => Err(foreign()),
    }
}

/// Whether this one record is in the way, and not the store.
pub(super) fn is_of_the_record(error: &Error) -> bool {
    error.kind() == ErrorKind::Config
}
