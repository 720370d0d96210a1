//! Creating and upgrading the tables.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, LaneCount, Result};

use super::columns::Columns;
use super::dialect::Family;
use super::link::Link;
use super::options::MysqlOptions;
use super::schema::{COMPATIBLE_FROM, VERSION, statements};
use super::upgrade;
use crate::agree_on_lanes;
use crate::versions::Fit;

/// How often a migration that met a lock of the application is tried again.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(500);

const READ_ONLY: &str = "select @@global.read_only";

const FOUND: &str = "\
select count(*) from information_schema.tables where table_schema = database() and table_name = ?";

/// Every table of an outbox that is not kept by the one engine with transactions: `<tables>`.
const ENGINES: &str = "\
select table_name, engine from information_schema.tables
 where table_schema = database() and table_name in (<tables>) and (engine is null or engine <> 'InnoDB') order by table_name";

/// Other outboxes of the same database, a few: what their tables' names begin with.
const ELSEWHERE: &str = "\
select left(c.table_name, char_length(c.table_name) - 4) from information_schema.columns c
 where c.table_schema = database() and c.table_name like '%\\_meta' and c.column_name in ('version', 'lanes', 'compatible_from')
 group by c.table_name having count(*) = 3 order by c.table_name limit 3";

/// The tables whose engine counts.
pub(super) const TABLES: [&str; 12] = [
    "outbox",
    "lane",
    "relay",
    "delivered",
    "inbox",
    "inbox_foreign",
    "inbox_span",
    "inbox_cursor",
    "inbox_refused",
    "inbox_token",
    "idempotency",
    "meta",
];

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
    /// How this build stands to the tables, if it can work on them, or on what a migration makes of them.
    fn fit(self) -> Result<Fit> {
        upgrade::fit(self.version, self.compatible_from)
    }
}

