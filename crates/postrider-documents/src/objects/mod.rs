//! Object stores: each document is an object, written only over the object that its writer read.
//!
//! | URL | service | options |
//! |---|---|---|
//! | `s3://bucket/prefix` | Amazon S3, and what speaks its protocol | `region`, `endpoint` |
//! | `az://container/prefix`, `azure:` | Azure Blob Storage | `account`, `endpoint` |
//! | `gs://bucket/prefix` | Google Cloud Storage | `endpoint` |
//!
//! All take `timeout`, the seconds that one request may take (1 to 600, by default 10), and `tombstones`, `plain` or
//! `tagged`. Credentials and everything else are the service's own variables of the environment: `AWS_`, `AZURE_`, `GOOGLE_`.
//!
//! An object is an envelope of the document and of the revision of its write, so that no two writes have the same bytes: where
//! an ETag is a hash of the content, no version comes back.
//!
//! No service deletes on a condition by every client that speaks its protocol, and a delete without one would take a later
//! write. So a document is deleted by writing a tombstone over it, which counts as no document: a reader finds none, and
//! who creates writes over it. A tombstone stays, 50 bytes of it. With `tombstones=tagged` it has the tag
//! `postrider=tombstone`, by which a lifecycle rule of the bucket may expire it.
//!
//! Nothing is retried by the client below. What happened to each request is known (`witness`), and a conflict after a request
//! without an answer is looked at: the object may be this writer's own.

mod classify;
mod client;
mod envelope;
mod names;
mod options;
mod probe;
mod store;
mod witness;
mod write;

use std::sync::Arc;

use postrider_core::{DocumentStore, Result};

pub use options::ObjectOptions;
pub use store::ObjectDocuments;

/// The most bytes of the JSON of one document. The services take more, but each document is read and written whole.
pub const LIMIT: u64 = 16 << 20;

/// Opens the store of a URL, with what the environment says. Nothing is sent before the first call.
///
/// # Errors
/// `Config` when the URL cannot be read, or the environment lacks what the service needs.
pub async fn open(url: &str) -> Result<Arc<dyn DocumentStore>> {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Arc::new(ObjectDocuments::new(ObjectOptions::new(url, variables)?)?))
}
