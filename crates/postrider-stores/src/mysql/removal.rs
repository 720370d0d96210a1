//! Removing the tables with everything in them.

use postrider_core::{Error, ErrorKind, Result};

use super::link::Link;
use super::options::MysqlOptions;

const REMOVE: [&str; 14] = [
    "drop procedure if exists {enqueue}",
    "drop procedure if exists {first_seen}",
    "drop table if exists {outbox}",
    "drop table if exists {lane}",
    "drop table if exists {relay}",
    "drop table if exists {delivered}",
    "drop table if exists {inbox}",
    "drop table if exists {inbox_foreign}",
    "drop table if exists {inbox_span}",
    "drop table if exists {inbox_cursor}",
    "drop table if exists {inbox_refused}",
    "drop table if exists {inbox_token}",
    "drop table if exists {idempotency}",
    "drop table if exists {meta}",
];

/// Removes the tables and the procedures of an outbox with everything in them; harmless when there are none. What else
/// begins with the same prefix stays.
///
/// # Errors
/// `Config` for the prefix that an application's own outbox has by default: this is for tables made for a while.
/// `Unavailable` when the database is away or somebody keeps a table locked.
pub async fn remove(options: &MysqlOptions) -> Result<()> {
    let prefix = options.names.prefix();
    if prefix == super::Names::default().prefix() {
        let text = format!("the tables of the prefix {prefix:?} are not removed: they are an application's own");
        return Err(Error::new(ErrorKind::Config, text));
    }
    let mut link = Link::cold(options)?;
    for statement in REMOVE {
        link.define("removing the tables", &options.names.fill(statement)).await?;
    }
    Ok(())
}
