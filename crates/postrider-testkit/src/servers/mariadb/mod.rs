//! MariaDB, or MySQL in its place: private servers with a password, on a free port of 127.0.0.1.
//!
//! [`shared`] gives one server per test binary; every test takes a [`Mariadb::create_database`] of its own. Tests that
//! crash or restart the server, or need other settings, start one for themselves with [`Mariadb::start_with`].
//!
//! The same tests run against both, and against a later MariaDB: which one is started `POSTRIDER_TESTS_ON` says.

mod family;
mod programs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::OnceCell;

pub use self::family::Family;
use self::programs::Programs;
use super::process::{Folder, Process, ServerError, Signal, find, free_port};

/// The name of the server's administrator.
pub const USER: &str = "root";
/// The password of the server's administrator.
pub const PASSWORD: &str = "a pass/word@for:tests";
const PASSWORD_IN_URL: &str = "a%20pass%2Fword%40for%3Atests";
const PACKAGE: &str = "mariadb-server";
/// What it runs at every start.
const INIT: &str = "init.sql";
const PATIENCE: Duration = Duration::from_secs(40);

/// One private server, ended and removed on drop.
#[derive(Debug)]
pub struct Mariadb {
    family: Family,
    process: Process,
    port: u16,
    client: PathBuf,
    folder: Folder,
    databases: AtomicU32,
}

static SHARED: OnceCell<Mariadb> = OnceCell::const_new();

/// The server that the tests of one binary share.
///
/// # Errors
/// When MariaDB is not installed or does not start.
pub async fn shared() -> Result<&'static Mariadb, ServerError> {
    SHARED.get_or_try_init(Mariadb::start).await
}

impl Mariadb {
    /// A fresh server on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When MariaDB is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_with(&[]).await
    }

    /// A fresh server with settings of the caller's, such as `["--sql-mode="]`.
    ///
    /// # Errors
    /// When MariaDB is not installed or does not start.
    pub async fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        Self::start_by(&Programs::asked()?, settings).await
    }

    /// The same of one of the two.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start_of(family: Family, settings: &[&str]) -> Result<Self, ServerError> {
        Self::start_by(&Programs::of(family)?, settings).await
    }

    async fn start_by(programs: &Programs, settings: &[&str]) -> Result<Self, ServerError> {
        let (client, folder, port) = (find("mariadb", &[], PACKAGE)?, Folder::create()?, free_port()?);
        let install = programs.install(&folder, &data(&folder))?;
        install.args([format!("--datadir={}", data(&folder).display()), temporary(&folder)]).run()?;
        let init = folder.write(INIT, &users())?;
        // Its own defaults but for sizes: a test must not depend on what a file of the machine says. Two socket folders would
        // be too long for some temporary folder.
        let mut recipe = programs
            .server(&folder)?
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"])
            .args([format!("--datadir={}", data(&folder).display()), format!("--port={port}")])
            .args([format!("--init-file={}", init.display()), format!("--socket={}", socket(&folder).display())])
            .args([format!("--pid-file={}", folder.path().join("pid").display()), temporary(&folder)])
            .args(["--innodb-buffer-pool-size=128M", "--max-connections=200", "--max-allowed-packet=80M"]);
        recipe = recipe.args(settings.iter().copied());
        recipe.graceful = Signal::Terminate;
        let process = Process::spawn(recipe)?;
        let mut server =
            Self { family: programs.family(), process, port, client, folder, databases: AtomicU32::new(0) };
        server.answer().await?;
        Ok(server)
    }

    /// Starts the server again like [`Self::restart`], and lets it run statements before it answers anybody; each ends with
    /// a semicolon and a line break.
    ///
    /// # Errors
    /// When it does not start within a minute, as when a statement fails.
    pub async fn restart_after(&mut self, statements: &str) -> Result<(), ServerError> {
        self.folder.write(INIT, &format!("{}{statements}", users()))?;
        let restarted = self.restart().await;
        self.folder.write(INIT, &users())?;
        restarted
    }

    async fn answer(&mut self) -> Result<(), ServerError> {
        let (client, socket) = (self.client.clone(), self.socket());
        self.process.ready(PATIENCE, async || query(&client, &socket, "mysql", "select 1").await.is_ok()).await
    }

    /// Which of the two it is.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.folder)
    }

    /// The URL of one of its databases, as administrator.
    pub fn url_for(&self, database: &str) -> String {
        format!("mysql://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of one of its databases, as another user.
    pub fn url_as(&self, user: &str, password: &str, database: &str) -> String {
        format!("mysql://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates an empty database and returns its name. Its texts have another collation than those of an outbox.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn create_database(&self) -> Result<String, ServerError> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("mysql", &format!("create database {name} default character set latin1")).await?;
        Ok(name)
    }

    /// Runs SQL with the command-line client as administrator and returns the rows, without names, one per line.
    ///
    /// # Errors
    /// What the server said.
    pub async fn sql(&self, database: &str, sql: &str) -> Result<String, ServerError> {
        query(&self.client, &self.socket(), database, sql).await
    }

    /// Ends the whole server with SIGKILL, as a crash of the machine would, but for what is in the disk cache.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Stops the server in good order.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Starts the server again on the same port and data, after a stop or a crash.
    ///
    /// # Errors
    /// When it does not start within a minute.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        self.process.restart()?;
        self.answer().await
    }
}

/// What the server runs at its start. Names are not looked up: who comes over TCP is of 127.0.0.1.
fn users() -> String {
    let users = [format!("{USER}@localhost"), format!("{USER}@'127.0.0.1'")];
    let users = users.map(|user| {
        format!(
            "create user if not exists {user};\nalter user {user} identified by '{PASSWORD}';\n\
             grant all on *.* to {user} with grant option;\n"
        )
    });
    users.concat()
}

fn data(folder: &Folder) -> PathBuf {
    folder.path().join("data")
}

/// A server that starts removes the temporary files of all others in the same folder.
fn temporary(folder: &Folder) -> String {
    format!("--tmpdir={}", folder.path().display())
}

fn socket(folder: &Folder) -> PathBuf {
    folder.path().join("socket")
}

async fn query(client: &Path, socket: &Path, database: &str, sql: &str) -> Result<String, ServerError> {
    let done = Command::new(client)
        .args(["--no-defaults", "--protocol=socket", "--user", USER, "--batch", "--skip-column-names"])
        .args(["--default-character-set=utf8mb4", "--connect-timeout=10", "--raw"])
        .args([&format!("--socket={}", socket.display()), &format!("--execute={sql}"), database])
        .env("MYSQL_PWD", PASSWORD)
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| ServerError::failed("running mariadb", error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned());
    }
    Err(ServerError::failed("a statement of mariadb", String::from_utf8_lossy(&done.stderr)))
}
