//! Creating the tables and knowing their version.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, LaneCount, Result};
use rusqlite::{Connection, OpenFlags};

use super::fault::{classify, no_tables};
use super::link::{Done, Session, Statements, connect};
use super::{Prefix, SqliteOptions};

/// The version of the schema that this build knows.
pub const VERSION: i64 = 1;

/// The number of lanes of an outbox whose creator did not choose: 8.
pub const DEFAULT_LANES: LaneCount = match LaneCount::new(8) {
    Some(lanes) => lanes,
    None => LaneCount::ONE,
};

/// One step per version, the first from nothing to version 1.
const STEPS: [&str; 1] = [include_str!("schema.sql")];

const META: &str =
    r#"create table if not exists "{p}meta" (name text primary key, value integer not null) without rowid"#;
const LANES: &str = r#"with recursive every (lane) as (select 0 union all select lane + 1 from every where lane + 1 < ?1)
insert into "{p}lane" (lane) select lane from every"#;
const FACT: &str = r#"select value from "{p}meta" where name = ?1"#;
const SET_FACT: &str = r#"insert into "{p}meta" (name, value) values (?1, ?2)
on conflict (name) do update set value = excluded.value"#;
const HAS_META: &str = "select 1 from sqlite_schema where type = 'table' and name = '{p}meta'";

/// The statements that create the tables with this prefix and number of lanes, for people who run their own
/// migrations.
pub fn ddl(prefix: &Prefix, lanes: LaneCount) -> String {
    let mut text = String::from("pragma journal_mode = wal;\nbegin immediate;\n\n");
    text.push_str(&prefix.sql(META));
    text.push_str(";\n\n");
    for step in STEPS {
        text.push_str(&prefix.sql(step));
        text.push('\n');
    }
    text.push_str(&prefix.sql(LANES).replace("?1", &lanes.get().to_string()));
    let facts = r#"insert into "{p}meta" (name, value) values ('version', {v}), ('lanes', {n})"#;
    let facts = facts.replace("{v}", &VERSION.to_string()).replace("{n}", &lanes.get().to_string());
    text.push_str(&format!(";\n{};\n\ncommit;\n", prefix.sql(&facts)));
    text
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
    let mode: String = connection.query_row("pragma journal_mode = wal", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        tracing::warn!(mode, "the file system does not allow SQLite's WAL mode; readers and writers will wait");
    }
    let mut session = Session { options, connection: &mut connection };
    let found = session.writing("migrating the store", |statements| {
        statements.execute(META, [])?;
        let version = fact(statements, "version")?.unwrap_or(0);
        for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(usize::MAX)) {
            statements.connection.execute_batch(&options.prefix.sql(step))?;
        }
        if version == 0 {
            let lanes = lanes.unwrap_or(DEFAULT_LANES).get();
            statements.execute(LANES, [lanes])?;
            statements.execute(SET_FACT, ("lanes", lanes))?;
        }
        if version < VERSION {
            statements.execute(SET_FACT, ("version", VERSION))?;
        }
        Ok((version.max(VERSION), fact(statements, "lanes")?))
    })?;
    let has = known(options, found)?;
    match lanes {
        Some(asked) if asked != has => Err(Error::new(
            ErrorKind::Config,
            format!(
                "the outbox was created with {} lanes and {} are asked for: the number is fixed; leave it out or name \
                 the one it has",
                has.get(),
                asked.get()
            ),
        )),
        Some(_) | None => Ok(()),
    }
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
