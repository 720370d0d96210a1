//! PostgreSQL: each document is a row of `postrider_document`, its JSON as `jsonb`.
//!
//! Every call is one statement at a primary: `insert .. on conflict do nothing`, `update .. where revision = ..` and
//! `delete .. where revision = ..`, which PostgreSQL serializes by the row's lock. Each connection is refused by a server
//! that takes no writes, so that no read comes from a replica. An answered write is on the primary's disk where
//! `synchronous_commit` and `fsync` are on, which [`check`](postrider_core::DocumentStore::check) looks at.
//!
//! The URL is `postgres://user:password@host:port/database`, with these options behind `?`:
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `schema` | where the table is | `public` |
//! | `sslmode` | `verify-full`, or `disable` | `verify-full`, and `disable` for this machine |
//! | `sslrootcert` | a file of certificates of authorities (PEM) | those of the machine |
//! | `connections` | the most connections at a time, 1 to 100 | 8 |
//! | `timeout` | the seconds that a call may take, 1 to 600 | 10 |
//! | `application_name`, `host`, `port`, `channel_binding` | as with libpq | |

mod classify;
mod options;
mod pool;
mod store;
mod tls;

use std::sync::Arc;

use postrider_core::{DocumentStore, Result};

pub use options::PostgresOptions;
pub use store::PostgresDocuments;

/// The most bytes of the JSON of one document. PostgreSQL takes more, but reads and writes each document whole.
pub const LIMIT: u64 = 16 << 20;

/// Opens the store of a URL. No connection is made before the first call.
///
/// # Errors
/// `Config` when the URL cannot be read, has an unknown option, or names certificates that cannot be read.
pub async fn open(url: &str) -> Result<Arc<dyn DocumentStore>> {
    Ok(Arc::new(PostgresDocuments::new(PostgresOptions::new(url)?)?))
}
