//! Where the receiving side keeps what is not in a SQL transaction: documents with conditional writes.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Invalid, Timestamp};
use crate::seams::Finding;

/// The longest name of a document, in bytes: three times of it, with every byte escaped, fits the key of an object store.
const LONGEST_NAME: usize = 255;
/// The longest name of a collection, in bytes.
const LONGEST_COLLECTION: usize = 40;

/// Which documents of a store belong together: the entities of one kind, the known ids of one consumer.
///
/// 1 to 40 bytes: lower case letters of ASCII, digits, `-` and `_`, a letter first. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection(Arc<str>);

impl Collection {
    /// The collection of this name.
    ///
    /// # Errors
    /// For any other name, with what was expected.
    pub fn new(name: &str) -> std::result::Result<Self, Invalid> {
        let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let first = name.starts_with(|c: char| c.is_ascii_lowercase());
        if first && name.len() <= LONGEST_COLLECTION && name.chars().all(part) {
            return Ok(Self(name.into()));
        }
        let expected = "expected 1 to 40 lower case letters, digits, '-' or '_', a letter first";
        Err(Invalid::Grammar { what: "the collection", found: shown(name), expected })
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which document: a name within a collection.
///
/// The name has 1 to 255 bytes of UTF-8 without control characters. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    collection: Collection,
    name: Arc<str>,
}

impl DocumentKey {
    /// The document of this name.
    ///
    /// # Errors
    /// For any other name, with what was expected.
    pub fn new(collection: &Collection, name: &str) -> std::result::Result<Self, Invalid> {
        if (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(char::is_control) {
            return Ok(Self { collection: collection.clone(), name: name.into() });
        }
        let expected = "expected 1 to 255 bytes without control characters";
        Err(Invalid::Grammar { what: "the name of a document", found: shown(name), expected })
    }

    /// What it belongs to.
    pub const fn collection(&self) -> &Collection {
        &self.collection
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.collection, self.name)
    }
}

fn shown(name: &str) -> String {
    name.chars().take(60).collect()
}

/// What tells one write from every other: a fresh one for each, so that no version ever comes back.
///
/// A store whose versions are hashes of the content (an ETag of S3) takes it into the content: otherwise a late writer would
/// succeed over a document that was changed and changed back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Revision(pub Uuid);

/// What a store calls the state of a document after one write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub String);

/// A document as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// A text of JSON. A store may keep it in a form of its own and give back another text of the same value; no string
    /// or name in it has the character U+0000, which PostgreSQL takes into no JSON.
    pub json: Bytes,
    /// When [`DocumentStore::due`] is to name it; never without.
    pub due: Option<Timestamp>,
    /// What tells this write from every other.
    pub revision: Revision,
}

impl Draft {
    /// Whether it is as small as a store takes it, which is to be known before anything is written.
    ///
    /// # Errors
    /// [`TooLarge`](WriteError::TooLarge) where its JSON has more than so many bytes.
    pub fn fits(&self, limit: u64) -> std::result::Result<(), WriteError> {
        let actual = u64::try_from(self.json.len()).unwrap_or(u64::MAX);
        if actual > limit { Err(WriteError::TooLarge { limit, actual }) } else { Ok(()) }
    }

    /// Its JSON, for a store that keeps text.
    ///
    /// # Errors
    /// `Rejected` where it is no UTF-8.
    pub fn text(&self) -> Result<&str> {
        let text = std::str::from_utf8(&self.json);
        text.map_err(|_| Error::new(ErrorKind::Rejected, "the document is no text of JSON: it is not UTF-8"))
    }

    /// The version that it has where a store calls a document's state by the revision of its write.
    pub fn version(&self) -> Version {
        Version(self.revision.0.to_string())
    }
}

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The JSON.
    pub json: Bytes,
    /// The version that the next write names.
    pub version: Version,
}

