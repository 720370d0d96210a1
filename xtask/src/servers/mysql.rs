//! MySQL, which only Debian's unstable distribution has: brought by apt with all that it needs, down to the C library, and
//! unpacked into a folder of its own, so that nothing of the machine changes.
//! `crates/postrider-testkit/src/servers/mariadb/family.rs` starts it from there.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// What the table calls it.
pub const NAME: &str = "mysql-server-core (Debian unstable)";
const PACKAGE: &str = "mysql-server-core";
/// Another folder of the unpacked packages.
const VARIABLE: &str = "POSTRIDER_MYSQL_FOLDER";
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

/// Its program, where it is unpacked.
pub fn found() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let folders = named.into_iter().chain(super::caches().map(|cache| cache.join("mysql")));
    folders.map(|folder| folder.join("usr/sbin/mysqld")).find(|file| file.is_file())
}

/// Fetches and unpacks it.
///
/// # Errors
/// When this is no Debian, or apt does not get it.
pub fn bring() -> Result<()> {
    let cache = super::cache()?;
    let (folder, work) = (cache.join("mysql"), cache.join("mysql-being-fetched"));
    let _ = fs::remove_dir_all(&work);
    for part in ["lists/partial", "archives/partial", "unpacked"] {
        fs::create_dir_all(work.join(part))?;
    }
    fs::write(work.join("status"), "")?;
    fs::write(work.join("sources.list"), format!("deb [signed-by={KEYRING}] {} sid main\n", mirror()?))?;
    fs::write(work.join("apt.conf"), CONFIGURATION.replace("WORK", &work.display().to_string()))?;
    apt(&work, &["update", "-q"])?;
    apt(&work, &["install", "-q", "-y", "--no-install-recommends", "--download-only", PACKAGE])?;
    unpack(&work)?;
    runs(&work.join("unpacked"))?;
    // Whole or not at all: a run that is killed leaves nothing that looks like a server.
    let _ = fs::remove_dir_all(&folder);
    fs::rename(work.join("unpacked"), &folder)?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// Where this machine gets Debian's packages from.
fn mirror() -> Result<String> {
    let words = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian"];
    let out = Command::new("apt-get").args(words).output().map_err(|error| format!("apt-get: {error}"))?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    said.lines().next().map(str::to_owned).ok_or_else(|| "apt-get knows no mirror of Debian".into())
}

fn apt(work: &Path, words: &[&str]) -> Result<()> {
    println!("apt-get {} (unstable, beside the machine's own)", words.join(" "));
    let mut command = Command::new("apt-get");
    command.args(words).env("APT_CONFIG", work.join("apt.conf")).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("apt-get: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("apt-get {}: {status}", words.join(" ")).into()) }
}

/// That what was unpacked runs on this machine, with the C library that came with it.
fn runs(root: &Path) -> Result<()> {
    let libraries = root.join(format!("usr/lib/{ARCH}-linux-gnu"));
    let loader = if ARCH == "aarch64" { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
    let mut command = Command::new(libraries.join(loader));
    command.arg("--library-path").arg(&libraries).arg(root.join("usr/sbin/mysqld")).arg("--version");
    let out = command.output().map_err(|error| format!("mysqld: {error}"))?;
    if out.status.success() {
        print!("{}", String::from_utf8_lossy(&out.stdout));
        return Ok(());
    }
    Err(format!("mysqld --version: {}: {}", out.status, String::from_utf8_lossy(&out.stderr)).into())
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
