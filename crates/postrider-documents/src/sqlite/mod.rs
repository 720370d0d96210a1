//! SQLite: each document is a row of `postrider_document` in a file that any number of processes on this machine share.
//!
//! Every write is one statement over a revision, which SQLite commits by itself: it has one writer, and the others wait up
//! to five seconds for their turn. The file is in WAL mode with `synchronous = full`: an answered write is on the disk, and
//! a read begins at the last commit. The file must be on a disk of this machine: the locks of network file systems do not
//! hold.
//!
//! The URL is `sqlite:///absolute/path.db` or `sqlite:relative.db`; the path is taken as it stands, without decoding, and
//! there are no options. It may be the file of the application, or of its outbox.

mod classify;
mod file;
mod store;

use std::path::PathBuf;
use std::sync::Arc;

use postrider_core::{DocumentStore, Error, ErrorKind, Result};

pub use store::SqliteDocuments;

/// The most bytes of the JSON of one document. SQLite takes more, but reads and writes each document whole.
pub const LIMIT: u64 = 16 << 20;

/// Opens the store of a URL. The file is not looked at before the first call.
///
/// # Errors
/// `Config` when the URL names no file or has options.
pub async fn open(url: &str) -> Result<Arc<dyn DocumentStore>> {
    Ok(Arc::new(SqliteDocuments::new(path(url)?)))
}

fn path(url: &str) -> Result<PathBuf> {
    let refuse = |why: &str| {
        let what = format!(
            "the URL of the SQLite documents: {why}; expected sqlite:///absolute/path.db or sqlite:relative.db"
        );
        Error::new(ErrorKind::Config, what)
    };
    let rest = url.strip_prefix("sqlite:").ok_or_else(|| refuse("this is no SQLite URL"))?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path.ends_with('/') {
        return Err(refuse("there is no file name"));
    }
    if path.contains('?') {
        return Err(refuse("there are no options"));
    }
    if path.contains(":memory:") {
        return Err(refuse("a database in memory is memory:, which needs no SQLite"));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn urls_name_absolute_and_relative_files() {
        for (url, file) in [
            ("sqlite:///var/app.db", "/var/app.db"),
            ("sqlite:app.db", "app.db"),
            ("sqlite:///with space/\u{e4}.db", "/with space/\u{e4}.db"),
        ] {
            assert_eq!(path(url).unwrap(), Path::new(file), "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_what_is_expected() {
        for url in
            ["sqlite:", "sqlite://", "sqlite:///tmp/", "sqlite:a.db?mode=ro", "sqlite::memory:", "postgres://x/y"]
        {
            let error = path(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("sqlite:///absolute/path.db"), "{error}");
        }
    }
}
