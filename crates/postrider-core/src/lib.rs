//! The words and the decisions of Postrider.
//!
//! This crate is floor 0: it knows what a message is, which lane it belongs to, what an error means, when to try
//! again and what is dead, and it declares the seams ([`Store`], [`Source`], [`Settler`], [`Leases`], [`Operator`],
//! [`Broker`]) that backends implement. It does no I/O, reads no clock and draws no randomness: time is the
//! parameter [`Tick`], and the jitter's seed is given. That is what lets the relay's [`machine`] be simulated.

mod address;
mod error;
mod holdings;
mod judge;
mod lane;
mod lease;
pub mod machine;
mod message;
mod on_dead;
pub mod receiving;
mod retry;
mod row;
mod seams;
mod secret;
mod template;
mod tick;

pub use address::{Destination, DestinationName};
pub use error::{Error, ErrorKind, Result, causes};
pub use holdings::{Balance, Difference, Holdings, share};
pub use judge::{Evidence, Judgement, judge};
pub use lane::{HeldLane, Lane, LaneCount, RelayId, Start, Term, lane_of};
pub use lease::{LaneRecord, trusted_until, try_again_after};
pub use message::{
    Attributes, Headers, Invalid, Key, MAX_ATTRIBUTES, MAX_CONTENT_TYPE, MAX_HEADER_NAME, MAX_HEADER_VALUE,
    MAX_HEADERS, MAX_KEY, MAX_PAYLOAD, MAX_TOPIC, Message, MessageId, TOKEN_HEADER, Timestamp, Topic,
};
pub use on_dead::OnDead;
pub use retry::{Attempts, Jitter, OnExpire, RetryOverride, RetryPolicy, TopicPattern};
pub use row::{Closed, Content, Due, Expires, GivenUp, Head, Lifetime, Retrying, Row, RowId, RowState};
pub use seams::{
    Accepted, Archive, Attempt, Broker, BrokerProfile, Collection, Confirmation, ConsumerStatus, DeadFilter, DeadGroup,
    DeadReason, DeliveredView, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Durability, Explained,
    FailedAttempt, Finding, Forgotten, Held, HeldKey, InboxStatus, Incoming, Isolation, LaneStatus, Leases, Level,
    Measured, MemberStatus, Operator, OrderInBatch, Outcome, Outgoing, Page, PastRow, Place, Position, Pruned,
    Published, Receipt, Recorded, Records, RefusedFilter, RefusedGroup, RefusedView, Remains, Renewal, Retention,
    Revision, Room, RowView, Settled, Settlement, Settler, Source, SourcePosition, Standing, Store, StoreProfile,
    StoreStatus, Stored, Subject, Subscription, Version, Wire, WriteError, past_ids,
};
pub use secret::Secret;
pub use template::{AllowList, DestinationTemplate, MAX_PLACES, Placeholder, ValuePattern};
pub use tick::Tick;
