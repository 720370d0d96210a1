//! What more than one store says of what it found.

#[cfg(any(feature = "dynamodb", feature = "postgres", feature = "redis", feature = "sqlite"))]
use postrider_core::{Collection, DocumentKey, Error, ErrorKind, Result};
use postrider_core::{Finding, Level};

/// A finding of `check`.
pub(crate) fn found(level: Level, subject: &str, found: String, advice: &str) -> Finding {
    Finding { level, subject: subject.to_owned(), found, advice: advice.to_owned() }
}

/// The document of a name that a table or an index has.
///
/// # Errors
/// `Config` where no document can have it.
#[cfg(any(feature = "dynamodb", feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) fn named(collection: &Collection, name: &str) -> Result<DocumentKey> {
    DocumentKey::new(collection, name).map_err(|error| {
        Error::new(ErrorKind::Config, "finding what is due: the store has a name that no document has").because(error)
    })
}
