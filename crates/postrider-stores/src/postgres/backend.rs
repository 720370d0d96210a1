//! The line of the registry.

use std::sync::Arc;

use postrider_core::{LaneCount, Result, Store};

use super::migrate::{migrate, migrate_check};
use super::{Names, Pooling, PostgresOptions, PostgresStore, ddl, remove};
use crate::login::{Login, refused};
use crate::registry::{Backend, StoreOptions};

/// The number of lanes of an outbox for which none was asked.
const LANES: u16 = 64;

/// PostgreSQL, with the settings `schema`, `prefix`, `pooling` (`direct` or `transaction`), `password`,
/// `password-file` and `timeout-seconds`.
pub const BACKEND: Backend = Backend {
    schemes: &["postgres", "postgresql"],
    open: |url, options| {
        Box::pin(async move {
            let store: Arc<dyn Store> = Arc::new(PostgresStore::open(read(url, options)?).await?);
            Ok(store)
        })
    },
    migrate: |url, options| {
        Box::pin(async move {
            let store = read(url, &options.store)?;
            let lanes = match options.lanes {
                Some(lanes) => lanes,
                None => migrate_check(&store).await?.map_or_else(default_lanes, |installed| installed.lanes),
            };
            migrate(&store, lanes).await
        })
    },
    remove: |url, options| Box::pin(async move { remove(&read(url, options)?).await }),
    ddl: |options| Ok(ddl(&names(&options.store)?, options.lanes.unwrap_or_else(default_lanes))),
};

fn default_lanes() -> LaneCount {
    LaneCount::new(LANES).unwrap_or(LaneCount::ONE)
}

/// As it stands in errors.
const NAME: &str = "PostgreSQL";

const KNOWN: [&str; 6] = ["schema", "prefix", "pooling", "password", "password-file", "timeout-seconds"];

fn names(options: &StoreOptions) -> Result<Names> {
    let (settings, default) = (options.known(&KNOWN)?, Names::default());
    let text = |name: &str, default: &str| settings.get(name).map_or(default, String::as_str).to_owned();
    Names::new(&text("schema", default.schema()), &text("prefix", default.prefix()))
}

fn read(url: &str, options: &StoreOptions) -> Result<PostgresOptions> {
    let settings = options.known(&KNOWN)?;
    let mut read = PostgresOptions::new(url)?.names(names(options)?).history(options.history);
    if let Some(wait) = options.lock_wait {
        read = read.lock_wait(wait);
    }
    read = match settings.get("pooling").map(String::as_str) {
        None | Some("direct") => read,
        Some("transaction") => read.pooling(Pooling::Transaction),
        Some(_) => return Err(refused(NAME, "pooling", "expected direct or transaction")),
    };
    let login = Login::read(settings, NAME)?;
    if let Some(password) = &login.password {
        read = read.password(password);
    }
    if let Some(timeout) = login.timeout {
        read = read.timeout(timeout);
    }
    Ok(read)
}
