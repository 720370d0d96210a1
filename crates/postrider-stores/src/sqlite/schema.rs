//! Creating the tables and knowing their version.

use std::time::Instant;

use postrider_core::{Error, ErrorKind, LaneCount, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::fault::{cannot_create, classify, no_tables};
use super::link::{Done, Session, Statements, connect};
use super::upgrade::{FACTS, Facts, META, SWITCH_AGAIN, SWITCH_WITHIN, VERSION, WAL, script};
use super::{Prefix, SqliteOptions};
use crate::versions::Fit;

const HAS_META: &str = "select 1 from sqlite_schema where type = 'table' and name = '{p}meta'";

/// The statements that create the tables with this prefix and number of lanes, for people who run their own
/// migrations.
///
/// # Errors
/// Never for tables that are not there yet; the type is that of a migration.
pub fn ddl(prefix: &Prefix, lanes: LaneCount) -> Result<String> {
    let (meta, script) = (prefix.sql(META), script(&prefix.sql("{p}"), Facts::default(), Some(lanes))?);
    Ok(format!("{WAL};\nbegin immediate;\n\n{meta};\n\n{script}\ncommit;\n"))
}

/// Creates the file and its tables, or brings older ones to this build's version; harmless when nothing is to do.
///
/// Several callers at once are safe. It waits at most 2 s for the write lock. `lanes` is fixed at the first call.
///
/// # Errors
/// `Config` when the file cannot be created; when the tables are newer than this build can work on, or were created with another number of lanes than asked for;
/// `Unavailable` when the file stays locked.
pub async fn migrate(options: &SqliteOptions, lanes: Option<LaneCount>) -> Result<()> {
    let options = options.clone();
    let ran = tokio::task::spawn_blocking(move || {
        migrate_blocking(&options, lanes).map_err(|error| cannot_create(&options).unwrap_or(error))
    })
    .await;
    ran.map_err(|error| Error::new(ErrorKind::Unknown, "the migration broke off").because(error))?
}

fn migrate_blocking(options: &SqliteOptions, lanes: Option<LaneCount>) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(options, flags)?;
    let failed = |error| classify(options, "migrating the store", error);
    connection.busy_timeout(SWITCH_WITHIN).map_err(failed)?;
    let mode = switch_to_wal(&connection).map_err(failed)?;
    if mode != "wal" {
        tracing::warn!(mode, "the file system does not allow SQLite's WAL mode; readers and writers will wait");
    }
    let mut session = Session { options, connection: &mut connection };
    session.writing("migrating the store", |statements| {
        statements.execute(META, [])?;
        match script(&options.prefix.sql("{p}"), facts(statements)?, lanes) {
            Ok(script) => statements.connection.execute_batch(&script).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    })?
}

/// Switches to WAL, after other writers where there are some; the journal mode that came of it.
fn switch_to_wal(connection: &Connection) -> Done<String> {
    let began = Instant::now();
    loop {
        match connection.query_row(WAL, [], |row| row.get(0)) {
            Err(refused)
                if refused.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < SWITCH_WITHIN =>
            {
                connection.execute_batch("begin immediate; rollback")?;
                std::thread::sleep(SWITCH_AGAIN);
            }
            answer => return answer,
        }
    }
}

/// Checks that the tables are there and can be worked on, and says their version and how many lanes they have.
pub(super) fn inspect(session: &mut Session<'_>) -> Result<(i64, LaneCount)> {
    let options = session.options;
    let found = session.reading("opening the store", |statements| {
        if !has_tables(statements)? {
            return Ok(None);
        }
        facts(statements).map(Some)
    })?;
    let missing = || Error::new(ErrorKind::Config, no_tables(options));
    known(options, found.ok_or_else(missing)?)
}

fn known(options: &SqliteOptions, facts: Facts) -> Result<(i64, LaneCount)> {
    let version = facts.version.unwrap_or(0);
    match facts.fit() {
        Fit::Same | Fit::NewerAndCompatible => {}
        Fit::Older => return Err(Error::new(ErrorKind::Config, no_tables(options))),
        Fit::TooNew(needed) => {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "the tables in {} have version {version} and need a build that knows {needed}; this one knows up to \
                     {VERSION}: use a newer postrider",
                    options.file().display()
                ),
            ));
        }
    }
    let lanes = facts.lane_count().ok_or_else(|| {
        let file = options.file().display();
        Error::new(ErrorKind::Config, format!("{file} does not say how many lanes it has; restore its meta table"))
    })?;
    Ok((version, lanes))
}

fn has_tables(statements: &Statements<'_>) -> Done<bool> {
    Ok(statements.first(HAS_META, [], |_| Ok(()))?.is_some())
}

fn facts(statements: &Statements<'_>) -> Done<Facts> {
    let read = |row: &rusqlite::Row<'_>| Ok(Facts::from((row.get(0)?, row.get(1)?, row.get(2)?)));
    Ok(statements.first(FACTS, [], read)?.unwrap_or_default())
}

/// The journal mode of the file, such as `wal`.
pub(super) fn journal_mode(connection: &Connection) -> Done<String> {
    connection.query_row("pragma journal_mode", [], |row| row.get(0))
}
