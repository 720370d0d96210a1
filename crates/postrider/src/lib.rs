//! What applications import: a transactional outbox.

mod batch;
mod driver;
mod enqueue;
mod error;
mod outbox;
mod trace;

pub use enqueue::Enqueue;
pub use error::{EnqueueError, NameError};
pub use outbox::Outbox;
pub use postrider_core::{Headers, Invalid, Key, Message, MessageId, RetryOverride, Timestamp, Topic};
