//! A private NATS server with JetStream on file storage.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::packages::packages;
use super::process::{Folder, Process, Recipe, ServerError, Signal, find, free_port};

/// The variable that names another program than those of [`NatsBuild`].
pub const VARIABLE: &str = "POSTRIDER_NATS_SERVER";
/// What the server beside Debian's is built of, by `cargo xtask servers --install`.
const LOCK: &str = include_str!("nats/go.sum");

/// What stands in the server's configuration beside the port and the storage.
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    /// Further lines of the configuration, such as `authorization { token: "x" }`.
    pub extra: String,
    /// Whether JetStream is off.
    pub jetstream: JetStream,
    /// Which server it is.
    pub build: NatsBuild,
}

/// Which `nats-server` is started, where [`VARIABLE`] names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NatsBuild {
    /// The one in the path, Debian's say.
    #[default]
    Installed,
    /// 2.15.3, which keeps what it acknowledged when it is killed; where it was not brought, the one in the path.
    Later,
}

/// Whether a server has JetStream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JetStream {
    /// It has.
    #[default]
    On,
    /// It has not.
    Off,
}

/// A running server: `max_payload` 8 MB, file storage in a folder of its own, a free port of 127.0.0.1.
#[derive(Debug)]
pub struct NatsServer {
    // Dropped first: the folder must outlive the process.
    process: Process,
    folder: Folder,
    program: PathBuf,
    port: u16,
    options: NatsOptions,
}

impl NatsServer {
    /// Starts a server without authorization.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_with(NatsOptions::default()).await
    }

    /// Starts a server.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start_with(options: NatsOptions) -> Result<Self, ServerError> {
        Self::start_on(free_port()?, options).await
    }

    /// Starts a server on a port that was asked for before with [`free_port`].
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start_on(port: u16, options: NatsOptions) -> Result<Self, ServerError> {
        let program = program(options.build)?;
        let folder = Folder::create()?;
        let config = folder.write("nats.conf", &config(&folder, port, &options))?;
        let recipe = Recipe::new(program.clone(), folder.path()).args(["-c".into(), config.into_os_string()]);
        let mut server = Self { process: Process::spawn(recipe)?, folder, program, port, options };
        server.ready().await?;
        Ok(server)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL, without credentials.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its version, such as `2.9.10`.
    ///
    /// # Errors
    /// When the program does not say.
    pub fn version(&self) -> Result<String, ServerError> {
        let doing = "asking nats-server for its version";
        let done = Command::new(&self.program).arg("-v").output().map_err(|e| ServerError::failed(doing, e))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let version = text.rsplit('v').next().unwrap_or_default().trim();
        Ok(version.to_owned())
    }

    /// Stops it in good order. Servers before 2.10.23 can lose what they acknowledged when they are killed.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Ends it at once.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Sends it a signal.
    pub fn signal(&self, what: Signal) {
        self.process.signal(what);
    }

    /// Freezes it until [`Signal::Continue`], and returns when it stands still.
    pub fn freeze(&self) {
        self.signal(Signal::Stop);
        let Some(pid) = self.process.pid() else { return };
        let until = Instant::now() + Duration::from_secs(5);
        let still = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
        while !still() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts it again with its data.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        self.process.restart()?;
        self.ready().await
    }

    /// Changes the further lines of the configuration, lets the running server read them, and returns when they are in force:
    /// while it reads them, JetStream may be nowhere for a moment.
    ///
    /// # Errors
    /// When the server can't be told, or does not take them.
    pub fn reload(&mut self, extra: &str) -> Result<(), ServerError> {
        self.options.extra = extra.to_owned();
        self.folder.write("nats.conf", &config(&self.folder, self.port, &self.options))?;
        let doing = "telling nats-server to read its configuration";
        let pid = self.process.pid().ok_or_else(|| ServerError::failed(doing, "it does not run"))?;
        let reloads = |process: &Process| process.log().matches("Reloaded server configuration").count();
        let before = reloads(&self.process);
        let told = Command::new(&self.program).arg("--signal").arg(format!("reload={pid}")).output();
        let told = told.map_err(|error| ServerError::failed(doing, error))?;
        if !told.status.success() {
            return Err(ServerError::failed(doing, String::from_utf8_lossy(&told.stderr)));
        }
        let until = Instant::now() + Duration::from_secs(20);
        while reloads(&self.process) == before {
            if Instant::now() >= until {
                return Err(ServerError::Failed { doing: doing.to_owned(), log: self.process.log_end() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), ServerError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let until = Instant::now() + Duration::from_secs(20);
        // Not Process::ready: the future of its closure is not Send, and harnesses restart servers inside tasks.
        while !greets(address).await {
            if !self.process.running() || Instant::now() >= until {
                let doing = "waiting for nats-server".to_owned();
                return Err(ServerError::Failed { doing, log: self.process.log_end() });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

/// Whether the server says `INFO`, which it does once JetStream has recovered.
async fn greets(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let mut word = [0; 4];
    stream.read_exact(&mut word).await.is_ok() && &word == b"INFO"
}

fn program(build: NatsBuild) -> Result<PathBuf, ServerError> {
    let later = || packages("nats", LOCK).ok().map(|folder| folder.join("nats-server"));
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    match named.or_else(|| later().filter(|_| build == NatsBuild::Later)) {
        Some(program) => Ok(program),
        None => find("nats-server", &[], "nats-server"),
    }
}

fn config(folder: &Folder, port: u16, options: &NatsOptions) -> String {
    let mut text = format!("listen: \"127.0.0.1:{port}\"\nmax_payload: 8388608\n");
    if options.jetstream == JetStream::On {
        let store = folder.path().join("jetstream");
        text.push_str(&format!(
            "jetstream {{ store_dir: \"{}\", max_memory_store: 268435456, max_file_store: 4294967296 }}\n",
            store.display()
        ));
    }
    text.push_str(&options.extra);
    text.push('\n');
    text
}
