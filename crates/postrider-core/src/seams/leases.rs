//! Members and lanes: the right to relay.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::lane::{HeldLane, Lane, RelayId};

/// What became of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease goes on.
    Renewed,
    /// The member was evicted: stand down, drop everything, join with a new id.
    Evicted,
}

/// The lease tables of a store.
///
/// The database's own clock decides expiry. A lane is taken only where its owner is null, and its term is increased
/// by the database in the same statement.
#[async_trait]
pub trait Leases: Send + Debug {
    /// Becomes a member, with an id that was never used before. The name is a label: two relays may share it.
    async fn join(&mut self, me: RelayId, name: &str, ttl: Duration) -> Result<()>;

    /// Prolongs the membership, and with it the lease on every lane held.
    async fn renew(&mut self, me: RelayId, ttl: Duration) -> Result<Renewal>;

    /// Removes expired members and frees their lanes; how many lanes became free.
    async fn evict(&mut self) -> Result<usize>;

    /// The members whose lease has not run out, in the order of their ids.
    async fn members(&mut self) -> Result<Vec<RelayId>>;

    /// The lanes that this member owns, in order, each with how it was left before it was acquired: also those whose
    /// acquisition was never answered.
    async fn owned(&mut self, me: RelayId) -> Result<Vec<HeldLane>>;

    /// Takes up to `want` free lanes; only a living member gets any.
    async fn acquire(&mut self, me: RelayId, want: u16) -> Result<Vec<HeldLane>>;

    /// Gives lanes back; to be called only after the last settle of each was answered. The next owner of each starts
    /// as it says here: carefully where the careful start of an earlier death was not over. Returns those that were
    /// still held under these terms: a release that takes effect late leaves a lane alone that was acquired again.
    async fn release(&mut self, me: RelayId, lanes: &[HeldLane]) -> Result<Vec<Lane>>;

    /// Ends the membership.
    async fn leave(&mut self, me: RelayId) -> Result<()>;
}
