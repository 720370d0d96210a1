//! What the participants wrote down: all that the verdict is computed from.

use std::collections::{HashMap, HashSet};

use postrider_core::MessageId;

/// An order that stands in the application's own table, so its transaction was committed.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The id of its message.
    pub(super) id: MessageId,
    /// Who placed it: the key of the message.
    pub(super) customer: String,
    /// The how-manieth order of that customer it is, without gaps.
    pub(super) number: i64,
    /// How many pieces; none is an order that the consumer can never take.
    pub(super) quantity: u32,
}

/// What the consumer made of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Taken and said so.
    Taken,
    /// Taken, but the answer broke off.
    Lost,
    /// Not taken, with this status.
    Refused(u16),
}

/// One request that reached the consumer with a good signature, in the order of arrival.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    /// The `webhook-id`.
    pub(super) id: MessageId,
    /// The `postrider-key`.
    pub(super) customer: String,
    /// The number in the payload.
    pub(super) number: i64,
    /// The `postrider-term`: it grows whenever a lane changes hands.
    pub(super) term: u64,
    /// What came of it.
    pub(super) answer: Answer,
}

impl Delivery {
    /// Whether the consumer has acted on it.
    pub(super) fn was_taken(&self) -> bool {
        !matches!(self.answer, Answer::Refused(_))
    }
}

/// Everything.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// The application's table.
    pub(super) orders: Vec<Order>,
    /// Messages whose transactions were rolled back.
    pub(super) rolled_back: HashSet<MessageId>,
    /// The consumer's record.
    pub(super) deliveries: Vec<Delivery>,
    /// What stood in the outbox right after each crash: only these may be delivered again because of it.
    pub(super) in_doubt: Vec<HashSet<MessageId>>,
    /// How often the consumer shipped each order, where it ships them.
    pub(super) shipped: Option<HashMap<MessageId, u64>>,
    /// The dead letters.
    pub(super) dead: HashSet<MessageId>,
    /// Messages that still waited when the demo gave up waiting.
    pub(super) waiting: u64,
    /// Requests whose signature did not verify.
    pub(super) unsigned: u64,
}
