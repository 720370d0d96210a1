//! moto: S3 and DynamoDB as an emulator in Python, which keeps everything in memory.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::packages::packages;
use super::process::{Folder, Process, Recipe, ServerError, find, free_port};

/// The version that is started.
pub const VERSION: &str = "5.2.5";
const REQUIREMENTS: &str = include_str!("requirements.txt");
const PROGRAM: &str = include_str!("serve.py");
const PATIENCE: Duration = Duration::from_secs(60);

/// One emulator, ended on drop. It takes one request at a time, and every credential.
#[derive(Debug)]
pub struct Moto {
    // Dropped first: the folder must outlive the process.
    process: Process,
    folder: Folder,
    port: u16,
}

impl Moto {
    /// Starts it, with nothing in it.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        let packages = packages("moto", REQUIREMENTS)?.join("packages");
        // Debian's own: the user that servers run as may not see another one.
        let python = find("python3", &["/usr/bin".into()], "python3")?;
        let (folder, port) = (Folder::create()?, free_port()?);
        let program = folder.write("serve.py", PROGRAM)?;
        let path = format!("PYTHONPATH={}", packages.display());
        let recipe = Recipe::new(find("env", &[], "coreutils")?, folder.path())
            .args([path.into(), python.into_os_string(), program.into_os_string()])
            .args([port.to_string().into(), folder.path().join("away").into_os_string()]);
        let mut moto = Self { process: Process::spawn(recipe)?, folder, port };
        moto.process.ready(PATIENCE, async || listens(port).await == Listening::Yes).await?;
        Ok(moto)
    }

    /// Where it is reached.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn make_bucket(&self, name: &str) -> Result<(), ServerError> {
        self.ask("PUT", &format!("/{name}")).await.map(|_| ())
    }

    /// What S3 answers to a request without a body.
    ///
    /// # Errors
    /// When it does not answer, or with another status than 200.
    pub async fn ask(&self, method: &str, path: &str) -> Result<String, ServerError> {
        let doing = || format!("asking moto to {method} {path}");
        let failed = |error: std::io::Error| ServerError::failed(doing(), error);
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request\r\n\r\n"
        );
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.map_err(failed)?;
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(failed)?;
        let status = answer.lines().next().unwrap_or_default();
        if status.contains(" 200 ") { Ok(answer) } else { Err(ServerError::failed(doing(), answer)) }
    }

    /// Closes its port; what it holds stays.
    ///
    /// # Errors
    /// When it goes on listening.
    pub async fn leave(&self) -> Result<(), ServerError> {
        self.folder.write("away", "")?;
        self.wait("waiting for moto to close its port", Listening::No).await
    }

    /// Opens its port again, where it is closed.
    ///
    /// # Errors
    /// When it does not listen.
    pub async fn come_back(&self) -> Result<(), ServerError> {
        let _ = std::fs::remove_file(self.folder.path().join("away"));
        self.wait("waiting for moto to open its port", Listening::Yes).await
    }

    async fn wait(&self, doing: &str, wanted: Listening) -> Result<(), ServerError> {
        let until = Instant::now() + PATIENCE;
        while listens(self.port).await != wanted {
            if Instant::now() > until {
                return Err(ServerError::failed(doing, self.process.log_end()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

async fn listens(port: u16) -> Listening {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(_) => Listening::Yes,
        Err(_) => Listening::No,
    }
}
