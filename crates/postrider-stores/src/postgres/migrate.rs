//! Creating and upgrading the tables.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, LaneCount, Result};
use tokio_postgres::types::Type;

use super::classify::working;
use super::decode::get;
use super::link::Link;
use super::options::PostgresOptions;
use super::schema::{VERSION, ddl};

/// How often a migration that met a lock of the application is tried again.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(500);
const FOUND: &str = "select to_regclass($1) is not null as found, pg_is_in_recovery() as replica";
const META: &str = "select version, lanes from {meta}";

/// What the tables say about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installed {
    /// The version of the tables.
    pub version: i32,
    /// The number of lanes.
    pub lanes: LaneCount,
}

/// Creates the tables, or brings them up to date; does nothing when they are.
///
/// Several starters at once are safe. It waits at most two seconds at a time for a table that the application has
/// locked, and tries again for about a minute, so that nothing ever queues behind it for longer.
///
/// # Errors
/// `Config` when the tables are newer than this library or have another number of lanes; `Unavailable` when the
/// application kept a table locked.
pub async fn migrate(options: &PostgresOptions, lanes: LaneCount) -> Result<()> {
    let mut link = Link::cold(options)?;
    if let Some(installed) = installed(&mut link).await? {
        refuse_newer(installed)?;
        if installed.lanes != lanes {
            return Err(other_lanes(installed.lanes, lanes));
        }
        if installed.version == VERSION {
            return Ok(());
        }
    }
    let script = ddl(&options.names, lanes);
    let mut tries = 0;
    loop {
        let Err(error) = link.script(&script).await? else { return Ok(()) };
        match error.code().map(|code| code.code().to_owned()).as_deref() {
            // A lock, a deadlock, or another starter that made the same thing between our look and our own.
            Some("55P03" | "40P01" | "40001" | "23505" | "42P07" | "XX000") if tries < TRIES => tries += 1,
            Some("PR001") => return Err(Error::new(ErrorKind::Config, NEWER).because(error)),
            Some("PR002") => return Err(Error::new(ErrorKind::Config, LANES).because(error)),
            _ => return Err(working("migrating", error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What a migration would do: the version found, if any, before anything is changed.
///
/// # Errors
/// `Config` when the tables are newer than this library; otherwise as for any connection.
pub async fn migrate_check(options: &PostgresOptions) -> Result<Option<Installed>> {
    let mut link = Link::cold(options)?;
    let installed = installed(&mut link).await?;
    installed.map(refuse_newer).transpose()?;
    Ok(installed)
}

const NEWER: &str = "the tables are newer than this postrider; use a newer postrider";
const LANES: &str =
    "the outbox has another number of lanes, which is fixed when it is created; ask for the same number";

/// What is installed, and that it can be worked with.
///
/// # Errors
/// `Config` on a replica, without tables, and with tables of another version.
pub(super) async fn usable(link: &mut Link) -> Result<Installed> {
    let Some(installed) = installed(link).await? else {
        let table = link.options().names.qualified("meta");
        let what = format!("the table {table} does not exist; run `postrider migrate --store ...`");
        return Err(Error::new(ErrorKind::Config, what));
    };
    refuse_newer(installed)?;
    if installed.version < VERSION {
        let what = format!(
            "the tables have version {}, older than {VERSION}; run `postrider migrate --store ...`",
            installed.version
        );
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok(installed)
}

async fn installed(link: &mut Link) -> Result<Option<Installed>> {
    let (table, sql) = (link.options().names.qualified("meta"), link.options().names.fill(META));
    let row = link.query_one("looking for the tables", FOUND, &[(&table, Type::TEXT)]).await?;
    let (found, replica): (bool, bool) = (get(&row, "found")?, get(&row, "replica")?);
    if replica {
        let what = format!("{} is a replica; give the URL of the primary", link.options().place);
        return Err(Error::new(ErrorKind::Config, what));
    }
    if !found {
        return Ok(None);
    }
    let row = link.query_one("reading the version of the tables", &sql, &[]).await?;
    let (version, lanes): (i32, i32) = (get(&row, "version")?, get(&row, "lanes")?);
    let lanes = u16::try_from(lanes).ok().and_then(LaneCount::new).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("the tables say that they have {lanes} lanes; expected 1 to 4096"))
    })?;
    Ok(Some(Installed { version, lanes }))
}

fn refuse_newer(installed: Installed) -> Result<()> {
    if installed.version <= VERSION {
        return Ok(());
    }
    let what = format!(
        "the tables have version {}, newer than {VERSION}, the newest that this postrider knows; use a newer postrider",
        installed.version
    );
    Err(Error::new(ErrorKind::Config, what))
}

fn other_lanes(found: LaneCount, asked: LaneCount) -> Error {
    let what = format!(
        "the outbox has {} lanes and {} were asked for; the number is fixed when the outbox is created",
        found.get(),
        asked.get()
    );
    Error::new(ErrorKind::Config, what)
}
