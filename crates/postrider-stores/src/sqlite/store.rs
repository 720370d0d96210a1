//! The store itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{LaneCount, Leases, Operator, Result, Settler, Source, Store, StoreProfile};

use super::leases::SqliteLeases;
use super::link::{Link, Use};
use super::operator::SqliteOperator;
use super::settler::SqliteSettler;
use super::source::SqliteSource;
use super::{SqliteOptions, fault, schema};

/// An outbox in an SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    options: Arc<SqliteOptions>,
    lanes: LaneCount,
}

impl SqliteStore {
    /// Opens an outbox whose tables are there.
    ///
    /// # Errors
    /// `Config` when there is no file, it is no database, it cannot be written, it has no tables, or they are newer
    /// than this build; `Unavailable` when the file stays locked. Each says what to do.
    pub async fn open(options: SqliteOptions) -> Result<Self> {
        let options = Arc::new(options);
        let lanes = Link::new(Arc::clone(&options), Use::Writing)
            .run(|session| {
                let (_, lanes) = schema::inspect(session)?;
                fault::refuse_read_only(session.options, session.connection)?;
                Ok(lanes)
            })
            .await?;
        Ok(Self { options, lanes })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn profile(&self) -> StoreProfile {
        StoreProfile { name: "sqlite", lanes: self.lanes, default_lease: Duration::from_secs(3) }
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(SqliteSource::new(Arc::clone(&self.options), self.lanes)))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        Ok(Box::new(SqliteSettler::new(Arc::clone(&self.options))))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(SqliteLeases::new(Arc::clone(&self.options))))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        Ok(Box::new(SqliteOperator::new(Arc::clone(&self.options), self.lanes)))
    }
}
