//! Servers of another distribution of Debian than this machine has: brought by apt with all that they need, down to the C
//! library, and unpacked into folders of their own, so that nothing of the machine changes.
//! `crates/postrider-testkit/src/servers/mariadb/programs.rs` starts them from there.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// A server that is brought and unpacked.
#[derive(Debug)]
pub struct Unpacked {
    /// What the table calls it.
    pub name: &'static str,
    package: &'static str,
    distribution: &'static str,
    /// Its folder in the caches.
    folder: &'static str,
    /// Another folder of the unpacked packages.
    variable: &'static str,
    program: &'static str,
}

/// MySQL, which only the unstable distribution has.
pub const MYSQL: Unpacked = Unpacked {
    name: "mysql-server-core (Debian unstable)",
    package: "mysql-server-core",
    distribution: "sid",
    folder: "mysql",
    variable: "POSTRIDER_MYSQL_FOLDER",
    program: "usr/sbin/mysqld",
};

/// MariaDB as it is from 11.6 on, where a transaction ends that meets what was committed after its snapshot.
pub const MARIADB: Unpacked = Unpacked {
    name: "mariadb-server-core 11.8 (Debian 13)",
    package: "mariadb-server-core",
    distribution: "trixie",
    folder: "mariadb-11.8",
    variable: "POSTRIDER_MARIADB_FOLDER",
    program: "usr/sbin/mariadbd",
};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What the packages need for their own scripts, and the server does not.
const NOT_FOR_THE_SERVER: [&str; 3] = ["perl", "libperl", "libgdbm"];
/// Apt with lists, an archive and a status of its own: to it nothing is installed.
const CONFIGURATION: &str = r#"
Dir::Etc::sourcelist "WORK/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "WORK/lists";
Dir::State::status "WORK/status";
Dir::Cache "WORK";
Dir::Cache::archives "archives";
APT::Sandbox::User "root";
Acquire::Languages "none";
"#;

impl Unpacked {
    /// Its program, where it is unpacked.
    pub fn found(&self) -> Option<PathBuf> {
        let named = std::env::var_os(self.variable).map(PathBuf::from);
        let folders = named.into_iter().chain(super::caches().map(|cache| cache.join(self.folder)));
        folders.map(|folder| folder.join(self.program)).find(|file| file.is_file())
    }

    /// Fetches and unpacks it.
    ///
    /// # Errors
    /// When this is no Debian, or apt does not get it.
    pub fn bring(&self) -> Result<()> {
        let cache = super::cache()?;
        let (folder, work) = (cache.join(self.folder), cache.join(format!("{}-being-fetched", self.folder)));
        let _ = fs::remove_dir_all(&work);
        for part in ["lists/partial", "archives/partial", "unpacked"] {
            fs::create_dir_all(work.join(part))?;
        }
        fs::write(work.join("status"), "")?;
        let source = format!("deb [signed-by={KEYRING}] {} {} main\n", mirror()?, self.distribution);
        fs::write(work.join("sources.list"), source)?;
        fs::write(work.join("apt.conf"), CONFIGURATION.replace("WORK", &work.display().to_string()))?;
        apt(&work, &["update", "-q"])?;
        apt(&work, &["install", "-q", "-y", "--no-install-recommends", "--download-only", self.package])?;
        unpack(&work)?;
        self.runs(&work.join("unpacked"))?;
        // Whole or not at all: a run that is killed leaves nothing that looks like a server.
        let _ = fs::remove_dir_all(&folder);
        fs::rename(work.join("unpacked"), &folder)?;
        fs::remove_dir_all(&work)?;
        Ok(())
    }

    /// That what was unpacked runs on this machine, with the C library that came with it.
    fn runs(&self, root: &Path) -> Result<()> {
        let libraries = root.join(format!("usr/lib/{ARCH}-linux-gnu"));
        let loader = if ARCH == "aarch64" { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
        let mut command = Command::new(libraries.join(loader));
        command.arg("--library-path").arg(&libraries).arg(root.join(self.program)).arg("--version");
        let out = command.output().map_err(|error| format!("{}: {error}", self.program))?;
        if out.status.success() {
            print!("{}", String::from_utf8_lossy(&out.stdout));
            return Ok(());
        }
        let said = String::from_utf8_lossy(&out.stderr);
        Err(format!("{} --version: {}: {said}", self.program, out.status).into())
    }
}

/// Where this machine gets Debian's packages from.
fn mirror() -> Result<String> {
    let words = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian"];
    let out = Command::new("apt-get").args(words).output().map_err(|error| format!("apt-get: {error}"))?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    said.lines().next().map(str::to_owned).ok_or_else(|| "apt-get knows no mirror of Debian".into())
}

fn apt(work: &Path, words: &[&str]) -> Result<()> {
    println!("apt-get {} (beside the machine's own)", words.join(" "));
    let mut command = Command::new("apt-get");
    command.args(words).env("APT_CONFIG", work.join("apt.conf")).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("apt-get: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("apt-get {}: {status}", words.join(" ")).into()) }
}

fn unpack(work: &Path) -> Result<()> {
    for entry in fs::read_dir(work.join("archives"))? {
        let archive = entry?.path();
        let name = archive.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.ends_with(".deb") || NOT_FOR_THE_SERVER.iter().any(|package| name.starts_with(package)) {
            continue;
        }
        let status = Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(work.join("unpacked")).status()?;
        if !status.success() {
            return Err(format!("dpkg-deb --extract {name}: {status}").into());
        }
    }
    Ok(())
}
