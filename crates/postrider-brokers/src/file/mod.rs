//! A file of JSON lines: `file:///var/lib/postrider/out.jsonl`, or `file:out.jsonl` in the working folder.
//!
//! **Promises**: acknowledged after the batch's lines are on disk (one fdatasync per batch, and an fsync of the folder
//! when the file is created); lines in the order of the batch; a batch that could not be written whole leaves no line
//! behind; a line torn by a crash is cut off when the file is opened again, and its message is written again.
//!
//! **Does not promise**: removal of repeats: a message whose acknowledgement was lost in a crash stands there twice,
//! with the same id.
//!
//! One process writes a file at a time (it holds the file's lock). When the file is moved away or removed (`logrotate`
//! without `copytruncate`), the next batch begins a new one. Where the path is a symbolic link, the file is the one
//! that the link names when it is opened.
//!
//! **Rotation**: with `rotate_size` or `rotate_age` the file gives way to a new one between two batches, as
//! `out.jsonl.20260131T235959.123456Z`, which is whole and never written again. The file, its new name and the new file
//! are synced before anything is written to the new one, so that no line is torn or lost whenever the process or the
//! machine dies. A file that cannot be rotated pauses the destination. Its age counts from when it was made, or where the
//! file system does not know that, from when it was last written before this process.
//!
//! **A line** is `{"id", "topic", "destination", "key"?, "content_type"?, "headers", "attributes"?, "payload" |
//! "payload_base64"}`: `headers` carries the user's own and then the `postrider-*` ones; the payload is `payload` when
//! it is UTF-8 and `payload_base64` otherwise.
//!
//! **Options**, also in the query of the URL: `rotate_size`, beyond which no file grows (`"64MiB"`, from `"1KiB"`) ·
//! `rotate_age`, after which a file gives way before the next batch (`"1h"`, from `"1s"`) · `keep`, how many old files
//! stay, all unless it is set (1 to 100,000; needs one of the two). The destination of a message is written into its line; it does not
//! choose the file.

mod archive;
mod lines;
mod rotation;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Accepted, Broker, BrokerProfile, Destination, Durability, Error, ErrorKind, Finding, Isolation, OrderInBatch,
    Outgoing, Published, Result,
};
use tokio::sync::Mutex;
use url::Url;

use crate::config::BrokerConfig;
use crate::json_line;
use crate::options::Options;
pub use archive::ArchiveFile;
use lines::Lines;
pub use rotation::Rotation;

/// The smallest size at which a file may give way.
const SMALLEST: u64 = 1 << 10;
/// The largest.
const LARGEST: u64 = 1 << 40;
/// The shortest age.
const YOUNGEST: Duration = Duration::from_secs(1);
/// The longest: a year.
const OLDEST: Duration = Duration::from_secs(366 * 86_400);
/// The most old files that may be kept.
const MOST_KEPT: usize = 100_000;

/// A broker that appends lines to a file and syncs once per batch.
#[derive(Debug)]
pub struct FileBroker {
    lines: Arc<Mutex<Lines>>,
}

impl FileBroker {
    /// Opens or creates the file, cuts off a torn last line, and takes the file's lock.
    ///
    /// # Errors
    /// `Config` when the file can't be opened or another process writes it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::rotating(path, Rotation::default())
    }

    /// The same with a rotation.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn rotating(path: impl Into<PathBuf>, rotation: Rotation) -> Result<Self> {
        Ok(Self { lines: Arc::new(Mutex::new(Lines::open(path.into(), rotation)?)) })
    }
}

#[async_trait]
impl Broker for FileBroker {
    fn profile(&self) -> BrokerProfile {
        BrokerProfile {
            name: "file",
            order: OrderInBatch::Kept,
            isolation: Isolation::SharedConnection,
            durability: Durability::Durable,
            max_batch: 1000,
            max_concurrent: 1,
        }
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        let mut text = Vec::new();
        for outgoing in batch {
            if let Err(error) = json_line::write(outgoing, &mut text) {
                return failed(batch.len(), &Error::new(ErrorKind::Rejected, format!("writing JSON: {error}")));
            }
        }
        let mut lines = Arc::clone(&self.lines).lock_owned().await;
        // A cancelled call leaves the thread to finish its batch: the lines are then there, and are repeated.
        match tokio::task::spawn_blocking(move || lines.append(&text)).await {
            Ok(Ok(())) => batch.iter().map(|_| Published::Accepted(Accepted::FRESH)).collect(),
            Ok(Err(error)) => failed(batch.len(), &error),
            Err(lost) => failed(batch.len(), &Error::new(ErrorKind::Unknown, format!("writing lines: {lost}"))),
        }
    }

