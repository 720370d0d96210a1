//! What a scripted broker does with one message.

use postrider_core::{Error, ErrorKind};

/// What the memory broker does with one message.
#[derive(Debug)]
pub enum Answer {
    /// Records it and acknowledges.
    Accept,
    /// Does not record it and fails with a kind.
    Fail(ErrorKind),
    /// Does not record it and fails with this error, with its delay and causes.
    Error(Error),
    /// Records it, and then says that the outcome is not known.
    LoseReply,
    /// Waits for the next [`MemoryBroker::release`](super::MemoryBroker::release) that follows, then accepts. Without
    /// one it hangs forever, which no honest broker does: a relay under test must have its own deadline.
    Hold,
}
