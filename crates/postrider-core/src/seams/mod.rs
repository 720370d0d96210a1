//! The seams: what a backend implements. The core declares them and implements none.

mod archive;
mod broker;
mod documents;
mod inbox;
mod leases;
mod operator;
mod settler;
mod source;
mod store;
mod subscription;

pub use archive::Archive;
pub use broker::{
    Accepted, Attempt, Broker, BrokerProfile, Confirmation, Durability, Isolation, OrderInBatch, Outgoing, Published,
};
pub use documents::{
    Collection, DocumentKey, DocumentProfile, DocumentStore, Draft, DueIndex, Revision, Stored, Version, WriteError,
};
pub use inbox::{ConsumerStatus, Forgotten, InboxStatus, RefusedFilter, RefusedGroup, RefusedView};
pub use leases::{Leases, Renewal};
pub use operator::{
    DeadFilter, DeadGroup, DeliveredView, Explained, Finding, Held, HeldKey, LaneStatus, Level, Measured, MemberStatus,
    Operator, PastRow, Position, Pruned, Remains, Retention, RowView, Standing, StoreStatus, Subject, past_ids,
};
pub use settler::{DeadReason, FailedAttempt, Outcome, Recorded, Records, Settled, Settlement, Settler};
pub use source::{Page, Room, Source};
pub use store::{Store, StoreProfile};
pub use subscription::{Incoming, Place, Receipt, SourcePosition, Subscription, Wire};