/// Why a document was not written.
#[derive(Debug)]
pub enum WriteError {
    /// The document is not as the caller thought, and this call certainly changed nothing.
    Conflict,
    /// It is larger than the store takes. Nothing was written.
    TooLarge {
        /// The most bytes that the store takes.
        limit: u64,
        /// How many they would be.
        actual: u64,
    },
    /// The store failed. [`Unknown`](crate::ErrorKind::Unknown): it may be written, or be written later; with every other
    /// kind it certainly is not.
    Failed(Error),
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How a store finds the documents that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueIndex {
    /// By an index: as many reads as there are documents due.
    Indexed,
    /// It names every document: each is read to find those that are due.
    Listed,
}

/// What a store of documents can do, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentProfile {
    /// The name of the backend, such as `postgres`.
    pub name: &'static str,
    /// The most bytes of the JSON of one document; none where nothing is known of a limit.
    pub limit: Option<u64>,
    /// How due documents are found.
    pub due: DueIndex,
}

/// A store of documents, in which a write succeeds only over the version that its writer read.
///
/// Everything that the receiving side keeps outside a SQL transaction is such documents: entities, known ids, tokens,
/// answers to idempotency keys. An implementation promises:
///
/// * a read sees every write that was answered before it began, whoever made it;
/// * of writers over the same version, or of creators of one document, one succeeds at most;
/// * a write that was answered is as durable as its `profile` and `check` say;
/// * where a client repeats a request by itself, a conflict with the caller's own first attempt is no
///   [`Conflict`](WriteError::Conflict): the document is read again and its revision compared;
/// * a call that is dropped leaves the document as it was or as it was to be.
///
/// `postrider-testkit` has the suite that every implementation passes, `suites::documents`.
#[async_trait]
pub trait DocumentStore: Send + Sync + Debug {
    /// What this store can do.
    fn profile(&self) -> DocumentProfile;

    /// Reads a document; none where there is none.
    ///
    /// # Errors
    /// When it cannot be read: [`Unavailable`](crate::ErrorKind::Unavailable), [`Throttled`](crate::ErrorKind::Throttled)
    /// or [`Config`](crate::ErrorKind::Config).
    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>>;

    /// Writes a document that does not exist.
    ///
    /// # Errors
    /// [`Conflict`](WriteError::Conflict) where it exists.
    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError>;

    /// Writes a document over the version that was read.
    ///
    /// # Errors
    /// [`Conflict`](WriteError::Conflict) where it has another version, or does not exist.
    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError>;

    /// Deletes a document at the version that was read.
    ///
    /// # Errors
    /// [`Conflict`](WriteError::Conflict) where it has another version, or does not exist.
    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError>;

    /// Names the documents of a collection that are due at `by`, in the order of their names from behind `after`, at most
    /// so many: fewer than `at_most` are the last ones. It may name others, and is no reading of the present: whoever asks
    /// loads each.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>>;

    /// Makes what the store needs before the first document, where it can: tables and indexes. Again does no harm.
    ///
    /// # Errors
    /// `Unavailable` or `Config`, with what to do.
    async fn prepare(&self) -> Result<()>;

    /// Whether the store is there and prepared, and what to know about its durability and consistency.
    ///
    /// # Errors
    /// `Unavailable` or `Config`, with what to do.
    async fn check(&self) -> Result<Vec<Finding>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_not_every_store_takes_are_refused_with_what_is_expected() {
        let carts = Collection::new("carts").unwrap();
        for name in ["", "Carts", "7up", "a/b", &"a".repeat(41)] {
            assert!(Collection::new(name).is_err(), "{name}");
        }
        for name in ["", "a\nb", &"\u{e9}".repeat(128)] {
            assert!(DocumentKey::new(&carts, name).is_err(), "{name}");
        }
        let key = DocumentKey::new(&carts, "jos\u{e9} / 7").unwrap();
        assert_eq!((key.collection(), key.name()), (&carts, "jos\u{e9} / 7"));
        assert_eq!(key.to_string(), "carts/jos\u{e9} / 7");
        assert!(Collection::new(&"a".repeat(40)).is_ok());
    }
}
