//! A store of one's own: the whole outbox in memory, and every transaction a line of one file.
//!
//! A transaction is written and synced before anybody sees it, and a line that was torn by a crash is cut off when the file
//! is opened again; so what was committed is there, whole, and what was not is not. The file belongs to one process.
//!
//! This crate uses nothing but the public API. Its test runs the published suite. A call holds its thread while the file is
//! synced: a store for production would do that on a thread of its own.

mod journal;
mod leases;
mod operator;
mod record;
mod settler;
mod source;
mod tables;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Lane, LaneCount, Leases, Message, Operator, RelayId, Result, Settler, Source, Store, StoreProfile, Timestamp,
};

pub use record::Columns;
use tables::Tables;

/// What tells the time, in microseconds since 1970: a parameter, so that a test can let it pass.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// An outbox in a file. Clones share it.
#[derive(Debug, Clone)]
pub struct JournalStore {
    lanes: LaneCount,
    tables: Arc<Mutex<Tables>>,
}

impl JournalStore {
    /// Opens or creates the file. The number of lanes must be the same each time.
    ///
    /// # Errors
    /// `Config` when the file cannot be opened or is no journal, `Unavailable` when the disk does not let it be written.
    pub fn open(path: &Path, lanes: LaneCount, clock: Clock) -> Result<Self> {
        Ok(Self { lanes, tables: Arc::new(Mutex::new(Tables::open(path, lanes, clock)?)) })
    }

    /// Writes messages in one transaction: what an application in this process calls.
    ///
    /// # Errors
    /// `Unavailable` when the disk does not let it be written; then nothing of it is there.
    pub fn enqueue(&self, messages: &[Message]) -> Result<()> {
        self.enqueue_columns(messages.iter().map(Columns::of).collect())
    }

    /// The same with rows as they stand in the table, which nobody has looked at.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_columns(&self, rows: Vec<Columns>) -> Result<()> {
        self.lock().enqueue(rows)
    }

    /// Gives a lane to somebody else under a new term, as an eviction and an acquisition would.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn steal(&self, lane: Lane, thief: RelayId) -> Result<()> {
        self.lock().change_lane(lane, |record| {
            record.free();
            record.acquire(lane, thief);
        })
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // The tables change in whole transactions, so a panic elsewhere leaves them as they were.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for JournalStore {
    fn profile(&self) -> StoreProfile {
        StoreProfile { name: "journal", lanes: self.lanes, default_lease: Duration::from_secs(3) }
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(source::JournalSource::new(self.clone())))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        Ok(Box::new(settler::JournalSettler(self.clone())))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(leases::JournalLeases(self.clone())))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        Ok(Box::new(operator::JournalOperator(self.clone())))
    }
}
