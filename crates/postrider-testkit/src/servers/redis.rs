//! A private Redis, or Valkey, that answers a write when it is on the disk.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::{Folder, Process, Recipe, ServerError, Signal, find, free_port};

/// The variable that names another program than `redis-server` or `valkey-server`.
pub const VARIABLE: &str = "POSTRIDER_REDIS_SERVER";
/// The password of the user `default`.
pub const PASSWORD: &str = "a pass/word@for:tests";
const PASSWORD_IN_URL: &str = "a%20pass%2Fword%40for%3Atests";
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server: a password, `appendonly yes`, `appendfsync always`, no snapshots, data in a folder of its own, a free
/// port of 127.0.0.1.
#[derive(Debug)]
pub struct Redis {
    // Dropped first: the folder must outlive the process.
    process: Process,
    folder: Folder,
    program: PathBuf,
    port: u16,
}

impl Redis {
    /// Starts a server.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_with(&[]).await
    }

    /// Starts a server with further lines of its configuration, such as `["appendfsync everysec"]`.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        let (program, folder, port) = (program()?, Folder::create()?, free_port()?);
        let config = folder.write("redis.conf", &config(&folder, port, settings))?;
        let process = Process::spawn(Recipe::new(program.clone(), folder.path()).args([config]))?;
        let mut server = Self { process, folder, program, port };
        server.ready().await?;
        Ok(server)
    }

    /// A server that follows this one, and has what it has.
    ///
    /// # Errors
    /// When it does not start, or does not follow in time.
    pub async fn replica(&self) -> Result<Self, ServerError> {
        let (primary, login) = (format!("replicaof 127.0.0.1 {}", self.port), format!("masterauth \"{PASSWORD}\""));
        let replica = Self::start_with(&[&primary, &login]).await?;
        let until = Instant::now() + PATIENCE;
        while !replica.ask(&["INFO", "replication"]).await.is_ok_and(|said| said.contains("master_link_status:up")) {
            if Instant::now() >= until {
                let doing = "waiting for a replica of Redis to follow".to_owned();
                return Err(ServerError::Failed { doing, log: replica.process.log_end() });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(replica)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its data.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The URL of its first database, as the user `default`.
    pub fn url(&self) -> String {
        self.url_as("", PASSWORD_IN_URL)
    }

    /// The URL of its first database as another user, with the password as it stands in a URL.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}/0", self.port)
    }

    /// Its version, such as `7.0.15`.
    ///
    /// # Errors
    /// When the program does not say.
    pub fn version(&self) -> Result<String, ServerError> {
        let doing = "asking redis-server for its version";
        let done = Command::new(&self.program).arg("--version").output().map_err(|e| ServerError::failed(doing, e))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
        version.map(str::to_owned).ok_or_else(|| ServerError::failed(doing, "it names none"))
    }

    /// Runs a command as the user `default` and returns what the server answers, in its protocol.
    ///
    /// # Errors
    /// When it cannot be reached, or refuses the command.
    pub async fn ask(&self, words: &[&str]) -> Result<String, ServerError> {
        let doing = || format!("asking Redis: {}", words.first().unwrap_or(&""));
        let asked = asked(self.port, words).await.map_err(|error| ServerError::failed(doing(), error))?;
        let answer = asked.strip_prefix("+OK\r\n").and_then(|rest| rest.strip_suffix("+OK\r\n"));
        match answer {
            Some(answer) if !answer.starts_with('-') => Ok(answer.to_owned()),
            _ => Err(ServerError::failed(doing(), asked)),
        }
    }

    /// Stops it in good order.
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

    /// Starts it again with its data.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        self.process.restart()?;
        self.ready().await
    }

    async fn ready(&mut self) -> Result<(), ServerError> {
        let until = Instant::now() + PATIENCE;
        // Not Process::ready: the future of its closure is not Send, and harnesses restart servers inside tasks.
        while !asked(self.port, &["PING"]).await.is_ok_and(|said| said.contains("+PONG")) {
            if !self.process.running() || Instant::now() >= until {
                let doing = "waiting for redis-server".to_owned();
                return Err(ServerError::Failed { doing, log: self.process.log_end() });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

/// Logs in, asks, and reads until the server has said that it is done.
async fn asked(port: u16, words: &[&str]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut text = String::new();
    for words in [&["AUTH", PASSWORD], words, &["QUIT"]] {
        text.push_str(&format!("*{}\r\n", words.len()));
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
    }
    stream.write_all(text.as_bytes()).await?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn program() -> Result<PathBuf, ServerError> {
    match std::env::var_os(VARIABLE) {
        Some(program) => Ok(PathBuf::from(program)),
        None => find("redis-server", &[], "redis-server").or_else(|_| find("valkey-server", &[], "redis-server")),
    }
}

fn config(folder: &Folder, port: u16, settings: &[&str]) -> String {
    format!(
        "bind 127.0.0.1\nport {port}\ndir \"{}\"\ndaemonize no\nrequirepass \"{PASSWORD}\"\nsave \"\"\nappendonly yes\n\
         appendfsync always\nrepl-diskless-sync-delay 0\n{}\n",
        folder.path().display(),
        settings.join("\n")
    )
}