    async fn check(&self, _destinations: &[Destination]) -> Result<Vec<Finding>> {
        let mut lines = Arc::clone(&self.lines).lock_owned().await;
        match tokio::task::spawn_blocking(move || lines.follow()).await {
            Ok(result) => result.map(|()| Vec::new()),
            Err(lost) => Err(Error::new(ErrorKind::Unavailable, format!("looking at the file: {lost}"))),
        }
    }

    async fn close(&self) {
        // Everything acknowledged is on disk, and the lock goes with the file.
    }
}

fn failed(length: usize, error: &Error) -> Vec<Published> {
    (0..length).map(|_| Published::Failed(Error::new(error.kind(), error.story()))).collect()
}

pub(crate) fn open(config: &BrokerConfig) -> Result<Arc<dyn Broker>> {
    let (path, rotation) = place(config)?;
    Ok(Arc::new(FileBroker::rotating(path, rotation)?))
}

/// The file that a configuration names, and its rotation.
fn place(config: &BrokerConfig) -> Result<(PathBuf, Rotation)> {
    let options = Options::with_query(config);
    let rotation = rotation(&options)?;
    options.finish()?;
    let Some(path) = path(&config.url).filter(|path| path.file_name().is_some()) else {
        let text = format!(
            "the broker {}: expected file:// and an absolute path of a file, such as \
             file:///var/lib/postrider/out.jsonl, or file: and a path below the working folder",
            config.shown()
        );
        return Err(Error::new(ErrorKind::Config, text));
    };
    Ok((path, rotation))
}

fn rotation(options: &Options<'_>) -> Result<Rotation> {
    let size = options.size("rotate_size", SMALLEST..=LARGEST)?;
    let age = options.optional_duration("rotate_age", YOUNGEST..=OLDEST)?;
    let keep = options.optional_number("keep", 1..=MOST_KEPT)?.and_then(NonZeroUsize::new);
    if keep.is_some() && size.is_none() && age.is_none() {
        return Err(options.wrong("keep", "rotate_size or rotate_age beside it: without them there are no old files"));
    }
    Ok(Rotation { size, age, keep })
}

/// The file that a URL names; a path without a leading slash begins at the working folder.
fn path(url: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().ok().and_then(|here| Url::from_directory_path(here).ok());
    let (_, rest) = url.split_once(':')?;
    // Without a working folder a relative path would silently begin at the root.
    if rest.is_empty() || (here.is_none() && !rest.starts_with('/')) {
        return None;
    }
    Url::options().base_url(here.as_ref()).parse(url).ok()?.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_stands_in_the_table_or_in_the_query() {
        let read = |config: BrokerConfig| {
            let options = Options::with_query(&config);
            let rotation = rotation(&options)?;
            options.finish().map(|()| rotation)
        };
        let in_query = read(BrokerConfig::new("file:out.jsonl?rotate_size=64MiB&rotate_age=1h&keep=9")).unwrap();
        let table = BrokerConfig::new("file:out.jsonl").option("rotate_size", 64 << 20).option("rotate_age", "60m");
        assert_eq!(in_query, read(table.option("keep", 9)).unwrap());
        let expected =
            Rotation { size: Some(64 << 20), age: Some(Duration::from_secs(3_600)), keep: NonZeroUsize::new(9) };
        assert_eq!(in_query, expected);
        assert_eq!(read(BrokerConfig::new("file:out.jsonl")).unwrap(), Rotation::default());
        for bad in [
            "rotate_size=1",
            "rotate_size=1MB5",
            "rotate_age=0s",
            "rotate_age=1d",
            "keep=1",
            "rotate_age=1h&keep=0",
            "rotat_age=1h",
        ] {
            let error = read(BrokerConfig::new(format!("file:out.jsonl?{bad}"))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{bad}");
        }
    }

    #[test]
    fn a_path_without_a_leading_slash_begins_at_the_working_folder() {
        let here = std::env::current_dir().unwrap();
        for (url, expected) in [
            ("file:out.jsonl", "out.jsonl"),
            ("FILE:./sub/a%20b.jsonl", "sub/a b.jsonl"),
            ("file:a b.jsonl", "a b.jsonl"),
            ("file:out.jsonl?rotate_size=1MiB", "out.jsonl"),
        ] {
            assert_eq!(path(url), Some(here.join(expected)), "{url}");
        }
        for url in ["file:///var/out.jsonl", "file:/var/out.jsonl", "file://localhost/var/out.jsonl"] {
            assert_eq!(path(url), Some(PathBuf::from("/var/out.jsonl")), "{url}");
        }
        for url in ["file:", "file://host/out.jsonl"] {
            assert_eq!(path(url), None, "{url}");
        }
    }
}
