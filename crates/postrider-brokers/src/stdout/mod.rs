//! Standard output, one line of JSON per message: `stdout:`.
//!
//! **Promises**: acknowledged after the whole line was written and flushed; lines in the order of the batch.
//!
//! **Does not promise**: durability (level `none`): whoever reads the pipe may lose what it read. A reader that stops reading for 30 s makes
//! messages fail, and they are written again when it goes on.
//!
//! **Options**: none. The line is `{"id", "topic", "destination", "key"?, "content_type"?, "headers", "attributes"?,
//! "payload" | "payload_base64"}`, see [`crate::file`].

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Accepted, Broker, BrokerProfile, Destination, Durability, Error, ErrorKind, Finding, Isolation, Level,
    OrderInBatch, Outgoing, Published, Result,
};
use tokio::sync::Mutex;

use crate::config::BrokerConfig;
use crate::json_line;
use crate::options::Options;

/// How long a reader may leave the pipe full.
const DEADLINE: Duration = Duration::from_secs(30);

/// A broker that writes lines to standard output, or to another writer that takes its place.
pub struct StdoutBroker {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
    deadline: Duration,
}

impl StdoutBroker {
    /// Writes to standard output.
    pub fn stdout() -> Self {
        Self::writing_to(io::stdout())
    }

    /// Writes to a writer.
    pub fn writing_to(out: impl Write + Send + 'static) -> Self {
        Self { out: Arc::new(Mutex::new(Box::new(out))), deadline: DEADLINE }
    }

    /// The same broker with another time that a reader may leave the pipe full (default: 30 s).
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

impl fmt::Debug for StdoutBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdoutBroker").finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for StdoutBroker {
    fn profile(&self) -> BrokerProfile {
        BrokerProfile {
            name: "stdout",
            order: OrderInBatch::Kept,
            isolation: Isolation::SharedConnection,
            durability: Durability::None,
            max_batch: 1000,
            max_concurrent: 1,
        }
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        let mut text = Vec::new();
        for outgoing in batch {
            if let Err(error) = json_line::write(outgoing, &mut text) {
                return failed(batch.len(), || Error::new(ErrorKind::Rejected, format!("writing JSON: {error}")));
            }
        }
        let Ok(mut out) = Arc::clone(&self.out).try_lock_owned() else {
            let text = "standard output is still blocked by an earlier write; is its reader reading?";
            return failed(batch.len(), || Error::new(ErrorKind::Unavailable, text));
        };
        // A pipe that nobody reads blocks its writer, so the write has a thread of its own and this call a deadline.
        let write = tokio::task::spawn_blocking(move || out.write_all(&text).and_then(|()| out.flush()));
        let written = match tokio::time::timeout(self.deadline, write).await {
            Ok(Ok(written)) => written,
            Ok(Err(lost)) => Err(io::Error::other(lost)),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the reader did not read in time")),
        };
        match written {
            Ok(()) => batch.iter().map(|_| Published::Accepted(Accepted::FRESH)).collect(),
            Err(error) => failed(batch.len(), || classify(&error)),
        }
    }

    async fn check(&self, _destinations: &[Destination]) -> Result<Vec<Finding>> {
        Ok(vec![Finding {
            level: Level::Warning,
            subject: "stdout".to_owned(),
            found: "lines on standard output are not durable".to_owned(),
            advice: "publish to a file or to a broker where that matters".to_owned(),
        }])
    }

    async fn close(&self) {}
}

fn failed(length: usize, error: impl Fn() -> Error) -> Vec<Published> {
    (0..length).map(|_| Published::Failed(error())).collect()
}

fn classify(error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        let text = "writing to standard output: the program that read it is gone (broken pipe); start the relay again \
                    with a reader, or publish to a file";
        return Error::new(ErrorKind::Config, text);
    }
    Error::new(ErrorKind::Unknown, format!("writing to standard output: {error}"))
}

pub(crate) fn open(config: &BrokerConfig) -> Result<Arc<dyn Broker>> {
    Options::with_query(config).finish()?;
    Ok(Arc::new(StdoutBroker::stdout()))
}
