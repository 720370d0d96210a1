//! Removing the tables with everything in them.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, Result};
use rusqlite::OpenFlags;

use super::fault::classify;
use super::link::{Session, connect};
use super::{Prefix, SqliteOptions};

const REMOVE: &str = r#"
drop table if exists "{p}outbox"; drop table if exists "{p}delivered"; drop table if exists "{p}lane";
drop table if exists "{p}relay"; drop table if exists "{p}meta"; drop table if exists "{p}inbox";
drop table if exists "{p}inbox_foreign"; drop table if exists "{p}inbox_span"; drop table if exists "{p}inbox_cursor";
drop table if exists "{p}inbox_refused"; drop table if exists "{p}inbox_token";
drop table if exists "{p}idempotency";"#;

/// Removes the tables of an outbox with everything in them; harmless when there are none. What else begins with the same
/// prefix stays.
///
/// # Errors
/// `Config` for the prefix that an application's own outbox has by default: this is for tables made for a while.
/// `Unavailable` when the file stays locked.
pub async fn remove(options: &SqliteOptions) -> Result<()> {
    let options = options.clone();
    let ran = tokio::task::spawn_blocking(move || remove_blocking(&options)).await;
    ran.map_err(|error| Error::new(ErrorKind::Unknown, "the removal broke off").because(error))?
}

fn remove_blocking(options: &SqliteOptions) -> Result<()> {
    let own = Prefix::default().sql("{p}");
    if options.prefix.sql("{p}") == own {
        let text = format!("the tables of the prefix {own:?} are not removed: they are an application's own");
        return Err(Error::new(ErrorKind::Config, text));
    }
    if !options.file().exists() {
        return Ok(());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(options, flags)?;
    let busy = connection.busy_timeout(Duration::from_secs(5));
    busy.map_err(|error| classify(options, "removing the tables", error))?;
    let mut session = Session { options, connection: &mut connection };
    let script = options.prefix.sql(REMOVE);
    session.writing("removing the tables", |statements| statements.connection.execute_batch(&script))
}
