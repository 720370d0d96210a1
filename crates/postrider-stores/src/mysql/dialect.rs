//! What MySQL and MariaDB do differently: nothing else in this folder knows which of them it speaks to.
//!
//! The statements themselves use what both have. RETURNING, `skip locked` after `for share`, default arguments and the
//! type JSON are among what is left alone.

use std::time::Duration;

/// Which of the two, and which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) family: Family,
    pub(super) version: (u16, u16, u16),
}

/// Which server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Mysql,
    Mariadb,
}

impl Dialect {
    /// What `select version()` tells. A MariaDB that replaces a MySQL says `5.5.5-10.11.6-MariaDB`.
    pub(super) fn read(version: &str) -> Self {
        let family = if version.contains("MariaDB") { Family::Mariadb } else { Family::Mysql };
        let version = version.strip_prefix("5.5.5-").unwrap_or(version);
        let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self { family, version: (next(), next(), next()) }
    }

    /// The name of the server.
    pub(super) const fn name(self) -> &'static str {
        match self.family {
            Family::Mysql => "MySQL",
            Family::Mariadb => "MariaDB",
        }
    }

    /// The first version with everything that is used here: `skip locked`, defaults that are expressions, and checks of
    /// JSON. What both have since then is not asked for again.
    pub(super) const fn oldest(self) -> (u16, u16, u16) {
        match self.family {
            Family::Mysql => (8, 0, 16),
            Family::Mariadb => (10, 6, 0),
        }
    }

    /// Settings of a session that one of them alone has, each to be set by itself.
    ///
    /// MariaDB makes a join of a long list of numbers, and then may walk the whole table for it, waiting for every row that
    /// somebody writes: not here. MySQL does so when a list takes more memory than it is given, and remembers for a day
    /// what `information_schema` said. What a client gave up is ended by the server too; MySQL ends only what reads.
    pub(super) fn settings(self, limit: Duration) -> Vec<String> {
        match self.family {
            Family::Mariadb => vec![
                "in_predicate_conversion_threshold = 0".to_owned(),
                format!("max_statement_time = {}", limit.as_secs_f64()),
            ],
            Family::Mysql => vec![
                "range_optimizer_max_mem_size = 0".to_owned(),
                "information_schema_stats_expiry = 0".to_owned(),
                format!("max_execution_time = {}", limit.as_millis()),
            ],
        }
    }

    /// A `select` that the server itself ends after a while.
    pub(super) fn limited(self, select: &str, limit: Duration) -> String {
        match self.family {
            Family::Mariadb => format!("set statement max_statement_time = {} for {select}", limit.as_secs_f64()),
            Family::Mysql => {
                let hint = format!("select /*+ max_execution_time({}) */", limit.as_millis().max(1));
                select.replacen("select", &hint, 1)
            }
        }
    }

    /// The condition under which a server applies another one's log, as a statement of rows: none on a primary.
    pub(super) const fn replica_status(self) -> &'static str {
        match self.family {
            Family::Mysql => "show replica status",
            Family::Mariadb => "show all slaves status",
        }
    }

    /// Whether an error number says that the time limit which the server itself was given has passed.
    pub(super) const fn is_time_limit(code: u16) -> bool {
        matches!(code, 1969 | 3024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_what_it_says_of_itself() {
        let mariadb = |version| Dialect { family: Family::Mariadb, version };
        let mysql = |version| Dialect { family: Family::Mysql, version };
        for (said, expected) in [
            ("10.11.19-MariaDB-0+deb12u1", mariadb((10, 11, 19))),
            ("5.5.5-10.6.4-MariaDB-log", mariadb((10, 6, 4))),
            ("8.0.36", mysql((8, 0, 36))),
            ("8.4.0-commercial", mysql((8, 4, 0))),
            ("9.1", mysql((9, 1, 0))),
            ("", mysql((0, 0, 0))),
        ] {
            assert_eq!(Dialect::read(said), expected, "{said}");
        }
    }

    #[test]
    fn a_long_look_is_ended_by_the_server_in_the_words_of_each() {
        let (limit, sql) = (Duration::from_millis(2_500), "select id from t where (select 1)");
        assert_eq!(
            Dialect::read("10.6.4-MariaDB").limited(sql, limit),
            "set statement max_statement_time = 2.5 for select id from t where (select 1)"
        );
        assert_eq!(
            Dialect::read("8.0.36").limited(sql, limit),
            "select /*+ max_execution_time(2500) */ id from t where (select 1)"
        );
    }

    #[test]
    fn each_is_given_only_settings_that_it_has() {
        let of = |said| Dialect::read(said).settings(Duration::from_millis(1_500)).join(" ");
        let (mariadb, mysql) = (of("10.6.4-MariaDB"), of("8.0.36"));
        assert!(
            mariadb.contains("in_predicate_conversion_threshold = 0") && mariadb.contains("max_statement_time = 1.5")
        );
        assert!(mysql.contains("range_optimizer_max_mem_size = 0") && mysql.contains("max_execution_time = 1500"));
        assert!(!mysql.contains("max_statement_time") && !mariadb.contains("information_schema_stats_expiry"));
    }
}