/// Creates the tables, or brings them up to date; does nothing when they are, or are newer and this build works on them
/// as they are.
///
/// Several starters at once are safe. A statement that defines a table is a transaction of its own here: a migration
/// that broke off is run again.
///
/// # Errors
/// `Config` when the tables are newer than this library can work on, have another number of lanes, are kept by another
/// engine than InnoDB, or the user lacks a right; `Unavailable` when the application kept a table locked.
pub async fn migrate(options: &MysqlOptions, lanes: LaneCount) -> Result<()> {
    let mut link = Link::cold(options)?;
    if is_done(installed(&mut link).await?, lanes)? {
        return engines(&mut link).await;
    }
    if let Some(other) = elsewhere(&mut link).await? {
        tracing::warn!("this database has an outbox with {other} already; a second one is made");
    }
    let doing = "migrating";
    let mut tries = 0;
    loop {
        let took = link.query_one(doing, &upgrade::take_turn(&options.names), ()).await?;
        if !took.is_true(0) {
            let what = "another migration of this outbox is under way and did not end within a minute";
            return Err(Error::new(ErrorKind::Unavailable, what).advise("run this again when it is over"));
        }
        let done = steps(&mut link, options, lanes).await;
        match done {
            Ok(()) => {
                link.query_one(doing, &upgrade::end_turn(&options.names), ()).await?;
                return engines(&mut link).await;
            }
            // The turn ended with the connection.
            Err(error) if error.kind() == ErrorKind::Unavailable && tries < TRIES => {
                tries += 1;
                if tries == 1 {
                    tracing::warn!("the migration is tried again: {error}");
                }
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether nothing is to be done.
fn is_done(installed: Option<Installed>, lanes: LaneCount) -> Result<bool> {
    let Some(installed) = installed else { return Ok(false) };
    let fit = installed.fit()?;
    agree_on_lanes(installed.lanes, Some(lanes))?;
    Ok(matches!(fit, Fit::Same | Fit::NewerAndCompatible))
}

async fn steps(link: &mut Link, options: &MysqlOptions, lanes: LaneCount) -> Result<()> {
    // Somebody else may have had the turn before.
    let installed = installed(link).await?;
    if is_done(installed, lanes)? {
        return Ok(());
    }
    let version = installed.map_or(0, |installed| installed.version);
    for statement in statements(&options.names, lanes, version) {
        link.define("migrating", &statement).await?;
    }
    if version > 0 && link.dialect().await?.family == Family::Mysql {
        tracing::warn!(
            "MySQL drops the rights to a procedure with it, and both were made anew: grant `execute` again to users who call \
             them and have no right to the whole schema"
        );
    }
    Ok(())
}

/// What a migration would do: the version found, if any, before anything is changed.
///
/// # Errors
/// `Config` when the tables are newer than this library can work on; otherwise as for any connection.
pub async fn migrate_check(options: &MysqlOptions) -> Result<Option<Installed>> {
    let mut link = Link::cold(options)?;
    let installed = installed(&mut link).await?;
    installed.map(Installed::fit).transpose()?;
    Ok(installed)
}

/// What is installed, and that it can be worked with.
///
/// # Errors
/// `Config` on a server that takes no writes, without tables, with tables of another engine, and with tables that are
/// older, or newer than this build can work on.
pub(super) async fn usable(link: &mut Link) -> Result<Installed> {
    let dialect = link.dialect().await?;
    if dialect.version < dialect.oldest() {
        let ((major, minor, patch), (needs, at, least)) = (dialect.version, dialect.oldest());
        let what = format!(
            "the server is {name} {major}.{minor}.{patch}; {name} {needs}.{at}.{least} or later is needed",
            name = dialect.name()
        );
        return Err(Error::new(ErrorKind::Config, what).advise("upgrade the server"));
    }
    let Some(installed) = installed(link).await? else {
        let table = link.options().names.bare("meta");
        let step = match elsewhere(link).await? {
            Some(other) => {
                format!("this database has an outbox with {other}: give that, or make a new one by `postrider migrate`")
            }
            None => "run `postrider migrate --store ...`".to_owned(),
        };
        let place = &link.options().place;
        return Err(Error::new(ErrorKind::Config, format!("there is no table {table} in {place}; {step}")));
    };
    if installed.fit()? == Fit::Older {
        let what = format!(
            "the tables have version {}, older than {VERSION}; run `postrider migrate --store ...`",
            installed.version
        );
        return Err(Error::new(ErrorKind::Config, what));
    }
    engines(link).await?;
    Ok(installed)
}

async fn installed(link: &mut Link) -> Result<Option<Installed>> {
    let doing = "looking for the tables";
    let names = &link.options().names;
    let (table, sql) = (names.bare("meta"), upgrade::facts(names));
    if link.query_one(doing, READ_ONLY, ()).await?.is_true(0) {
        let what = format!("{} takes no writes (read_only), as a replica does", link.options().place);
        return Err(Error::new(ErrorKind::Config, what).advise("give the URL of the primary"));
    }
    if !link.query_one(doing, FOUND, (table,)).await?.is_true(0) {
        return Ok(None);
    }
    // A migration that broke off before its end has said nothing yet.
    let Some(row) = link.query("reading the version of the tables", &sql, ()).await?.into_iter().next() else {
        return Ok(None);
    };
    let row = Columns::new(row);
    let number = |place| row.integer(place).and_then(|n| i32::try_from(n).ok());
    let lanes = upgrade::lane_count(number(1).unwrap_or(0))?;
    Ok(Some(Installed { version: number(0).unwrap_or(0), compatible_from: number(2), lanes }))
}

/// That every table has transactions.
pub(super) async fn engines(link: &mut Link) -> Result<()> {
    let names = link.options().names.clone();
    // A name holds no quote.
    let tables: Vec<String> = TABLES.iter().map(|table| format!("'{}'", names.bare(table))).collect();
    let rows =
        link.text("looking at the engines of the tables", &ENGINES.replace("<tables>", &tables.join(", "))).await?;
    let Some(row) = rows.into_iter().next().map(Columns::new) else { return Ok(()) };
    let (table, engine) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or("no engine"));
    let what = format!(
        "the table {table} is kept by {engine}, which has no transactions: a message would be there although its \
         transaction was rolled back"
    );
    Err(Error::new(ErrorKind::Config, what).advise(format!("run `alter table `{table}` engine = InnoDB`")))
}

/// Where else an outbox is, as the settings that lead to it, or to each of several.
async fn elsewhere(link: &mut Link) -> Result<Option<String>> {
    let rows = link.text("looking for the tables elsewhere", ELSEWHERE).await?;
    let prefixes: Vec<String> =
        rows.into_iter().filter_map(|row| Columns::new(row).text(0).map(str::to_owned)).collect();
    let own = link.options().names.prefix().to_owned();
    let others: Vec<String> = prefixes
        .into_iter()
        .filter(|prefix| *prefix != own)
        .map(|prefix| format!("outbox.prefix = {prefix:?}"))
        .collect();
    Ok((!others.is_empty()).then(|| others.join(", or with ")))
}

const _: () = assert!(COMPATIBLE_FROM <= VERSION);
