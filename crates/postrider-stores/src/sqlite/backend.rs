//! SQLite's line in the registry.

use std::sync::Arc;

use postrider_core::{Result, Store};

use super::{DEFAULT_LANES, Prefix, SqliteOptions, SqliteStore, ddl, migrate, remove};
use crate::registry::{Backend, MigrateOptions, StoreOptions};

/// URLs `sqlite:///path`; the setting `prefix` names the tables.
pub const BACKEND: Backend = Backend {
    schemes: &["sqlite"],
    open: |url, options| {
        Box::pin(async move {
            let store = SqliteStore::open(parsed(url, options)?).await?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    },
    migrate: |url, options: &MigrateOptions| {
        Box::pin(async move { migrate(&parsed(url, &options.store)?, options.lanes).await })
    },
    remove: |url, options| Box::pin(async move { remove(&parsed(url, options)?).await }),
    ddl: |options| ddl(&prefix(&options.store)?, options.lanes.unwrap_or(DEFAULT_LANES)),
};

fn parsed(url: &str, options: &StoreOptions) -> Result<SqliteOptions> {
    Ok(SqliteOptions { prefix: prefix(options)?, history: options.history, ..SqliteOptions::parse(url)? })
}

fn prefix(options: &StoreOptions) -> Result<Prefix> {
    options.known(&["prefix"])?.get("prefix").map_or_else(|| Ok(Prefix::default()), |prefix| Prefix::new(prefix))
}
