//! The store: opened, checked, handing out its parts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Error, ErrorKind, LaneCount, Leases, Operator, Result, Settler, Source, Store, StoreProfile};
use tokio_postgres::types::Type;

use super::decode::get;
use super::leases::PostgresLeases;
use super::link::{Link, Purpose};
use super::migrate::usable;
use super::operator::PostgresOperator;
use super::options::PostgresOptions;
use super::readers::Readers;
use super::settler::PostgresSettler;
use super::source::PostgresSource;
use super::tls::{self, Connector};

const LEASE: Duration = Duration::from_secs(10);
const SEQUENCE: &str = "\
select coalesce((select seqcache from pg_sequence where seqrelid = pg_get_serial_sequence($1, 'id')::regclass), 1) as cache";

/// An outbox in a PostgreSQL database.
///
/// What a relay reads by and what it settles by must come from one of these, or from clones of it: its settlers tell its
/// sources which keys wait.
#[derive(Clone)]
pub struct PostgresStore {
    options: Arc<PostgresOptions>,
    tls: Connector,
    lanes: LaneCount,
    readers: Readers,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.options.place).field("lanes", &self.lanes).finish()
    }
}

impl Link {
    /// A connection for everything but the hot path.
    pub(super) fn cold(options: &PostgresOptions) -> Result<Self> {
        Ok(Self::new(&Arc::new(options.clone()), &tls::connector(options)?, Purpose::Cold))
    }
}

impl PostgresStore {
    /// Opens an outbox.
    ///
    /// # Errors
    /// `Unavailable` when the server cannot be reached. `Config` with a wrong password, on a replica, without tables,
    /// with tables of another version, and with a sequence that caches numbers.
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        let tls = tls::connector(&options)?;
        let options = Arc::new(options);
        let mut link = Link::new(&options, &tls, Purpose::Cold);
        let installed = usable(&mut link).await?;
        let cache = sequence_cache(&mut link).await?;
        if cache > 1 {
            let table = options.names.qualified("outbox");
            let what = format!(
                "the sequence of {table}.id caches {cache} numbers, which breaks the order of keys; run \
                 `alter table {table} alter column id set cache 1`"
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        Ok(Self { options, tls, lanes: installed.lanes, readers: Readers::default() })
    }

    fn link(&self, purpose: Purpose) -> Link {
        Link::new(&self.options, &self.tls, purpose)
    }
}

/// How many numbers a session draws at once; more than one lets a later message have a smaller number.
pub(super) async fn sequence_cache(link: &mut Link) -> Result<i64> {
    let table = link.options().names.qualified("outbox");
    let row = link.query_one("reading the sequence of the outbox", SEQUENCE, &[(&table, Type::TEXT)]).await?;
    get(&row, "cache")
}

#[async_trait]
impl Store for PostgresStore {
    fn profile(&self) -> StoreProfile {
        StoreProfile { name: "postgres", lanes: self.lanes, default_lease: LEASE }
    }

    async fn source(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(PostgresSource::new(self.link(PostgresSource::PURPOSE), self.lanes, self.readers.joined())))
    }

    async fn settler(&self) -> Result<Box<dyn Settler>> {
        let link = self.link(PostgresSettler::purpose(self.options.history));
        Ok(Box::new(PostgresSettler::new(link, self.readers.clone())))
    }

    async fn leases(&self) -> Result<Box<dyn Leases>> {
        Ok(Box::new(PostgresLeases::new(self.link(PostgresLeases::PURPOSE))))
    }

    async fn operator(&self) -> Result<Box<dyn Operator>> {
        Ok(Box::new(PostgresOperator::new(self.link(PostgresOperator::PURPOSE), self.lanes)))
    }
}
