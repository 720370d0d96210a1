//! What is run a second time: the tests of the MySQL store that ran on MariaDB, on MySQL itself.

use super::build::Binary;
use super::{Case, End, Suite};
use crate::servers;

/// What `crates/postrider-testkit/src/servers/mariadb/family.rs` reads, and what it is to find.
pub const VARIABLE: &str = "POSTRIDER_TESTS_ON";
/// The value that it finds.
pub const VALUE: &str = "mysql";
/// How the name of a second run ends.
const SUFFIX: &str = " on MySQL";

/// The programs, each with the part of the names of those of its tests that start such a server; all of them without one.
const PROGRAMS: [(&str, &str); 12] = [
    ("postrider-stores::mysql_suite", ""),
    ("postrider-stores::mysql_reading", ""),
    ("postrider-stores::mysql_settling", ""),
    ("postrider-stores::mysql_writing", ""),
    ("postrider-stores::mysql_tls", ""),
    ("postrider-stores::mysql_faults", ""),
    ("postrider-stores::mysql_replica", ""),
    ("postrider::enqueue", "mysql"),
    ("postrider-relay::crash_matrix", "mariadb"),
    ("postrider-cli::cli", "mariadb"),
    ("postrider-cli::failpoints", "mariadb"),
    ("mysql-kafka::clients", ""),
];

/// The second runs of these programs.
pub fn on_mysql(binaries: &[Binary]) -> Vec<Binary> {
    let part = |binary: &Binary| PROGRAMS.iter().find(|(name, _)| *name == binary.name).map(|(_, part)| *part);
    let again = |binary: &Binary, part: &'static str| Binary {
        name: format!("{}{SUFFIX}", binary.name),
        package: binary.package.clone(),
        program: binary.program.clone(),
        folder: binary.folder.clone(),
        again: Some(part),
    };
    binaries.iter().filter_map(|binary| Some(again(binary, part(binary)?))).collect()
}

/// Whether there is a MySQL to run them on.
pub fn is_installed() -> bool {
    servers::mysql::found().is_some()
}

/// What is said where there is none.
pub fn not_run(binary: &Binary) -> Suite {
    let why = "MySQL: not installed, and `cargo xtask servers --install` could not bring it".to_owned();
    let cases = vec![Case::new("(every test)".to_owned(), End::NotRun(why))];
    Suite { name: binary.name.clone(), cases, not_run: Vec::new() }
}

/// Which of the two servers a program of the MySQL store ran on.
pub fn server(suite: &str) -> &'static str {
    if suite.ends_with(SUFFIX) { "mysql" } else { "mariadb" }
}
