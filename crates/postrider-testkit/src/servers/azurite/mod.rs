//! Azurite: Azure Blob Storage as Microsoft's own emulator, with its data in a folder.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::packages::packages;
use super::process::{Folder, Process, Recipe, ServerError, find, free_port};

/// The version that is started.
pub const VERSION: &str = "3.35.0";
/// The only account.
pub const ACCOUNT: &str = "devstoreaccount1";
/// The account's key.
pub const KEY: &str = "dGhlIHNlY3JldCBrZXkgb2YgdGhlIHRlc3Rz";
const MAKE_CONTAINER: &str = include_str!("make_container.js");
const LOCK: &str = include_str!("package-lock.json");
const PATIENCE: Duration = Duration::from_secs(60);

/// One emulator, ended on drop.
#[derive(Debug)]
pub struct Azurite {
    // Dropped first: the folder must outlive the process.
    process: Process,
    folder: Folder,
    port: u16,
}

impl Azurite {
    /// Starts it, with nothing in it.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        let program = packages("azurite", LOCK)?.join("node_modules/azurite/dist/src/blob/main.js");
        let (folder, port) = (Folder::create()?, free_port()?);
        let node = find("node", &["/usr/bin".into()], "nodejs")?;
        let accounts = format!("AZURITE_ACCOUNTS={ACCOUNT}:{KEY}");
        let recipe = Recipe::new(find("env", &[], "coreutils")?, folder.path())
            .args([accounts.into(), node.into_os_string(), program.into_os_string()])
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string(), "--location"])
            .args([folder.path().join("data").into_os_string()])
            .args(["--skipApiVersionCheck", "--disableTelemetry", "--silent"]);
        let mut azurite = Self { process: Process::spawn(recipe)?, folder, port };
        azurite.ready().await?;
        Ok(azurite)
    }

    /// Where it is reached, with the account.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{ACCOUNT}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes a container.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn make_container(&self, name: &str) -> Result<(), ServerError> {
        let script = self.folder.write("make_container.js", MAKE_CONTAINER)?;
        let port = self.port.to_string();
        let recipe = Recipe::new(find("node", &["/usr/bin".into()], "nodejs")?, self.folder.path()).args([script]);
        recipe.args([&*port, ACCOUNT, KEY, name]).run().map(|_| ())
    }

    /// Whether it runs.
    pub fn running(&mut self) -> bool {
        self.process.running()
    }

    /// Stops it in good order.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// Ends it at once.
    pub fn kill9(&mut self) {
        self.process.kill9();
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
        while !answers(self.port).await {
            if !self.process.running() || Instant::now() >= until {
                let doing = "waiting for azurite".to_owned();
                return Err(ServerError::Failed { doing, log: self.process.log_end() });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

async fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return false };
    let mut answer = [0; 4];
    let asked = b"GET /devstoreaccount1?comp=list HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
    stream.write_all(asked).await.is_ok() && stream.read_exact(&mut answer).await.is_ok() && &answer == b"HTTP"
}
