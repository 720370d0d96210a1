//! Creating and upgrading the tables.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, LaneCount, Result};
use tokio_postgres::types::Type;

use super::decode::get;
use super::link::Link;
use super::options::PostgresOptions;
use super::schema::{VERSION, ddl};
use crate::agree_on_lanes;
use crate::versions::{Fit, Versions};

/// How often a migration that met a lock of the application is tried again.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(500);
const FOUND: &str = "select to_regclass($1) is not null as found, pg_is_in_recovery() as replica";
/// Tables that were made before `compatible_from` have no such column.
const META: &str =
    "select version, lanes, (to_jsonb(m) ->> 'compatible_from')::integer as compatible_from from {meta} m";

/// Other outboxes of the same database, a few: each one's schema and what its tables' names begin with.
const ELSEWHERE: &str = "\
select n.nspname::text as schema, left(c.relname, -4)::text as prefix
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and c.relname like '%\\_meta'
       and (select count(*) from pg_attribute a
             where a.attrelid = c.oid and a.attname in ('version', 'lanes')) = 2
 order by 1, 2 limit 3";

/// What the tables say about themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installed {
    /// The version of the tables.
    pub version: i32,
    /// The lowest version that a build must know to work on them; none where they do not say: then it is their own.
    pub compatible_from: Option<i32>,
    /// The number of lanes.
    pub lanes: LaneCount,
}

impl Installed {
    fn fit(self) -> Fit {
        let compatible_from = self.compatible_from.map(i64::from);
        Versions { version: i64::from(self.version), compatible_from }.fit(i64::from(VERSION))
    }
}

/// Creates the tables, or brings them up to date; does nothing when they are, or are newer and this build works on them
/// as they are.
///
/// Several starters at once are safe. It waits at most two seconds at a time for a table that the application has
/// locked, and tries again for about a minute, so that nothing ever queues behind it for longer.
///
/// # Errors
/// `Config` when the tables are newer than this library can work on or have another number of lanes; `Unavailable` when
/// the application kept a table locked.
pub async fn migrate(options: &PostgresOptions, lanes: LaneCount) -> Result<()> {
    let mut link = Link::cold(options)?;
    if let Some(installed) = installed(&mut link).await? {
        let fit = known(installed)?;
        agree_on_lanes(installed.lanes, Some(lanes))?;
        match fit {
            Fit::NewerAndCompatible => return Ok(()),
            Fit::Same if installed.compatible_from.is_some() => return Ok(()),
            Fit::Same | Fit::Older | Fit::TooNew(_) => {}
        }
    } else if let Some(other) = elsewhere(&mut link).await? {
        tracing::warn!("this database has an outbox with {other} already; a second one is made");
    }
    let script = ddl(&options.names, lanes);
    let mut tries = 0;
    loop {
        let Err(error) = link.script(&script).await? else { return Ok(()) };
        match error.code().map(|code| code.code().to_owned()).as_deref() {
            // A lock, a deadlock, or another starter that made the same thing between our look and our own.
            Some(met @ ("55P03" | "40P01" | "40001" | "23505" | "42P07" | "XX000")) if tries < TRIES => {
                tries += 1;
                if met == "55P03" && tries == 1 {
                    let error = link.failed("migrating", &script, error).await;
                    let step = error.advice().map(|step| format!("; {step}")).unwrap_or_default();
                    tracing::warn!("the migration is tried again for about a minute: {error}{step}");
                }
            }
            // A newer build was faster, and this one works on what it made.
            Some("PR003") => return Ok(()),
            Some("PR001") => return Err(Error::new(ErrorKind::Config, NEWER).because(error)),
            Some("PR002") => return Err(Error::new(ErrorKind::Config, LANES).because(error)),
            _ => return Err(link.failed("migrating", &script, error).await),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What a migration would do: the version found, if any, before anything is changed.
///
/// # Errors
/// `Config` when the tables are newer than this library can work on; otherwise as for any connection.
pub async fn migrate_check(options: &PostgresOptions) -> Result<Option<Installed>> {
    let mut link = Link::cold(options)?;
    let installed = installed(&mut link).await?;
    installed.map(known).transpose()?;
    Ok(installed)
}

const NEWER: &str = "the tables are newer than this postrider; use a newer postrider";
const LANES: &str =
    "the outbox has another number of lanes, which is fixed when it is created; ask for the same number";

/// What is installed, and that it can be worked with.
///
/// # Errors
/// `Config` on a replica, without tables, and with tables that are older, or newer than this build can work on.
pub(super) async fn usable(link: &mut Link) -> Result<Installed> {
    let Some(installed) = installed(link).await? else {
        let table = link.options().names.qualified("meta");
        let step = match elsewhere(link).await? {
            Some(other) => {
                format!("this database has an outbox with {other}: give that, or make a new one by `postrider migrate`")
            }
            None => "run `postrider migrate --store ...`".to_owned(),
        };
        let place = &link.options().place;
        return Err(Error::new(ErrorKind::Config, format!("there is no table {table} in {place}; {step}")));
    };
    if known(installed)? == Fit::Older {
        let what = format!(
            "the tables have version {}, older than {VERSION}; run `postrider migrate --store ...`",
            installed.version
        );
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok(installed)
}

/// Where else an outbox is, as the settings that lead to it, or to each of several.
async fn elsewhere(link: &mut Link) -> Result<Option<String>> {
    let rows = link.query("looking for the tables elsewhere", ELSEWHERE, &[]).await?;
    let settings = |row| -> Result<String> {
        let (schema, prefix): (String, String) = (get(row, "schema")?, get(row, "prefix")?);
        Ok(format!("outbox.schema = {schema:?}, outbox.prefix = {prefix:?}"))
    };
    let found = rows.iter().map(settings).collect::<Result<Vec<_>>>()?;
    Ok((!found.is_empty()).then(|| found.join(", and one with ")))
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
    let compatible_from = get(&row, "compatible_from")?;
    let lanes = u16::try_from(lanes).ok().and_then(LaneCount::new).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("the tables say that they have {lanes} lanes; expected 1 to 4096"))
    })?;
    Ok(Some(Installed { version, compatible_from, lanes }))
}

/// How this build stands to the tables, if it can work on them, or on what a migration makes of them.
fn known(installed: Installed) -> Result<Fit> {
    let fit = installed.fit();
    let Fit::TooNew(needed) = fit else { return Ok(fit) };
    let what = format!(
        "the tables have version {}, newer than {VERSION}, the newest that this postrider knows, and need one that knows \
         {needed}; use a newer postrider",
        installed.version
    );
    Err(Error::new(ErrorKind::Config, what))
}
