//! MariaDB or MySQL, and what their SQL has different words for.

use super::super::process::ServerError;
use super::programs::Programs;

/// MariaDB or MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// MariaDB.
    Mariadb,
    /// MySQL.
    Mysql,
}

impl Family {
    /// The one that the tests start.
    ///
    /// # Errors
    /// When the variable that says so names none, or one that is not there.
    pub fn asked() -> Result<Self, ServerError> {
        Ok(Programs::asked()?.family())
    }

    /// The option of a server that offers no TLS.
    pub const fn without_tls(self) -> &'static str {
        match self {
            Self::Mariadb => "--skip-ssl",
            Self::Mysql => "--tls-version=",
        }
    }

    /// How many wait for a lock of a row, as a statement.
    pub const fn lock_waits(self) -> &'static str {
        match self {
            Self::Mariadb => "select count(*) from information_schema.innodb_lock_waits",
            Self::Mysql => "select count(*) from performance_schema.data_lock_waits",
        }
    }

    /// How many deadlocks the server has met, as a statement.
    pub const fn deadlocks(self) -> &'static str {
        match self {
            Self::Mariadb => {
                "select variable_value from information_schema.global_status where variable_name = 'innodb_deadlocks'"
            }
            Self::Mysql => "select count from information_schema.innodb_metrics where name = 'lock_deadlocks'",
        }
    }

    /// The setting of a session that bounds how many rows a recursive query makes.
    pub const fn recursion(self) -> &'static str {
        match self {
            Self::Mariadb => "max_recursive_iterations",
            Self::Mysql => "cte_max_recursion_depth",
        }
    }
}
