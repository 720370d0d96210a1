//! A broker of one's own: every destination is a folder, every message two files in it.
//!
//! `<root>/<destination>/<number>-<id>.payload` holds the payload and `….json` its content type and headers. The payload
//! is written and synced first and the JSON is renamed into place last, so a reader that waits for the JSON sees whole
//! messages only. Folders are not created: a destination exists when somebody made it.
//!
//! This crate uses nothing but the public API. Its test runs the published suite.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use postrider_core::{
    Accepted, Broker, BrokerProfile, Destination, Durability, Error, ErrorKind, Finding, Isolation, Key, OrderInBatch,
    Outgoing, Published, Result,
};
use serde_json::{Map, Value, json};

/// The largest payload that the folder takes: 4 MiB.
pub const MAX_PAYLOAD: usize = 4 << 20;

/// A broker that writes files.
#[derive(Debug, Clone)]
pub struct FolderBroker {
    root: PathBuf,
    next: Arc<AtomicU64>,
}

impl FolderBroker {
    /// A broker below a folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), next: Arc::default() }
    }

    /// The folder of a destination.
    fn folder(&self, destination: &Destination) -> Result<PathBuf> {
        let name = Path::new(destination.as_str());
        let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || destination.as_str().is_empty() {
            let text = format!("{:?} is no name of a folder", destination.as_str());
            return Err(Error::new(ErrorKind::Rejected, text));
        }
        let folder = self.root.join(name);
        if folder.is_dir() {
            return Ok(folder);
        }
        // A root that is away comes back by itself; a missing folder below it needs somebody to make it.
        if !self.root.is_dir() {
            let text = format!("{} is not there; is the disk mounted?", self.root.display());
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        let text = format!("the folder {} does not exist; create it", folder.display());
        Err(Error::new(ErrorKind::Config, text))
    }

    fn write(&self, outgoing: &Outgoing) -> Result<()> {
        let folder = self.folder(&outgoing.destination)?;
        let message = &outgoing.message;
        if message.payload.len() > MAX_PAYLOAD {
            let text = format!("the payload has {} bytes; at most {MAX_PAYLOAD} are taken", message.payload.len());
            return Err(Error::new(ErrorKind::Rejected, text));
        }
        let wire = outgoing.wire_headers();
        let user = message.headers.iter();
        let headers: Map<String, Value> = user
            .chain(wire.iter().map(|(name, value)| (*name, value.as_str())))
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let about = json!({ "content_type": message.content_type, "headers": headers });
        let name = format!("{:020}-{}", self.next.fetch_add(1, Ordering::Relaxed), message.id);
        place(&folder, &name, &message.payload, about.to_string().as_bytes()).map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("writing into {}", folder.display())).because(error)
        })
    }
}

fn place(folder: &Path, name: &str, payload: &[u8], about: &[u8]) -> io::Result<()> {
    let write = |path: &Path, bytes: &[u8]| {
        let mut file = File::create_new(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write(&folder.join(format!("{name}.payload")), payload)?;
    let (draft, whole) = (folder.join(format!("{name}.draft")), folder.join(format!("{name}.json")));
    write(&draft, about)?;
    fs::rename(draft, whole)?;
    File::open(folder)?.sync_all()
}

#[async_trait]
impl Broker for FolderBroker {
    fn profile(&self) -> BrokerProfile {
        BrokerProfile {
            name: "folder",
            order: OrderInBatch::Kept,
            isolation: Isolation::PerMessage,
            durability: Durability::Durable,
            max_batch: 100,
            max_concurrent: 4,
        }
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        let (broker, batch, length) = (self.clone(), batch.to_vec(), batch.len());
        let written = tokio::task::spawn_blocking(move || {
            let mut broken: Vec<&Key> = Vec::new();
            let mut results = Vec::with_capacity(batch.len());
            for outgoing in &batch {
                let key = outgoing.message.key.as_ref();
                if key.is_some_and(|key| broken.contains(&key)) {
                    results.push(Published::NotSent);
                    continue;
                }
                results.push(match broker.write(outgoing) {
                    Ok(()) => Published::Accepted(Accepted::FRESH),
                    Err(error) => {
                        broken.extend(key);
                        Published::Failed(error)
                    }
                });
            }
            results
        });
        written.await.unwrap_or_else(|lost| {
            let error = || Error::new(ErrorKind::Unknown, format!("writing files: {lost}"));
            (0..length).map(|_| Published::Failed(error())).collect()
        })
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        if !self.root.is_dir() {
            let text = format!("{} is not there; is the disk mounted?", self.root.display());
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        for destination in destinations {
            self.folder(destination).map_err(|error| Error::new(ErrorKind::Config, error.story()))?;
        }
        Ok(Vec::new())
    }

    async fn close(&self) {}
}
