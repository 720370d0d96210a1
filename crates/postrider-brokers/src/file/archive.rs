//! An archive of rows that retention removes, as lines of JSON.

use std::path::PathBuf;

use async_trait::async_trait;
use postrider_core::{Archive, DeadReason, Error, ErrorKind, Key, Message, PastRow, Result, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::lines::Lines;
use super::rotation::Rotation;
use crate::config::BrokerConfig;
use crate::json_line::{Pairs, Payload};

/// How many bytes of lines are written at a time, and the rest of a row: the rows are in memory already, and need not
/// all be there as lines too.
const PIECE: usize = 256 << 10;

/// An archive in a file, which rotates as that of the file broker does.
///
/// The file is open, and its lock held, only while rows are written: several relays of a machine may be given the same
/// one, and the one that keeps house uses it. A row is one line, with `archived` (`delivered` or `dead`), `row`, `id`,
/// `topic`, `key`, `content_type`, `headers`, `attributes`, `created_at`, `attempts`, `payload` or `payload_base64`, and
/// `settled_at`, or `dead_at`, `reason` and `errors`. Moments are RFC 3339 in UTC.
#[derive(Debug, Clone)]
pub struct ArchiveFile {
    path: PathBuf,
    rotation: Rotation,
}

impl ArchiveFile {
    /// An archive in this file; it is opened when there is something to keep.
    pub fn new(path: impl Into<PathBuf>, rotation: Rotation) -> Self {
        Self { path: path.into(), rotation }
    }

    /// The archive of an address, `file:archive.jsonl` or `file:///path/archive.jsonl`, with the options of the file broker
    /// in its query.
    ///
    /// # Errors
    /// `Config` for any other address, and for options that the file broker does not take.
    pub fn at(url: &str) -> Result<Self> {
        let config = BrokerConfig::new(url);
        if config.scheme() != "file" {
            let text = format!(
                "the archive {:?}: expected a file, such as file:///var/lib/postrider/archive.jsonl?rotate_size=64MiB",
                config.shown()
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        let (path, rotation) = super::place(&config)?;
        Ok(Self { path, rotation })
    }
}

#[async_trait]
impl Archive for ArchiveFile {
    async fn keep(&self, rows: &[PastRow]) -> Result<()> {
        let (path, rotation) = (self.path.clone(), self.rotation);
        let mut lines = on_a_thread(move || Lines::open(path, rotation)).await?;
        let mut rows = rows.iter();
        while let Some(text) = piece(&mut rows)? {
            lines = on_a_thread(move || lines.append(&text).map(|()| lines)).await?;
        }
        Ok(())
    }
}

/// A cancelled call leaves the thread to finish its piece: the lines are then there, and are repeated.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|lost| Error::new(ErrorKind::Unknown, format!("writing the archive: {lost}")))?
}

/// The lines of the next rows; none when there are no more.
fn piece(rows: &mut std::slice::Iter<'_, PastRow>) -> Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    while text.len() < PIECE
        && let Some(row) = rows.next()
    {
        serde_json::to_writer(&mut text, &Line::of(row))
            .map_err(|error| Error::new(ErrorKind::Rejected, "writing an archived row as JSON").because(error))?;
        text.push(b'\n');
    }
    Ok((!text.is_empty()).then_some(text))
}

/// One row as it stands in the archive.
#[derive(Serialize)]
struct Line<'a> {
    archived: &'static str,
    row: i64,
    id: String,
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    headers: Pairs<'a>,
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    attributes: Pairs<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    attempts: u32,
    #[serde(flatten)]
    end: End,
    #[serde(flatten)]
    payload: Payload<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum End {
    Delivered {
        settled_at: String,
    },
    Dead {
        dead_at: Option<String>,
        reason: Option<&'static str>,
        /// The last failed attempts, as they stand in the table.
        errors: Option<Value>,
    },
}

impl<'a> Line<'a> {
    fn of(row: &'a PastRow) -> Self {
        match row {
            PastRow::Delivered(view) => {
                let end = End::Delivered { settled_at: written(view.settled_at) };
                Self::with(&view.message, view.row.0, view.attempts, end)
            }
            PastRow::Dead(view) => {
                let end = End::Dead {
                    dead_at: view.dead_at.map(written),
                    reason: view.dead_reason.map(DeadReason::as_str),
                    errors: view.errors.as_deref().map(as_json),
                };
                Self::with(&view.message, view.row.0, view.attempts, end)
            }
        }
    }

    fn with(message: &'a Message, row: i64, attempts: u32, end: End) -> Self {
        Self {
            archived: match end {
                End::Delivered { .. } => "delivered",
                End::Dead { .. } => "dead",
            },
            row,
            id: message.id.to_string(),
            topic: message.topic.as_str(),
            key: message.key.as_ref().map(Key::as_str),
            content_type: message.content_type.as_deref(),
            headers: message.headers.iter().collect(),
            attributes: message.attributes.iter().collect(),
            created_at: message.created_at.map(written),
            attempts,
            end,
            payload: Payload::of(message),
        }
    }
}

/// A column of JSON; a foreign hand may have written something else into it, which is kept as a text.
fn as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// RFC 3339 in UTC; a moment that no calendar has is written as its number.
fn written(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(|_| at.0.to_string(), |moment| format!("{moment:.6}"))
}
