//! A private Kafka: one node that is server and controller (KRaft), from the files that Maven brought; or several of them,
//! a [`KafkaCluster`].
//!
//! It has a plain listener for the test itself and, where asked for, one with passwords, one with TLS, and one with both.
//! Its classes lie in a folder that `cargo xtask servers --install` fills; a user without a Java or these files gets
//! [`ServerError::NotInstalled`].

mod cluster;
mod properties;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub use self::cluster::KafkaCluster;
use self::properties::properties;
use super::brought::caches;
use super::process::{Folder, Process, Recipe, ServerError, Signal, find, free_port};

/// The version that is tested with.
pub const VERSION: &str = "4.3.1";
/// The variable that names another folder of Kafka's files (`*.jar`).
pub const VARIABLE: &str = "POSTRIDER_KAFKA_LIBS";

/// What differs from a node without passwords.
#[derive(Debug, Clone, Default)]
pub struct KafkaOptions {
    /// Users and their passwords, for a listener that asks for one, by PLAIN and by SCRAM. The first is a superuser where
    /// `authorize` is on, the others may do nothing until they are allowed to.
    pub users: Vec<(String, String)>,
    /// Whether users other than the first need permissions.
    pub authorize: bool,
    /// A key and its certificate, PEM, for a listener with TLS.
    pub certificate: Option<String>,
    /// The authority, PEM, whose certificates that listener demands of clients.
    pub authority: Option<String>,
    /// Further listeners, each behind a proxy.
    pub behind: Vec<Behind>,
    /// Megabytes of memory for its objects; none is 512.
    pub heap: Option<u16>,
    /// Further lines of the configuration.
    pub extra: String,
}

/// A listener behind a proxy: whoever comes by it is told the proxy's port for everything further, and stays behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Where the node listens.
    pub port: u16,
    /// Where the proxy does.
    pub advertised: u16,
}

/// A running node: a folder of its own, free ports of 127.0.0.1, topics are not created by themselves.
#[derive(Debug)]
pub struct KafkaServer {
    // Dropped first: the folder must outlive the process.
    process: Process,
    folder: Folder,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    plain: u16,
    controller: u16,
    password: u16,
    tls: u16,
    both: u16,
}

impl Ports {
    fn draw() -> Result<Self, ServerError> {
        Ok(Self {
            plain: free_port()?,
            controller: free_port()?,
            password: free_port()?,
            tls: free_port()?,
            both: free_port()?,
        })
    }
}

/// A node's place among its like.
#[derive(Debug, Clone)]
struct Place {
    id: u32,
    ports: Ports,
    /// Every node of the cluster, with the port of its controller.
    voters: Vec<(u32, u16)>,
}

impl KafkaServer {
    /// Starts a node without passwords.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_with(KafkaOptions::default()).await
    }

    /// Starts a node.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start_with(options: KafkaOptions) -> Result<Self, ServerError> {
        let ports = Ports::draw()?;
        let place = Place { id: 1, ports, voters: vec![(1, ports.controller)] };
        let mut server = Self::spawn(place, &options)?;
        server.ready().await?;
        Ok(server)
    }

    /// Starts the process of a node, which answers later.
    fn spawn(place: Place, options: &KafkaOptions) -> Result<Self, ServerError> {
        let (java, libraries) = (find("java", &[], "default-jre-headless")?, libraries()?);
        let folder = Folder::create()?;
        if let Some(certificate) = &options.certificate {
            folder.write("server.pem", certificate)?;
        }
        if let Some(authority) = &options.authority {
            folder.write("authority.pem", authority)?;
        }
        let config = folder.write("server.properties", &properties(&folder, &place, options))?;
        let heap = format!("-Xmx{}m", options.heap.unwrap_or(512));
        let tool = |class: &str| {
            let arguments: Vec<OsString> = vec![
                heap.clone().into(),
                "-Xshare:auto".into(),
                "-XX:+UseSerialGC".into(),
                "-XX:TieredStopAtLevel=1".into(),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".into(),
                "-cp".into(),
                libraries.join("*").into_os_string(),
                class.into(),
            ];
            Recipe::new(java.clone(), folder.path()).args(arguments)
        };
        let mut format: Vec<OsString> =
            ["format", "--cluster-id", "cG9zdHJpZGVyLXRlc3QtMQ", "--config"].map(OsString::from).into();
        format.push(config.clone().into_os_string());
        for (user, password) in &options.users {
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                format.push("--add-scram".into());
                format.push(format!("{mechanism}=[name={user},password={password}]").into());
            }
        }
        tool("kafka.tools.StorageTool").args(format).run()?;
        let process = Process::spawn(tool("kafka.Kafka").args([config.into_os_string()]))?;
        Ok(Self { process, folder, place })
    }

    /// Where it listens without a password: for the test's own clients, and for brokers that need none.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.place.ports.plain)
    }

    /// Where it asks for a password, without TLS.
    pub fn address_with_password(&self) -> String {
        format!("127.0.0.1:{}", self.place.ports.password)
    }

    /// Where it speaks TLS; by the name that the certificate is for.
    pub fn address_with_tls(&self, host: &str) -> String {
        format!("{host}:{}", self.place.ports.tls)
    }

    /// Where it asks for a password over TLS; by the name that the certificate is for.
    pub fn address_with_both(&self, host: &str) -> String {
        format!("{host}:{}", self.place.ports.both)
    }

    /// Its data folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
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
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.place.ports.plain));
        let until = Instant::now() + Duration::from_secs(90);
        // Not Process::ready: the future of its closure is not Send, and harnesses restart servers inside tasks.
        let all = i32::try_from(self.place.voters.len()).unwrap_or(i32::MAX);
        while !answers(address, all).await {
            if !self.process.running() || Instant::now() >= until {
                let doing = "waiting for Kafka".to_owned();
                return Err(ServerError::Failed { doing, log: self.process.log_end() });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Whether it answers a question for the cluster, and knows so many servers: a node that is not registered with its
/// controller has no address to tell.
async fn answers(address: SocketAddr, servers: i32) -> bool {
    // Length, Metadata (3) version 1, correlation 7, no client id, no topics asked for.
    const METADATA: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
    let asked = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&METADATA).await.ok()?;
        let length = stream.read_i32().await.ok()?;
        let correlation = stream.read_i32().await.ok()?;
        let brokers = stream.read_i32().await.ok()?;
        (length > 8 && correlation == 7 && brokers >= servers).then_some(())
    };
    matches!(tokio::time::timeout(Duration::from_secs(2), asked).await, Ok(Some(())))
}

/// The folder of Kafka's files: the one named by [`VARIABLE`], else the one that the installation fills.
///
/// # Errors
/// [`ServerError::NotInstalled`].
pub fn libraries() -> Result<PathBuf, ServerError> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let mut installed = caches().map(|cache| cache.join(format!("kafka-{VERSION}")));
    let has_kafka = |folder: &PathBuf| folder.join(format!("kafka_2.13-{VERSION}.jar")).is_file();
    match named {
        Some(folder) => Some(folder),
        None => installed.find(has_kafka),
    }
    .ok_or_else(|| ServerError::NotInstalled {
        program: format!("Kafka {VERSION} (cargo xtask servers --install brings it from Maven Central)"),
        package: "maven default-jre-headless",
    })
}
