//! Which server is started, and from where.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::brought::caches;
use super::super::process::{Folder, Recipe, ServerError, find};
use super::{Family, PACKAGE};

/// The variable that says what the tests start: `mariadb`, as without it, `mariadb-11.8` or `mysql`.
const VARIABLE: &str = "POSTRIDER_TESTS_ON";

/// A server of another Debian than this may be, as `cargo xtask servers --install` unpacks it: with all that it needs, down
/// to the C library.
struct Unpacked {
    /// Its folder in the caches.
    folder: &'static str,
    /// Another folder.
    variable: &'static str,
    program: &'static str,
    package: &'static str,
    /// Where it has its messages and character sets.
    share: &'static str,
    /// What its own defaults would do beside serving.
    options: &'static [&'static str],
}

const MYSQL: Unpacked = Unpacked {
    folder: "mysql",
    variable: "POSTRIDER_MYSQL_FOLDER",
    program: "usr/sbin/mysqld",
    package: "mysql-server-core, of its unstable distribution: cargo xtask servers --install",
    share: "usr/share/mysql",
    options: &["--mysqlx=OFF", "--secure-file-priv=NULL"],
};

const MARIADB: Unpacked = Unpacked {
    folder: "mariadb-11.8",
    variable: "POSTRIDER_MARIADB_FOLDER",
    program: "usr/sbin/mariadbd",
    package: "mariadb-server-core of Debian 13: cargo xtask servers --install",
    share: "usr/share/mariadb",
    options: &[],
};

/// What makes the tables of a new MariaDB, in this order (`mariadb-install-db` does the same).
const TABLES: [&str; 5] = [
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
];

/// The programs of one server.
pub(super) struct Programs {
    family: Family,
    /// Where they are unpacked, if they are not those of this machine.
    unpacked: Option<(PathBuf, &'static Unpacked)>,
}

impl Programs {
    /// What the tests start.
    ///
    /// # Errors
    /// When the variable names no server, or one that is not there.
    pub(super) fn asked() -> Result<Self, ServerError> {
        match std::env::var(VARIABLE).as_deref() {
            Err(_) | Ok("mariadb") => Self::of(Family::Mariadb),
            Ok("mysql") => Self::of(Family::Mysql),
            Ok("mariadb-11.8") => Ok(Self { family: Family::Mariadb, unpacked: Some(MARIADB.find()?) }),
            Ok(other) => Err(ServerError::failed(VARIABLE, format!("mariadb, mariadb-11.8 or mysql, not {other:?}"))),
        }
    }

    /// The MariaDB of this machine, or MySQL.
    ///
    /// # Errors
    /// When MySQL is not there.
    pub(super) fn of(family: Family) -> Result<Self, ServerError> {
        let unpacked = match family {
            Family::Mariadb => None,
            Family::Mysql => Some(MYSQL.find()?),
        };
        Ok(Self { family, unpacked })
    }

    pub(super) fn family(&self) -> Family {
        self.family
    }

    /// What makes the tables of a new server; the folder of its data is still to be given.
    ///
    /// # Errors
    /// When a program or a file is not there.
    pub(super) fn install(&self, folder: &Folder, data: &Path) -> Result<Recipe, ServerError> {
        match (self.family, &self.unpacked) {
            (Family::Mariadb, None) => {
                Ok(Recipe::new(find("mariadb-install-db", &[], PACKAGE)?, folder.path()).args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--skip-name-resolve",
                ]))
            }
            (Family::Mariadb, Some((root, unpacked))) => {
                let mut recipe = self.server(folder)?.args(["--bootstrap", "--skip-name-resolve"]);
                recipe.input = Some(folder.write("tables.sql", &tables(&root.join(unpacked.share))?)?);
                folder.create_folder(&data.join("mysql"))?;
                Ok(recipe)
            }
            (Family::Mysql, _) => Ok(self.server(folder)?.args(["--initialize-insecure"])),
        }
    }

    /// The server with its own defaults.
    ///
    /// # Errors
    /// When it is not there.
    pub(super) fn server(&self, folder: &Folder) -> Result<Recipe, ServerError> {
        let Some((root, unpacked)) = &self.unpacked else {
            return Ok(Recipe::new(find("mariadbd", &[], PACKAGE)?, folder.path()).args(["--no-defaults"]));
        };
        let libraries = root.join(format!("usr/lib/{ARCH}-linux-gnu"));
        let loader = if ARCH == "aarch64" { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
        let of_root = |option: &str, place: PathBuf| format!("--{option}={}", root.join(place).display());
        let share = Path::new(unpacked.share);
        Ok(Recipe::new(libraries.join(loader), folder.path())
            .args([Path::new("--library-path"), &libraries, &root.join(unpacked.program)])
            .args(["--no-defaults"])
            .args(unpacked.options.iter().copied())
            .args([of_root("basedir", "usr".into()), of_root("plugin-dir", "usr/lib/mysql/plugin".into())])
            .args([of_root("lc-messages-dir", share.into()), of_root("character-sets-dir", share.join("charsets"))]))
    }
}

impl Unpacked {
    /// The folder that has it.
    fn find(&'static self) -> Result<(PathBuf, &'static Self), ServerError> {
        let named = std::env::var_os(self.variable).map(PathBuf::from);
        named
            .into_iter()
            .chain(caches().map(|cache| cache.join(self.folder)))
            .find(|folder| folder.join(self.program).is_file())
            .map(|folder| (folder, self))
            .ok_or_else(|| ServerError::NotInstalled { program: self.folder.to_owned(), package: self.package })
    }
}

/// The statements that make the tables of a new MariaDB.
fn tables(share: &Path) -> Result<String, ServerError> {
    let mut all = String::from("use mysql;\nset @auth_root_socket = null;\n");
    for name in TABLES {
        let file = share.join(name);
        let text = fs::read_to_string(&file);
        all += &text.map_err(|error| ServerError::failed(format!("reading {}", file.display()), error))?;
    }
    Ok(all)
}
