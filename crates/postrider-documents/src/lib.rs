//! Where the receiving side keeps documents: one folder per store with conditional writes, one feature each.
//!
//! [`open`] finds the backend of a URL in a static list; each backend reads its own options and refuses what it does not
//! know. A store in a crate of its own needs none of this: it implements [`postrider_core::DocumentStore`] and is given to a
//! processor as it is.
//!
//! | URL | feature | a write that was answered is |
//! |---|---|---|
//! | `dynamodb://table` | `dynamodb` | as durable as the service says of an item |
//! | `memory:` | `memory` | in this process, until it ends |
//! | `s3://bucket/prefix`, `az://container/prefix`, `gs://bucket/prefix` | `objects` | as durable as the service says of an object |
//! | `postgres://user:password@host/database` | `postgres` | on the primary's disk |
//! | `redis://user:password@host/0`, `rediss:` | `redis` | on the primary's disk, where `appendfsync` is `always` |
//! | `sqlite:///path/to/file.db` | `sqlite` | on the disk of this machine |

#[cfg(any(feature = "postgres", feature = "redis"))]
mod authorities;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod doing;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
#[cfg(any(
    feature = "dynamodb",
    feature = "memory",
    feature = "objects",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
mod found;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(any(feature = "dynamodb", feature = "objects"))]
mod network;
#[cfg(feature = "objects")]
pub mod objects;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
mod registry;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use registry::{Backend, Open, Opening, backends, open};
