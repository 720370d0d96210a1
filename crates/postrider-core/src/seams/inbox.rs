//! The inbox, as who keeps it sees it: what is remembered of the messages that were handled, and what was refused.

use std::time::Duration;

use crate::message::{Message, MessageId, Timestamp};
use crate::seams::operator::Measured;

/// What a round of forgetting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// So many records are gone, where they are deleted one by one.
    pub records: u64,
    /// So many partitions were dropped whole.
    pub partitions: u64,
    /// There is more to forget: run it again.
    pub more: bool,
}

/// The inbox in numbers, without counting its table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxStatus {
    /// A message whose id is from before is refused, unless it is recorded: what is forgotten is from before. None where
    /// nothing was forgotten yet.
    pub since: Option<Timestamp>,
    /// The consumers of the newest records and of the refused messages, by name.
    pub consumers: Vec<ConsumerStatus>,
}

/// What a consumer received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// Its name, with its tenant where it has one.
    pub consumer: String,
    /// The messages of it that are remembered; of very many the newest are counted, and these are estimated.
    pub remembered: Measured,
    /// When it handled the last of them.
    pub last: Option<Timestamp>,
    /// The messages that it refused.
    pub refused: u64,
}

/// Which refused messages are meant; every condition that is set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedFilter {
    /// These message ids.
    pub ids: Vec<MessageId>,
    /// Of this consumer.
    pub consumer: Option<String>,
    /// This topic.
    pub topic: Option<String>,
    /// First refused at least this long ago.
    pub older_than: Option<Duration>,
}

/// A message that was refused because nobody can tell whether it was handled, kept for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedView {
    /// Who refused it.
    pub consumer: String,
    /// The message as it came; fields that could not be read are empty.
    pub message: Message,
    /// Why.
    pub reason: String,
    /// When that was, the first time.
    pub refused_at: Timestamp,
    /// How often it was refused.
    pub times: u64,
}

/// Refused messages of one consumer and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedGroup {
    /// The consumer.
    pub consumer: String,
    /// The reason.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// How long ago the first of them was refused.
    pub oldest: Duration,
}
