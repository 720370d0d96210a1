//! Redis and Valkey: each document is a hash, which a script writes over the revision that its writer read.
//!
//! One server is asked, a primary: it is refused where it is a replica, a Sentinel or a node of a cluster, and with each read
//! goes a command that would write and changes nothing, which a server that was made a replica meanwhile refuses. How durable
//! an answered write is, the server's own settings say, and [`check`](postrider_core::DocumentStore::check) looks at them: on
//! the disk with `appendonly yes` and `appendfsync always`. Replication is asynchronous whatever they say, so that a failover
//! can lose what was answered.
//!
//! The URL is `redis://user:password@host:port/database`, or `rediss:` for TLS, with these options behind `?`:
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `prefix` | what every key begins with, in braces | `postrider` |
//! | `ca_file` | of `rediss:`, a file of certificates of authorities (PEM) | those of the machine |
//! | `connections` | the most connections at a time, 1 to 100 | 8 |
//! | `timeout` | the seconds that a call may take, 1 to 600 | 10 |
//!
//! The keys are `{prefix}:prepared`, which [`prepare`](postrider_core::DocumentStore::prepare) makes and without which nothing
//! is read or written, and of each collection `{prefix}:collection:doc:name` for a document, `{prefix}:collection:due` and
//! `{prefix}:collection:names` for what will be due. By the braces they belong to one slot.

mod check;
mod classify;
mod connection;
mod due;
mod keys;
mod options;
mod pool;
mod probe;
mod scripts;
mod store;

use std::sync::Arc;

use postrider_core::{DocumentStore, Result};

pub use options::RedisOptions;
pub use store::RedisDocuments;

/// The most bytes of the JSON of one document. Redis takes more, but reads and writes each document whole, one at a time.
pub const LIMIT: u64 = 16 << 20;

/// Opens the store of a URL. No connection is made before the first call.
///
/// # Errors
/// `Config` when the URL cannot be read, has an unknown option, or names certificates that cannot be read.
pub async fn open(url: &str) -> Result<Arc<dyn DocumentStore>> {
    Ok(Arc::new(RedisDocuments::new(RedisOptions::new(url)?)?))
}
