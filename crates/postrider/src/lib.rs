//! What applications import: a transactional outbox.

mod batch;
mod driver;
mod enqueue;
mod error;
mod migrate;
mod outbox;
mod trace;

pub use enqueue::Enqueue;
pub use error::{EnqueueError, NameError};
pub use migrate::{MigrateTarget, migrate};
pub use outbox::Outbox;
pub use postrider_core::{
    Error, ErrorKind, Headers, Invalid, Key, LaneCount, Message, MessageId, RetryOverride, Timestamp, Topic,
};
