//! What a migration runs, decided without a driver.
//!
//! A migration is, on one connection: [`take_turn`], which makes several starters take turns and answers 1; [`facts`],
//! which the server refuses with error 1146 where there are no tables; [`STRICT`]; each statement of [`script`] by itself;
//! [`AS_BEFORE`]; [`end_turn`]. A statement that defines a table is a transaction of its own here: a migration that broke
//! off is run again from its beginning, and a turn ends with its connection.

use postrider_core::{Error, ErrorKind, LaneCount, Result};

use super::Names;
use super::schema::{VERSION, statements};
use crate::agree_on_lanes;
use crate::versions::{Fit, Versions};

/// The number of lanes of an outbox whose creator did not choose: 64.
pub const DEFAULT_LANES: LaneCount = match LaneCount::new(64) {
    Some(lanes) => lanes,
    None => LaneCount::ONE,
};

/// Makes the session strict, and remembers how it was: a procedure keeps the mode of the session that made it.
pub const STRICT: &str = "\
set @postrider_sql_mode = @@session.sql_mode, session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

/// Gives the session back as it was before [`STRICT`].
pub const AS_BEFORE: &str = "set session sql_mode = @postrider_sql_mode";

/// The error with which the server says that there is no such table.
pub const NO_SUCH_TABLE: u16 = 1146;

const FACTS: &str = "select version, lanes, compatible_from from {meta} where one = 1";
const TAKE_TURN: &str = "select get_lock(left(concat('postrider:', database(), '.', '<name>'), 64), 60)";
const END_TURN: &str = "select release_lock(left(concat('postrider:', database(), '.', '<name>'), 64))";

/// Reads what the tables say of themselves, as [`Facts`]; no row after a migration that broke off.
pub fn facts(names: &Names) -> String {
    names.fill(FACTS)
}

/// Waits up to a minute for other starters; 1 when it is this one's turn.
pub fn take_turn(names: &Names) -> String {
    TAKE_TURN.replace("<name>", &names.bare("meta"))
}

/// Lets the next starter go on.
pub fn end_turn(names: &Names) -> String {
    END_TURN.replace("<name>", &names.bare("meta"))
}

/// What the tables say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The version of the tables.
    pub version: i32,
    /// The number of lanes.
    pub lanes: i32,
    /// The lowest version that a build must know to work on them; none where they do not say: then it is their own.
    pub compatible_from: Option<i32>,
}

impl From<(i32, i32, Option<i32>)> for Facts {
    /// The columns of [`facts`].
    fn from((version, lanes, compatible_from): (i32, i32, Option<i32>)) -> Self {
        Self { version, lanes, compatible_from }
    }
}

/// The statements that bring the tables up to date; none when they are, or are newer and this build works on them as
/// they are.
///
/// # Errors
/// `Config` when the tables are newer than this library can work on, or have another number of lanes than the one asked
/// for, or one that is none.
pub fn script(names: &Names, found: Option<Facts>, asked: Option<LaneCount>) -> Result<Vec<String>> {
    let Some(found) = found else {
        return Ok(statements(names, asked.unwrap_or(DEFAULT_LANES), 0));
    };
    let fit = fit(found.version, found.compatible_from)?;
    let lanes = lane_count(found.lanes)?;
    agree_on_lanes(lanes, asked)?;
    match fit {
        Fit::Older => Ok(statements(names, lanes, found.version)),
        Fit::Same | Fit::NewerAndCompatible | Fit::TooNew(_) => Ok(Vec::new()),
    }
}

/// How this build stands to the tables, if it can work on them, or on what a migration makes of them.
pub(super) fn fit(version: i32, compatible_from: Option<i32>) -> Result<Fit> {
    let versions = Versions { version: i64::from(version), compatible_from: compatible_from.map(i64::from) };
    let fit = versions.fit(i64::from(VERSION));
    let Fit::TooNew(needed) = fit else { return Ok(fit) };
    let what = format!(
        "the tables have version {version}, newer than {VERSION}, the newest that this postrider knows, and need one that \
         knows {needed}; use a newer postrider"
    );
    Err(Error::new(ErrorKind::Config, what))
}

/// The number of lanes that the tables say.
pub(super) fn lane_count(lanes: i32) -> Result<LaneCount> {
    u16::try_from(lanes).ok().and_then(LaneCount::new).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("the tables say that they have {lanes} lanes; expected 1 to 4096"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: i32, lanes: i32, compatible_from: Option<i32>) -> Option<Facts> {
        Some(Facts { version, lanes, compatible_from })
    }

    fn asked(lanes: u16) -> Option<LaneCount> {
        LaneCount::new(lanes)
    }

    #[test]
    fn what_is_up_to_date_or_newer_and_compatible_is_left_alone() {
        for found in [found(VERSION, 3, None), found(VERSION + 9, 3, Some(VERSION))] {
            assert_eq!(script(&Names::default(), found, asked(3)).unwrap(), Vec::<String>::new());
        }
    }

    #[test]
    fn tables_that_need_a_newer_build_or_have_other_lanes_are_refused() {
        for (found, asked) in [
            (found(VERSION + 9, 3, None), None),
            (found(VERSION + 9, 3, Some(VERSION + 1)), None),
            (found(VERSION, 3, None), asked(4)),
            (found(VERSION, 0, None), None),
            (found(VERSION, 5000, None), None),
        ] {
            assert_eq!(script(&Names::default(), found, asked).unwrap_err().kind(), ErrorKind::Config, "{found:?}");
        }
    }

    #[test]
    fn no_tables_are_made_with_the_lanes_asked_for() {
        let lanes = |asked| script(&Names::default(), None, asked).unwrap().concat();
        assert!(lanes(asked(2)).contains("values (0), (1)") && !lanes(asked(2)).contains(", (2)"));
        assert!(lanes(None).contains(", (63)") && !lanes(None).contains(", (64)"));
    }

    #[test]
    fn a_turn_is_that_of_one_outbox() {
        let names = Names::new("box_").unwrap();
        assert!(take_turn(&names).contains("'box_meta'") && end_turn(&names).contains("'box_meta'"));
    }
}
