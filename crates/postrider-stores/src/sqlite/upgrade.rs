//! What a migration runs, decided without a driver.
//!
//! A migration is: [`WAL`] outside a transaction; then in one that began with `begin immediate`, [`META`], [`FACTS`], and
//! what [`script`] makes of the facts. `begin immediate` makes several starters take turns. The prefix stands for
//! `{p}`; [`named`] puts it there.
//!
//! SQLite runs no busy handler for the switch to WAL: while another connection writes, it is refused at once. Whoever is
//! refused takes the write lock with `begin immediate`, which is waited for, lets it go, and tries the switch again, as
//! long as [`SWITCH_WITHIN`] says.

use std::time::Duration;

use postrider_core::{Error, ErrorKind, LaneCount, Result};

use crate::agree_on_lanes;
use crate::versions::{Fit, Versions};

/// The version of the tables that this library writes and understands.
pub const VERSION: i64 = 3;

/// The lowest version that a build must know to work on tables of [`VERSION`], beside builds of this one. A step that
/// changes what older relays or writers rely on raises it to its own version.
pub const COMPATIBLE_FROM: i64 = 1;

/// The number of lanes of an outbox whose creator did not choose: 8.
pub const DEFAULT_LANES: LaneCount = match LaneCount::new(8) {
    Some(lanes) => lanes,
    None => LaneCount::ONE,
};

/// Readers and the writer do not wait for each other; a database in memory answers that it stays `memory`.
pub const WAL: &str = "pragma journal_mode = wal";

/// How long a switch to WAL that was refused is tried again, counted from the first try.
pub const SWITCH_WITHIN: Duration = Duration::from_secs(2);

/// The pause before it is tried again: a reader refuses it too, and nothing waits for a reader.
pub const SWITCH_AGAIN: Duration = Duration::from_millis(10);

/// Makes the table in which the version and the number of lanes are kept.
pub const META: &str =
    r#"create table if not exists "{p}meta" (name text primary key, value integer not null) without rowid"#;

/// Reads what is kept there: the version, the number of lanes, and the lowest version that a build must know; null where
/// it is not.
pub const FACTS: &str = r#"select (select value from "{p}meta" where name = 'version'),
       (select value from "{p}meta" where name = 'lanes'),
       (select value from "{p}meta" where name = 'compatible_from')"#;

/// What is kept there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// The version of the tables; none where there are none.
    pub version: Option<i64>,
    /// The number of lanes; none where there are no tables.
    pub lanes: Option<i64>,
    /// The lowest version that a build must know to work on them; none where they do not say: then it is their own.
    pub compatible_from: Option<i64>,
}

impl From<(Option<i64>, Option<i64>, Option<i64>)> for Facts {
    /// The columns of [`FACTS`].
    fn from((version, lanes, compatible_from): (Option<i64>, Option<i64>, Option<i64>)) -> Self {
        Self { version, lanes, compatible_from }
    }
}

impl Facts {
    /// The number of lanes, where there are tables and it is one.
    pub(super) fn lane_count(self) -> Option<LaneCount> {
        self.lanes.and_then(|lanes| u16::try_from(lanes).ok()).and_then(LaneCount::new)
    }

    /// How this build stands to the tables.
    pub(super) fn fit(self) -> Fit {
        Versions { version: self.version.unwrap_or(0), compatible_from: self.compatible_from }.fit(VERSION)
    }
}

/// One step per version, the first from nothing to version 1.
const STEPS: [&str; 3] = [include_str!("schema.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

const LANES: &str = r#"insert into "{p}lane" (lane)
with recursive every (lane) as (select 0 union all select lane + 1 from every where lane + 1 < {lanes})
select lane from every;
insert into "{p}meta" (name, value) values ('lanes', {lanes});
"#;

const DONE: &str = r#"insert into "{p}meta" (name, value)
values ('version', {version}), ('compatible_from', {compatible_from})
on conflict (name) do update set value = excluded.value;
"#;

/// A statement with the prefix of the tables in its place.
///
/// The prefix must be checked by the caller: it is put between double quotes as it is.
pub fn named(statement: &str, prefix: &str) -> String {
    statement.replace("{p}", prefix)
}

/// The statements that bring the tables up to date; empty when they are, or are newer and this build works on them as
/// they are.
///
/// # Errors
/// `Config` when the tables are newer than this library can work on, or have another number of lanes than the one asked
/// for.
pub fn script(prefix: &str, facts: Facts, asked: Option<LaneCount>) -> Result<String> {
    let version = facts.version.unwrap_or(0);
    let fit = facts.fit();
    if let Fit::TooNew(needed) = fit {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "the tables have version {version}, newer than {VERSION}, the newest known here, and need a postrider that \
                 knows {needed}: use a newer postrider"
            ),
        ));
    }
    if let Some(found) = facts.lane_count() {
        agree_on_lanes(found, asked)?;
    }
    if fit == Fit::NewerAndCompatible || fit == Fit::Same && facts.compatible_from.is_some() {
        return Ok(String::new());
    }
    let mut script = STEPS.iter().skip(usize::try_from(version).unwrap_or(0)).copied().collect::<String>();
    if facts.lanes.is_none() {
        script.push_str(&LANES.replace("{lanes}", &asked.unwrap_or(DEFAULT_LANES).get().to_string()));
    }
    let done = DONE.replace("{version}", &VERSION.to_string());
    script.push_str(&done.replace("{compatible_from}", &COMPATIBLE_FROM.to_string()));
    Ok(named(&script, prefix))
}
