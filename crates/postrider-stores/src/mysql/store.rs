//! The store: opened, checked, handing out its parts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::SslOpts;
use postrider_core::{LaneCount, Leases, Operator, Result, Settler, Source, Store, StoreProfile};

use super::leases::MysqlLeases;
use super::link::Link;
use super::migrate::usable;
use super::operator::MysqlOperator;
use super::options::MysqlOptions;
use super::settler::MysqlSettler;
use super::source::MysqlSource;
use super::tls;

const LEASE: Duration = Duration::from_secs(10);

/// An outbox in a MySQL or MariaDB database.
#[derive(Clone)]
pub struct MysqlStore {
    options: Arc<MysqlOptions>,
    tls: Option<SslOpts>,
    lanes: LaneCount,
}

impl std::fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MysqlStore").field("place", &self.options.place).field("lanes", &self.lanes).finish()
    }
}

impl Link {
    /// A connection for what is done once.
    pub(super) fn cold(options: &MysqlOptions) -> Result<Self> {
        Ok(Self::new(&Arc::new(options.clone()), &tls::settings(options)?))
    }
}

impl MysqlStore {
    /// Opens an outbox.
    ///
    /// # Errors
    /// `Unavailable` when the server cannot be reached. `Config` with a wrong password, on a server that is too old or
    /// takes no writes, without tables, with tables of another engine than InnoDB, and with tables of another version.
    pub async fn open(options: MysqlOptions) -> Result<Self> {
        let tls = tls::settings(&options)?;
        let options = Arc::new(options);
        let lanes = usable(&mut Link::new(&options, &tls)).await?.lanes;
        Ok(Self { options, tls, lanes })
    }

    fn link(&self) -> Link {
        Link::new(&self.options, &self.tls)
    }
}

#[async_trait]
impl Store for MysqlStore {
    fn profile(&self) -> StoreProfile {
        StoreProfile { name: "mysql", lanes: self.lanes, default_lease: LEASE }
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(MysqlSource::new(self.link(), self.lanes)))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        Ok(Box::new(MysqlSettler::new(self.link())))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(MysqlLeases::new(self.link())))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        Ok(Box::new(MysqlOperator::new(self.link(), self.lanes)))
    }
}
