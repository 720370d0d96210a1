//! What is run again: tests of the MySQL store that ran on this machine's MariaDB, on MySQL itself and on a later MariaDB.

use super::build::Binary;
use super::{Case, End, Suite};
use crate::servers::unpacked::{MARIADB, MYSQL, Unpacked};

/// What `crates/postrider-testkit/src/servers/mariadb/programs.rs` reads.
pub const VARIABLE: &str = "POSTRIDER_TESTS_ON";

/// Another server for the same tests.
#[derive(Debug)]
pub struct Other {
    /// What the variable says.
    pub value: &'static str,
    /// What the report calls it, among what a suite can run against.
    backend: &'static str,
    /// How the name of a run on it ends.
    suffix: &'static str,
    server: &'static Unpacked,
    /// The programs, each with the part of the names of those of its tests that start such a server; all of them without one.
    programs: &'static [(&'static str, &'static str)],
}

const OTHERS: [Other; 2] = [
    Other {
        value: "mysql",
        backend: "mysql",
        suffix: " on MySQL",
        server: &MYSQL,
        programs: &[
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
        ],
    },
    Other {
        value: "mariadb-11.8",
        backend: "mariadb",
        suffix: " on MariaDB 11.8",
        server: &MARIADB,
        programs: &[
            ("postrider-stores::mysql_suite", ""),
            ("postrider-stores::mysql_settling", ""),
            ("postrider::enqueue", "on_mysql"),
        ],
    },
];

/// A run on another server: that, and the part of the names of the tests.
pub type Again = (&'static Other, &'static str);

/// The runs of these programs on other servers.
pub fn on_others(binaries: &[Binary]) -> Vec<Binary> {
    let again = |other: &'static Other, binary: &Binary| {
        let (_, part) = other.programs.iter().find(|(name, _)| *name == binary.name)?;
        Some(Binary {
            name: format!("{}{}", binary.name, other.suffix),
            package: binary.package.clone(),
            program: binary.program.clone(),
            folder: binary.folder.clone(),
            again: Some((other, part)),
        })
    };
    OTHERS.iter().flat_map(|other| binaries.iter().filter_map(move |binary| again(other, binary))).collect()
}

impl Other {
    /// Whether it is there.
    pub fn is_installed(&self) -> bool {
        self.server.found().is_some()
    }

    /// What is said of a program where it is not.
    pub fn not_run(&self, binary: &Binary) -> Suite {
        let name = self.server.name;
        let why = format!("{name}: not installed, and `cargo xtask servers --install` could not bring it");
        let cases = vec![Case::new("(every test)".to_owned(), End::NotRun(why))];
        Suite { name: binary.name.clone(), cases, not_run: Vec::new() }
    }
}

/// Which of the servers a program of the MySQL store ran on.
pub fn server(suite: &str) -> &'static str {
    OTHERS.iter().find(|other| suite.ends_with(other.suffix)).map_or("mariadb", |other| other.backend)
}
