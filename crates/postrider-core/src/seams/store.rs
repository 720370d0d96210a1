//! Where messages wait.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::lane::LaneCount;
use crate::seams::{Leases, Operator, Settler, Source};

/// What a store can do, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreProfile {
    /// The name of the backend, such as `postgres`.
    pub name: &'static str,
    /// The number of lanes of this outbox.
    pub lanes: LaneCount,
    /// How often a relay that shares this store renews its lease at the default: the lease's time to live.
    pub default_lease: std::time::Duration,
}

/// An outbox in a database, opened.
///
/// Opening checks that the tables are there, that their version is known, and that this is a primary. Every part that
/// is handed out owns a connection of its own and reconnects by itself: after an error of kind
/// [`Unavailable`](crate::ErrorKind::Unavailable) or [`Unknown`](crate::ErrorKind::Unknown) the connection was
/// dropped, and the next call opens a new one.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// What this store can do.
    fn profile(&self) -> StoreProfile;

    /// A reader of new, due and waiting rows. One per relay.
    async fn source(&self) -> Result<Box<dyn Source>>;

    /// The writer of outcomes. One per relay: concurrent settles of one relay would fight over its lane rows.
    async fn settler(&self) -> Result<Box<dyn Settler>>;

    /// The keeper of members and lanes. One per relay.
    async fn leases(&self) -> Result<Box<dyn Leases>>;

    /// What people and the housekeeping need: status, dead letters, retention, enqueue.
    async fn operator(&self) -> Result<Box<dyn Operator>>;
}
