//! The line of the registry.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result, Secret, Store};

use super::migrate::{migrate, migrate_check};
use super::upgrade::DEFAULT_LANES;
use super::{MysqlOptions, MysqlStore, Names, ddl, remove};
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
    if let Some(password) = settings.get("password") {
        read = read.password(&Secret::new(password.clone()));
    }
    if let Some(path) = settings.get("password-file") {
        let password = std::fs::read_to_string(Path::new(path))
            .map_err(|error| refused("password-file", "the file cannot be read").because(error))?;
        read = read.password(&Secret::new(password.trim_end_matches(['\r', '\n'])));
    }
    if let Some(seconds) = settings.get("timeout-seconds") {
        let seconds = seconds.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
        let seconds = seconds.ok_or_else(|| refused("timeout-seconds", "expected a number from 1 to 3600"))?;
        read = read.timeout(Duration::from_secs(seconds));
    }
    Ok(read)
}

fn refused(setting: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the setting {setting:?} of the MySQL store: {expected}"))
}
