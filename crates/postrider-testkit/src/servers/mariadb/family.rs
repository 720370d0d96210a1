//! Which of the two servers is started, and how.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use super::super::brought::caches;
use super::super::process::{Folder, Recipe, ServerError, find};
use super::PACKAGE;

/// The server's programs as `cargo xtask servers --install` unpacks them: those of a later Debian than this may be, with all
/// that they need, down to the C library.
const FOLDER: &str = "POSTRIDER_MYSQL_FOLDER";
const UNPACKED: &str = "mysql-server-core, of its unstable distribution: cargo xtask servers --install";

/// MariaDB or MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Debian's `mariadb-server`.
    Mariadb,
    /// Debian's `mysql-server-core`, which only its unstable distribution has.
    Mysql,
}

impl Family {
    /// The variable that says which one the tests start: `mariadb`, as without it, or `mysql`.
    pub const VARIABLE: &'static str = "POSTRIDER_TESTS_ON";

    /// The one that the tests start.
    ///
    /// # Errors
    /// When the variable names neither.
    pub fn asked() -> Result<Self, ServerError> {
        match std::env::var(Self::VARIABLE).as_deref() {
            Err(_) | Ok("mariadb") => Ok(Self::Mariadb),
            Ok("mysql") => Ok(Self::Mysql),
            Ok(other) => Err(ServerError::failed(Self::VARIABLE, format!("mariadb or mysql, not {other:?}"))),
        }
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

    /// What makes the tables of a new server; the folder of its data is still to be given.
    pub(super) fn install(self, folder: &Folder) -> Result<Recipe, ServerError> {
        match self {
            Self::Mariadb => Ok(Recipe::new(find("mariadb-install-db", &[], PACKAGE)?, folder.path()).args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ])),
            Self::Mysql => Ok(self.server(folder)?.args(["--initialize-insecure"])),
        }
    }

    /// The server with its own defaults.
    pub(super) fn server(self, folder: &Folder) -> Result<Recipe, ServerError> {
        let root = match self {
            Self::Mariadb => {
                return Ok(Recipe::new(find("mariadbd", &[], PACKAGE)?, folder.path()).args(["--no-defaults"]));
            }
            Self::Mysql => unpacked()?,
        };
        let libraries = root.join(format!("usr/lib/{ARCH}-linux-gnu"));
        let loader = if ARCH == "aarch64" { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
        let of_root = |option: &str, place: &str| format!("--{option}={}", root.join(place).display());
        Ok(Recipe::new(libraries.join(loader), folder.path())
            .args([Path::new("--library-path"), &libraries, &root.join("usr/sbin/mysqld")])
            .args(["--no-defaults", "--mysqlx=OFF", "--secure-file-priv=NULL"])
            .args([of_root("basedir", "usr"), of_root("plugin-dir", "usr/lib/mysql/plugin")])
            .args([of_root("lc-messages-dir", "usr/share/mysql")])
            .args([of_root("character-sets-dir", "usr/share/mysql/charsets")]))
    }
}

fn unpacked() -> Result<PathBuf, ServerError> {
    let named = std::env::var_os(FOLDER).map(PathBuf::from);
    named
        .into_iter()
        .chain(caches().map(|cache| cache.join("mysql")))
        .find(|folder| folder.join("usr/sbin/mysqld").is_file())
        .ok_or_else(|| ServerError::NotInstalled { program: "mysqld".to_owned(), package: UNPACKED })
}
