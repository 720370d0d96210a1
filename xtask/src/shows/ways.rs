//! The ways to receive in a SQL database, by driver and database: how many cases of each passed.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::step::{Scene, Seen};
use crate::process::run;
use crate::{Result, servers, table};

const LIMIT: Duration = Duration::from_secs(1_800);
/// The tests whose cases are the same through every driver, and where each list of them stands.
const TESTS: &str = "crates/postrider/tests/enqueue";
/// The ways, in the order of the columns.
const WAYS: [&str; 4] = ["inbox", "cursor", "tokens", "idempotency keys"];
/// What two do at once, and what is cut, by database.
const FAULTS: [&str; 7] = ["contention", "lost", "meeting", "older_snapshot", "partitions", "together", "tokens"];
const DATABASES: [(&str, &str); 3] =
    [("on_postgresql_", "PostgreSQL"), ("on_mysql_", "MariaDB"), ("on_sqlite_", "SQLite")];

/// Runs the tests, and draws what passed.
///
/// # Errors
/// When they cannot be run, or a list of cases cannot be read.
pub fn look(scene: &Scene<'_>) -> Result<Seen> {
    let ways = ways(&list(scene, "inbox.rs")?, &list(scene, "keys.rs")?);
    let mut command = scene.tree.cargo();
    command.args(["test", "--package", "postrider", "--all-features", "--test", "enqueue", "--test", "idempotency"]);
    let ran = run(&mut command, &scene.logs.join("ways-to-receive"), LIMIT)?;
    if !ran.succeeded() {
        return Ok(Seen::wrong(format!("{}\n{}", ran.said(), ran.ending())));
    }
    let passed: Vec<&str> = ran.out.lines().filter_map(passed).collect();
    let through = through_drivers(&passed, &ways);
    let whole = |row: &Vec<String>| row.iter().all(|cell| cell != "0");
    let http = passed
        .iter()
        .filter(|path| ["refusals::", "requests::", "uncommitted::"].iter().any(|of| path.starts_with(of)));
    let drivers = table::draw(&["driver", WAYS[0], WAYS[1], WAYS[2], WAYS[3]], &through);
    let heads: Vec<&str> = std::iter::once("beside others, and cut").chain(DATABASES.map(|(_, name)| name)).collect();
    let faults = table::draw(&heads, &under_faults(&passed));
    let said = format!(
        "{}\n\n{drivers}\n{faults}\nthe layer for requests over HTTP: {} cases passed\n",
        servers::of_receivers().join("\n"),
        http.count()
    );
    Ok(if !through.is_empty() && through.iter().all(whole) { Seen::well(said) } else { Seen::wrong(said) })
}

/// The cases of a list that a macro has for every driver.
fn list(scene: &Scene<'_>, file: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(scene.tree.root.join(TESTS).join(file))?;
    let begins = text.find("{ $fresh;\n").ok_or_else(|| format!("{TESTS}/{file} has no list of cases"))?;
    let names = text[begins..].lines().skip(1).map(str::trim).take_while(|line| line.ends_with(','));
    Ok(names.map(|name| name.trim_end_matches(',').to_owned()).collect())
}

/// The way that each case is of.
fn ways(inbox: &[String], keys: &[String]) -> BTreeMap<String, usize> {
    let of = |name: &String| match name {
        name if name.contains("token") => 2,
        name if name.contains("source") || name.contains("place") => 1,
        _ => 0,
    };
    let inbox = inbox.iter().map(|name| (name.clone(), of(name)));
    inbox.chain(keys.iter().map(|name| (name.clone(), 3))).collect()
}

/// The path of a test that passed.
fn passed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
}

fn through_drivers(passed: &[&str], ways: &BTreeMap<String, usize>) -> Vec<Vec<String>> {
    let mut rows: BTreeMap<&str, [u32; WAYS.len()]> = BTreeMap::new();
    for path in passed {
        let Some((module, case)) = path.rsplit_once("::") else { continue };
        let Some((_, driver)) = module.rsplit_once("::") else { continue };
        if let Some(way) = ways.get(case) {
            rows.entry(driver.trim_end_matches('_')).or_default()[*way] += 1;
        }
    }
    let row = |(driver, counts): (&str, [u32; WAYS.len()])| {
        std::iter::once(driver.replace('_', "-")).chain(counts.map(|count| count.to_string())).collect()
    };
    rows.into_iter().map(row).collect()
}

fn under_faults(passed: &[&str]) -> Vec<Vec<String>> {
    let count = |module: &str, begins: &str| {
        let case =
            |path: &&&str| path.split_once("::").is_some_and(|(of, case)| of == module && case.starts_with(begins));
        passed.iter().filter(case).count().to_string()
    };
    let row = |module: &str| {
        let counts = DATABASES.map(|(begins, _)| count(module, begins));
        std::iter::once(module.replace('_', " ")).chain(counts).collect()
    };
    FAULTS.map(row).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_by_driver_and_way() {
        let ways = ways(&["first".into(), "a_token".into(), "a_place".into()], &["begins".into()]);
        let passed = [
            "postgres::tokio_postgres_::first",
            "sqlite::rusqlite_::a_token",
            "sqlite::rusqlite_::a_place",
            "x::first",
        ];
        let expected = [["rusqlite", "0", "1", "1", "0"], ["tokio-postgres", "1", "0", "0", "0"]];
        assert_eq!(through_drivers(&passed, &ways), expected);
    }

    #[test]
    fn only_what_passed_counts() {
        assert_eq!(passed("test a::b ... ok"), Some("a::b"));
        assert_eq!(passed("test a::b ... FAILED"), None);
        assert_eq!(under_faults(&["lost::on_mysql_x", "lost::on_mysql_y"])[1], ["lost", "0", "2", "0"]);
    }
}
