//! PostgreSQL: private clusters with a password, `wal_level = logical` and prepared transactions.
//!
//! [`shared`] gives one server per test binary; every test takes a [`Postgres::fresh_database`] of its own. Tests
//! that crash or restart the server start one for themselves with [`Postgres::start`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::OnceCell;

use super::process::{Folder, Process, Recipe, ServerError, Signal, find, free_port};

/// The name of the cluster's superuser.
pub const USER: &str = "postgres";
/// The password of the cluster's superuser.
pub const PASSWORD: &str = "a pass/word@for:tests";
const PASSWORD_IN_URL: &str = "a%20pass%2Fword%40for%3Atests";
const PACKAGE: &str = "postgresql";
const PATIENCE: Duration = Duration::from_secs(60);

/// One private cluster, ended and removed on drop.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: u16,
    psql: PathBuf,
    folder: Folder,
    databases: AtomicU32,
}

static SHARED: OnceCell<Postgres> = OnceCell::const_new();

/// The server that the tests of one binary share.
///
/// # Errors
/// When PostgreSQL is not installed or does not start.
pub async fn shared() -> Result<&'static Postgres, ServerError> {
    SHARED.get_or_try_init(Postgres::start).await
}

impl Postgres {
    /// A fresh cluster on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_with(&[]).await
    }

    /// A fresh cluster with settings of the caller's, such as `["max_connections=20"]`.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub async fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        let folder = Folder::create()?;
        let password = folder.write("password", PASSWORD)?;
        Recipe::new(binary("initdb")?, folder.path())
            .args([
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
                "--username",
                USER,
                "--auth=scram-sha-256",
                "--pwfile",
            ])
            .args([password.as_path()])
            .args(["-D".as_ref(), data(&folder).as_path()])
            .run()?;
        Self::launch(folder, settings).await
    }

    /// A hot standby of this cluster, which follows it by streaming.
    ///
    /// # Errors
    /// When the base backup fails or the standby does not start.
    pub async fn standby(&self) -> Result<Self, ServerError> {
        let folder = Folder::create()?;
        Recipe::new(binary("pg_basebackup")?, folder.path())
            .args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--dbname", &self.url_for("postgres")])
            .args(["-D".as_ref(), data(&folder).as_path()])
            .run()?;
        Self::launch(folder, &[]).await
    }

    async fn launch(folder: Folder, settings: &[&str]) -> Result<Self, ServerError> {
        let (port, psql, program) = (free_port()?, binary("psql")?, binary("postgres")?);
        let mut recipe = Recipe::new(program, folder.path())
            .args(["-D".as_ref(), data(&folder).as_path()])
            .args(["-p".to_owned(), port.to_string(), "-h".to_owned(), "127.0.0.1".to_owned()])
            .args(["-c", "unix_socket_directories=", "-c", "wal_level=logical", "-c", "max_prepared_transactions=20"])
            .args(["-c", "max_connections=200", "-c", "shared_buffers=128MB", "-c", "log_checkpoints=off"]);
        for setting in settings {
            recipe = recipe.args(["-c", setting]);
        }
        recipe.graceful = Signal::Interrupt;
        recipe.immediate = Signal::Quit;
        let process = Process::spawn(recipe)?;
        let mut server = Self { process, port, psql, folder, databases: AtomicU32::new(0) };
        server.answer().await?;
        Ok(server)
    }

    async fn answer(&mut self) -> Result<(), ServerError> {
        let (psql, port) = (self.psql.clone(), self.port);
        self.process.ready(PATIENCE, async || query(&psql, port, "postgres", "select 1").await.is_ok()).await
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its data.
    pub fn data(&self) -> PathBuf {
        data(&self.folder)
    }

    /// The URL of its `postgres` database, as superuser.
    pub fn url(&self) -> String {
        self.url_for("postgres")
    }

    /// The URL of one of its databases, as superuser.
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of one of its databases, as another role.
    pub fn url_as(&self, role: &str, password: &str, database: &str) -> String {
        format!("postgres://{role}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates an empty database and returns its name.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn create_database(&self) -> Result<String, ServerError> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("create database {name} template template0")).await?;
        Ok(name)
    }

    /// Creates an empty database and returns its URL, as superuser.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn fresh_database(&self) -> Result<String, ServerError> {
        Ok(self.url_for(&self.create_database().await?))
    }

    /// Runs SQL with `psql` as superuser and returns the rows, unaligned, one per line.
    ///
    /// # Errors
    /// What the server said.
    pub async fn psql(&self, database: &str, sql: &str) -> Result<String, ServerError> {
        query(&self.psql, self.port, database, sql).await
    }

    /// Ends the whole server with SIGKILL, as a crash of the machine would, but for what is in the disk cache.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Stops the server in good order ("fast" shutdown).
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Freezes or resumes the postmaster, or sends it another signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Starts the server again on the same port and data, after a stop or a crash.
    ///
    /// # Errors
    /// When it does not start within a minute.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        let mut tries = 0;
        loop {
            self.process.restart()?;
            match self.answer().await {
                // The orphans of a killed server hold its shared memory until they notice.
                Err(_) if tries < 20 => tries += 1,
                answered => return answered,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn data(folder: &Folder) -> PathBuf {
    folder.path().join("data")
}

/// A program of the newest PostgreSQL on this machine; `POSTRIDER_POSTGRES_BIN` names another folder.
fn binary(program: &str) -> Result<PathBuf, ServerError> {
    let mut folders: Vec<PathBuf> = std::env::var_os("POSTRIDER_POSTGRES_BIN").map(PathBuf::from).into_iter().collect();
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    folders.extend(versions.into_iter().rev().map(|(_, path)| path));
    find(program, &folders, PACKAGE)
}

async fn query(psql: &Path, port: u16, database: &str, sql: &str) -> Result<String, ServerError> {
    let done = Command::new(psql)
        .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", USER, "-d", database])
        .args(["-p", &port.to_string(), "-c", sql])
        .env("PGPASSWORD", PASSWORD)
        .env("PGCONNECT_TIMEOUT", "10")
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| ServerError::failed("running psql", error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned());
    }
    Err(ServerError::failed("a statement of psql", String::from_utf8_lossy(&done.stderr)))
}
