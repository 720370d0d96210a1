//! The tables, and the statements that create or upgrade them.
//!
//! A version is a step of statements that may be run again: statements that define tables are transactions of their own
//! here, so a migration that broke off is run again from the beginning of its step.

use postrider_core::LaneCount;

use super::Names;

/// The version of the tables that this library writes and understands.
pub const VERSION: i32 = 3;

/// The lowest version that a build must know to work on tables of [`VERSION`], beside builds of this one. A step that
/// changes what older relays or writers rely on raises it to its own version.
pub const COMPATIBLE_FROM: i32 = 1;

/// One step per version; a semicolon on a line of its own ends a statement.
const STEPS: [&str; 3] = [include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

/// The procedures as they are now, made anew behind the steps: each with its name.
const PROCEDURES: [(&str, &str); 2] =
    [("{enqueue}", include_str!("enqueue.sql")), ("{first_seen}", include_str!("first_seen.sql"))];

/// How a procedure begins that replaces an earlier one, of which users have rights: MariaDB leaves them these. MySQL can do
/// nothing but drop it, and their rights with it.
const CREATE: &str = "create procedure ";
const REPLACE: &str = "create /*M!100600 or replace */ procedure ";
/// A statement that drops nothing on MariaDB, which passes over what is for MySQL 5.7 and later
/// (<https://mariadb.com/docs/server/reference/sql-structure/comment-syntax>).
const DROP_ON_MYSQL: &str = "/*M!100600 do 0 */ /*!50700 drop procedure if exists <procedure> */";

/// The last statement: what it says is only true when all others are through.
const DONE: &str = "\
insert into {meta} (one, version, lanes, compatible_from) values (1, <version>, <lanes>, <compatible_from>)
    on duplicate key update version = <version>, compatible_from = <compatible_from>,
       migrated_at = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))";

/// The statements of a migration from the version found, one by one.
pub(super) fn statements(names: &Names, lanes: LaneCount, found: i32) -> Vec<String> {
    let every_lane: Vec<String> = (0..lanes.get()).map(|lane| format!("({lane})")).collect();
    let fill = |text: &str| {
        let numbers = [
            ("<version>", VERSION.to_string()),
            ("<compatible_from>", COMPATIBLE_FROM.to_string()),
            ("<lanes>", lanes.get().to_string()),
            ("<every_lane>", every_lane.join(", ")),
        ];
        numbers.iter().fold(names.fill(text.trim()), |text, (name, number)| text.replace(name, number))
    };
    let steps = STEPS.iter().skip(usize::try_from(found).unwrap_or(0));
    let steps = steps.flat_map(|step| step.split("\n;\n")).map(str::to_owned);
    let procedures = PROCEDURES.into_iter().flat_map(|(name, body)| match found {
        0 => [format!("drop procedure if exists {name}"), body.to_owned()],
        _ => [DROP_ON_MYSQL.replace("<procedure>", name), body.replacen(CREATE, REPLACE, 1)],
    });
    steps.chain(procedures).chain([DONE.to_owned()]).map(|text| fill(&text)).collect()
}

/// The statements that create the tables, as the command-line client of the database takes them.
pub fn ddl(names: &Names, lanes: LaneCount) -> String {
    let each = |statement: String| {
        if statement.starts_with("create procedure") {
            format!("delimiter //\n{statement} //\ndelimiter ;\n\n")
        } else {
            format!("{statement};\n\n")
        }
    };
    // A procedure keeps the mode of the session that made it: what it writes is never cut down.
    let mode = "set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\n\n";
    [mode.to_owned()].into_iter().chain(statements(names, lanes, 0).into_iter().map(each)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_step() {
        assert_eq!(usize::try_from(VERSION).unwrap(), STEPS.len());
    }

    #[test]
    fn an_upgrade_replaces_the_procedures_and_a_creation_makes_them() {
        let begins = |found| {
            let all = statements(&Names::default(), LaneCount::new(8).unwrap(), found);
            all.iter().filter(|text| text.contains(" or replace ")).count()
        };
        assert_eq!((begins(0), begins(VERSION - 1)), (0, PROCEDURES.len()));
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let script = ddl(&Names::default(), LaneCount::new(8).unwrap());
        for leftover in ["{outbox", "{lane", "{meta", "<version>", "<compatible_from>", "<lanes>", "<every_lane>"] {
            assert_eq!(script.find(leftover), None, "{leftover}");
        }
        assert!(script.contains("mod 8)") && script.contains("(0), (1), (2), (3), (4), (5), (6), (7)"), "{script}");
    }
}
