//! What a migration runs, decided without a driver.
//!
//! A migration is: [`WAL`] outside a transaction; then in one that began with `begin immediate`, [`META`], [`FACTS`], and
//! what [`script`] makes of the facts. `begin immediate` makes several starters take turns. The prefix stands for
//! `{p}`; [`named`] puts it there.

use postrider_core::{Error, ErrorKind, LaneCount, Result};

/// The version of the tables that this library writes and understands.
pub const VERSION: i64 = 1;

/// The number of lanes of an outbox whose creator did not choose: 8.
pub const DEFAULT_LANES: LaneCount = match LaneCount::new(8) {
    Some(lanes) => lanes,
    None => LaneCount::ONE,
};

/// Readers and the writer do not wait for each other; a database in memory answers that it stays `memory`.
pub const WAL: &str = "pragma journal_mode = wal";

/// Makes the table in which the version and the number of lanes are kept.
pub const META: &str =
    r#"create table if not exists "{p}meta" (name text primary key, value integer not null) without rowid"#;

/// Reads what is kept there: the version, then the number of lanes; null where it is not.
pub const FACTS: &str = r#"select (select value from "{p}meta" where name = 'version'),
       (select value from "{p}meta" where name = 'lanes')"#;

/// One step per version, the first from nothing to version 1.
const STEPS: [&str; 1] = [include_str!("schema.sql")];

const LANES: &str = r#"insert into "{p}lane" (lane)
with recursive every (lane) as (select 0 union all select lane + 1 from every where lane + 1 < {lanes})
select lane from every;
insert into "{p}meta" (name, value) values ('lanes', {lanes});
"#;

const DONE: &str = r#"insert into "{p}meta" (name, value) values ('version', {version})
on conflict (name) do update set value = excluded.value;
"#;

/// A statement with the prefix of the tables in its place.
///
/// The prefix must be checked by the caller: it is put between double quotes as it is.
pub fn named(statement: &str, prefix: &str) -> String {
    statement.replace("{p}", prefix)
}

/// The statements that bring tables of this version and number of lanes up to date; empty when they are.
///
/// # Errors
/// `Config` when the tables are newer than this library, or have another number of lanes than the one asked for.
pub fn script(prefix: &str, version: Option<i64>, lanes: Option<i64>, asked: Option<LaneCount>) -> Result<String> {
    let version = version.unwrap_or(0);
    if version > VERSION {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "the tables have version {version}, newer than {VERSION}, the newest known here: use a newer postrider"
            ),
        ));
    }
    match (lanes, asked) {
        (Some(found), Some(asked)) if found != i64::from(asked.get()) => {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "the outbox has {found} lanes and {} are asked for: the number is fixed when the outbox is created; \
                     leave it out or name that one",
                    asked.get()
                ),
            ));
        }
        _ => {}
    }
    if version == VERSION {
        return Ok(String::new());
    }
    let mut script = STEPS.iter().skip(usize::try_from(version).unwrap_or(0)).copied().collect::<String>();
    if lanes.is_none() {
        script.push_str(&LANES.replace("{lanes}", &asked.unwrap_or(DEFAULT_LANES).get().to_string()));
    }
    script.push_str(&DONE.replace("{version}", &VERSION.to_string()));
    Ok(named(&script, prefix))
}
