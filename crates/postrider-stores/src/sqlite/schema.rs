//! Creating the tables and knowing their version.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, LaneCount, Result};
use rusqlite::{Connection, OpenFlags};

use super::fault::{classify, no_tables};
use super::link::{Done, Session, Statements, connect};
use super::upgrade::{META, VERSION, WAL, script};
use super::{Prefix, SqliteOptions};

const FACT: &str = r#"select value from "{p}meta" where name = ?1"#;
const HAS_META: &str = "select 1 from sqlite_schema where type = 'table' and name = '{p}meta'";

/// The statements that create the tables with this prefix and number of lanes, for people who run their own
/// migrations.
///
/// # Errors
/// Never for tables that are not there yet; the type is that of a migration.
pub fn ddl(prefix: &Prefix, lanes: LaneCount) -> Result<String> {
    let (meta, script) = (prefix.sql(META), script(&prefix.sql("{p}"), None, None, Some(lanes))?);
    Ok(format!("{WAL};\nbegin immediate;\n\n{meta};\n\n{script}\ncommit;\n"))
}

/// Creates the file and its tables, or brings older ones to this build's version; harmless when nothing is to do.
///
/// Several callers at once are safe. It waits at most 2 s for the write lock. `lanes` is fixed at the first call.
///
/// # Errors
/// `Config` when the tables are newer than this build, or were created with another number of lanes than asked for;
/// `Unavailable` when the file stays locked.
pub async fn migrate(options: &SqliteOptions, lanes: Option<LaneCount>) -> Result<()> {
    let options = options.clone();
    let ran = tokio::task::spawn_blocking(move || migrate_blocking(&options, lanes)).await;
    ran.map_err(|error| Error::new(ErrorKind::Unknown, "the migration broke off").because(error))?
}

fn migrate_blocking(options: &SqliteOptions, lanes: Option<LaneCount>) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(options, flags)?;
    let failed = |error| classify(options, "migrating the store", error);
    connection.busy_timeout(Duration::from_secs(2)).map_err(failed)?;
    let mode: String = connection.query_row(WAL, [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        tracing::warn!(mode, "the file system does not allow SQLite's WAL mode; readers and writers will wait");
    }
    let mut session = Session { options, connection: &mut connection };
    session.writing("migrating the store", |statements| {
        statements.execute(META, [])?;
        let (version, found) = (fact(statements, "version")?, fact(statements, "lanes")?);
        match script(&options.prefix.sql("{p}"), version, found, lanes) {
            Ok(script) => statements.connection.execute_batch(&script).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    })?
}

/// Checks that the tables are there and known, and says how many lanes they have.
pub(super) fn inspect(session: &mut Session<'_>) -> Result<LaneCount> {
    let options = session.options;
    let found = session.reading("opening the store", |statements| {
        if !has_tables(statements)? {
            return Ok(None);
        }
        Ok(Some((fact(statements, "version")?.unwrap_or(0), fact(statements, "lanes")?)))
    })?;
    let missing = || Error::new(ErrorKind::Config, no_tables(options));
    known(options, found.ok_or_else(missing)?)
}

fn known(options: &SqliteOptions, (version, lanes): (i64, Option<i64>)) -> Result<LaneCount> {
    if version > VERSION {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "the tables in {} have version {version} and this build knows up to {VERSION}; use a newer postrider",
                options.file().display()
            ),
        ));
    }
    if version < VERSION {
        return Err(Error::new(ErrorKind::Config, no_tables(options)));
    }
    lanes.and_then(|lanes| u16::try_from(lanes).ok()).and_then(LaneCount::new).ok_or_else(|| {
        let file = options.file().display();
        Error::new(ErrorKind::Config, format!("{file} does not say how many lanes it has; restore its meta table"))
    })
}

fn has_tables(statements: &Statements<'_>) -> Done<bool> {
    Ok(statements.first(HAS_META, [], |_| Ok(()))?.is_some())
}

fn fact(statements: &Statements<'_>, name: &str) -> Done<Option<i64>> {
    statements.first(FACT, [name], |row| row.get(0))
}

/// The journal mode of the file, such as `wal`.
pub(super) fn journal_mode(connection: &Connection) -> Done<String> {
    connection.query_row("pragma journal_mode", [], |row| row.get(0))
}
