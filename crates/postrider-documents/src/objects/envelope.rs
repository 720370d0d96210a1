//! What an object holds.

use bytes::Bytes;
use postrider_core::{Draft, Error, ErrorKind, Result, Revision};
use uuid::Uuid;

const REVISION: &[u8] = b"{\"revision\":\"";
const DOCUMENT: &[u8] = b"\",\"document\":";
const TOMBSTONE: &[u8] = b"{\"tombstone\":\"";
const TOMBSTONE_END: &[u8] = b"\"}";
const END: &[u8] = b"}";
const UUID: usize = 36;

/// The size of a tombstone, by which a list tells it from a document: the smallest envelope is larger.
pub(super) const TOMBSTONE_SIZE: u64 = (TOMBSTONE.len() + UUID + TOMBSTONE_END.len()) as u64;

/// What was found in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A document, and the revision of its write.
    Document(Revision, Bytes),
    /// That a document was deleted, by this delete.
    Tombstone(Revision),
}

/// The object of a document.
pub(super) fn document(draft: &Draft) -> Bytes {
    let revision = draft.revision.0.to_string();
    [REVISION, revision.as_bytes(), DOCUMENT, &draft.json, END].concat().into()
}

/// The object of a document that is deleted.
pub(super) fn tombstone(revision: Revision) -> Bytes {
    [TOMBSTONE, revision.0.to_string().as_bytes(), TOMBSTONE_END].concat().into()
}

/// What an object holds.
///
/// # Errors
/// `Config` where somebody else wrote it.
pub(super) fn content(object: &Bytes) -> Result<Content> {
    read(object).ok_or_else(|| {
        Error::new(ErrorKind::Config, "reading a document: the object is no document of postrider")
            .advise("give the documents a prefix of their own, where nobody else writes")
    })
}

fn read(object: &Bytes) -> Option<Content> {
    if let Some(rest) = object.strip_prefix(TOMBSTONE) {
        return Some(Content::Tombstone(revision(rest.strip_suffix(TOMBSTONE_END)?)?));
    }
    let (id, rest) = object.strip_prefix(REVISION)?.split_at_checked(UUID)?;
    let json = rest.strip_prefix(DOCUMENT)?.strip_suffix(END)?;
    Some(Content::Document(revision(id)?, object.slice_ref(json)))
}

fn revision(text: &[u8]) -> Option<Revision> {
    Uuid::try_parse_ascii(text).ok().map(Revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Revision = Revision(Uuid::from_u128(7));

    #[test]
    fn what_was_written_is_read_and_is_json_for_everybody() {
        for json in ["0", "{\"a\":\"}\"}", " [1, 2] "] {
            let object = document(&Draft { json: Bytes::from_static(json.as_bytes()), due: None, revision: ID });
            assert_eq!(content(&object).unwrap(), Content::Document(ID, json.into()));
            assert!(object.len() as u64 > TOMBSTONE_SIZE);
            let value: serde_json::Value = serde_json::from_slice(&object).unwrap();
            assert_eq!(value["document"], serde_json::from_str::<serde_json::Value>(json).unwrap());
        }
        let gone = tombstone(ID);
        assert_eq!((content(&gone).unwrap(), gone.len() as u64), (Content::Tombstone(ID), TOMBSTONE_SIZE));
        assert!(serde_json::from_slice::<serde_json::Value>(&gone).is_ok());
    }

    #[test]
    fn what_somebody_else_wrote_is_refused() {
        for other in ["", "{}", "{\"revision\":\"7\",\"document\":0}", "{\"tombstone\":\"7\"}"] {
            let error = content(&Bytes::from_static(other.as_bytes())).unwrap_err();
            assert!(error.advice().is_some(), "{error}");
        }
    }
}
