//! The line of the registry.

use std::sync::Arc;

use postrider_core::{Result, Store};

use super::migrate::{migrate, migrate_check};
use super::upgrade::DEFAULT_LANES;
use super::{MysqlOptions, MysqlStore, Names, ddl, remove};
use crate::login::Login;
use crate::registry::{Backend, StoreOptions};

/// MySQL and MariaDB, with the settings `prefix`, `password`, `password-file` and `timeout-seconds`.
pub const BACKEND: Backend = Backend {
    schemes: &["mysql", "mariadb"],
    open: |url, options| {
        Box::pin(async move {
            let store: Arc<dyn Store> = Arc::new(MysqlStore::open(read(url, options)?).await?);
            Ok(store)
        })
    },
    migrate: |url, options| {
        Box::pin(async move {
            let store = read(url, &options.store)?;
            let lanes = match options.lanes {
                Some(lanes) => lanes,
                None => migrate_check(&store).await?.map_or(DEFAULT_LANES, |installed| installed.lanes),
            };
            migrate(&store, lanes).await
        })
    },
    remove: |url, options| Box::pin(async move { remove(&read(url, options)?).await }),
    ddl: |options| Ok(ddl(&names(&options.store)?, options.lanes.unwrap_or(DEFAULT_LANES))),
};

/// As it stands in errors.
const NAME: &str = "MySQL";

const KNOWN: [&str; 4] = ["prefix", "password", "password-file", "timeout-seconds"];

fn names(options: &StoreOptions) -> Result<Names> {
    options.known(&KNOWN)?.get("prefix").map_or_else(|| Ok(Names::default()), |prefix| Names::new(prefix))
}

fn read(url: &str, options: &StoreOptions) -> Result<MysqlOptions> {
    let settings = options.known(&KNOWN)?;
    let mut read = MysqlOptions::new(url)?.names(names(options)?).history(options.history);
    if let Some(wait) = options.lock_wait {
        read = read.lock_wait(wait);
    }
    let login = Login::read(settings, NAME)?;
    if let Some(password) = &login.password {
        read = read.password(password);
    }
    if let Some(timeout) = login.timeout {
        read = read.timeout(timeout);
    }
    Ok(read)
}
