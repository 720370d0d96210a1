//! The store in memory: the reference that every other store is compared with, and the one for tests of applications.
//!
//! Nothing here survives the process. Everything a relay or an operator may ask is answered as a database would, with
//! one lock around it all; beside that, [`MemoryStore`] has what a test needs: committed rows without a transaction,
//! a clock that can be advanced, and a lane that can be taken away from its owner.

mod leases;
mod operator;
mod settler;
mod source;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Lane, LaneCount, Leases, Message, MessageId, Operator, RelayId, Result, RowId, Settler, Source, Store,
    StoreProfile, Timestamp,
};
use uuid::Uuid;

use crate::History;
use tables::Tables;

/// An outbox in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    lanes: LaneCount,
    tables: Arc<Mutex<Tables>>,
}

impl MemoryStore {
    /// An empty outbox.
    pub fn new(lanes: LaneCount, history: History) -> Self {
        Self { lanes, tables: Arc::new(Mutex::new(Tables::new(lanes, history))) }
    }

    /// Writes messages as a committed transaction would, unchecked, and returns their rows.
    pub fn enqueue_committed(&self, messages: &[Message]) -> Vec<RowId> {
        let mut tables = self.lock();
        messages.iter().map(|message| tables.insert(message.clone(), None)).collect()
    }

    /// Writes a row that is no message, as a foreign hand would.
    pub fn enqueue_malformed(&self, message: &Message, reason: &str) -> RowId {
        self.lock().insert(message.clone(), Some(reason.to_owned()))
    }

    /// Moves the store's clock forward.
    pub fn advance(&self, by: Duration) {
        self.lock().advance(by);
    }

    /// The store's clock.
    pub fn now(&self) -> Timestamp {
        self.lock().now()
    }

    /// Gives a lane to somebody else under a new term, as an eviction followed by an acquisition would.
    pub fn steal(&self, lane: Lane) -> RelayId {
        let thief = RelayId(Uuid::now_v7());
        self.lock().steal(lane, thief);
        thief
    }

    /// The rows of the outbox with their ids, dead ones included, by ascending row.
    pub fn rows(&self) -> Vec<(RowId, MessageId)> {
        self.lock().rows.iter().map(|(id, stored)| (*id, stored.message.id)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // A panic while the lock was held comes from a test's own thread; the tables are changed in single steps.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn profile(&self) -> StoreProfile {
        StoreProfile { name: "memory", lanes: self.lanes, default_lease: Duration::from_secs(3) }
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(source::MemorySource::new(self.clone())))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        Ok(Box::new(settler::MemorySettler(self.clone())))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(leases::MemoryLeases(self.clone())))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        Ok(Box::new(operator::MemoryOperator(self.clone())))
    }
}
