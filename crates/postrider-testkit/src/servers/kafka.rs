//! A private Kafka: one node that is server and controller (KRaft), from the files that Maven brought.
//!
//! It has a plain listener for the test itself and, where asked for, one with passwords and one with TLS. Its classes lie
//! in a folder that `cargo xtask servers --install` fills; a user without a Java or these files gets
//! [`ServerError::NotInstalled`].

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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
    /// Further lines of the configuration.
    pub extra: String,
}

/// A running node: a folder of its own, free ports of 127.0.0.1, topics are not created by themselves.
#[derive(Debug)]
pub struct KafkaServer {
    // Dropped first: the folder must outlive the process.
    process: Process,
    folder: Folder,
    ports: Ports,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    plain: u16,
    controller: u16,
    password: u16,
    tls: u16,
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
        let (java, libraries) = (find("java", &[], "openjdk-17-jre-headless")?, libraries()?);
        let folder = Folder::create()?;
        let ports = Ports { plain: free_port()?, controller: free_port()?, password: free_port()?, tls: free_port()? };
        if let Some(certificate) = &options.certificate {
            folder.write("server.pem", certificate)?;
        }
        if let Some(authority) = &options.authority {
            folder.write("authority.pem", authority)?;
        }
        let config = folder.write("server.properties", &config(&folder, ports, &options))?;
        let tool = |class: &str| {
            let arguments: Vec<OsString> = vec![
                "-Xmx512m".into(),
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
        let mut server = Self { process, folder, ports };
        server.ready().await?;
        Ok(server)
    }

    /// Where it listens without a password: for the test's own clients, and for brokers that need none.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.plain)
    }

    /// Where it asks for a password, without TLS.
    pub fn address_with_password(&self) -> String {
        format!("127.0.0.1:{}", self.ports.password)
    }

    /// Where it speaks TLS; by the name that the certificate is for.
    pub fn address_with_tls(&self, host: &str) -> String {
        format!("{host}:{}", self.ports.tls)
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
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.plain));
        let until = Instant::now() + Duration::from_secs(90);
        // Not Process::ready: the future of its closure is not Send, and harnesses restart servers inside tasks.
        while !answers(address).await {
            if !self.process.running() || Instant::now() >= until {
                let doing = "waiting for Kafka".to_owned();
                return Err(ServerError::Failed { doing, log: self.process.log_end() });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Whether it answers a question for the versions that it speaks, and is registered with its controller: a broker that
/// is not has no address to tell.
async fn answers(address: SocketAddr) -> bool {
    // Length, Metadata (3) version 1, correlation 7, no client id, no topics asked for.
    const METADATA: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
    let asked = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(&METADATA).await.ok()?;
        let length = stream.read_i32().await.ok()?;
        let correlation = stream.read_i32().await.ok()?;
        let brokers = stream.read_i32().await.ok()?;
        (length > 8 && correlation == 7 && brokers > 0).then_some(())
    };
    matches!(tokio::time::timeout(Duration::from_secs(2), asked).await, Ok(Some(())))
}

/// The folder of Kafka's files: the one named by [`VARIABLE`], else the one that the installation fills.
///
/// # Errors
/// [`ServerError::NotInstalled`].
pub fn libraries() -> Result<PathBuf, ServerError> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/postrider"));
    let folders = [Some(PathBuf::from("/var/cache/postrider")), home];
    let installed = folders.into_iter().flatten().map(|folder| folder.join(format!("kafka-{VERSION}")));
    let has_kafka = |folder: &PathBuf| folder.join(format!("kafka_2.13-{VERSION}.jar")).is_file();
    match named {
        Some(folder) => Some(folder),
        None => installed.into_iter().find(has_kafka),
    }
    .ok_or_else(|| ServerError::NotInstalled {
        program: format!("Kafka {VERSION} (cargo xtask servers --install brings it from Maven Central)"),
        package: "maven openjdk-17-jre-headless",
    })
}

fn config(folder: &Folder, ports: Ports, options: &KafkaOptions) -> String {
    let data = folder.path().join("data");
    let Ports { plain, controller, password, tls } = ports;
    let mut listeners = format!("PLAIN://127.0.0.1:{plain}");
    let mut advertised = listeners.clone();
    let mut protocols = "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
    let mut further = String::new();
    if let Some((first, word)) = options.users.first() {
        listeners.push_str(&format!(",PASSWORD://127.0.0.1:{password}"));
        advertised.push_str(&format!(",PASSWORD://127.0.0.1:{password}"));
        protocols.push_str(",PASSWORD:SASL_PLAINTEXT");
        let users: String = options.users.iter().map(|(user, word)| format!(" user_{user}=\"{word}\"")).collect();
        let module = "org.apache.kafka.common.security";
        further.push_str(&format!(
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.password.plain.sasl.jaas.config={module}.plain.PlainLoginModule required username=\"{first}\" \
             password=\"{word}\"{users};\n\
             listener.name.password.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
             listener.name.password.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n",
        ));
        if options.authorize {
            further.push_str(&format!(
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                 super.users=User:ANONYMOUS;User:{first}\n"
            ));
        }
    }
    if options.certificate.is_some() {
        listeners.push_str(&format!(",TLS://127.0.0.1:{tls}"));
        advertised.push_str(&format!(",TLS://localhost:{tls}"));
        protocols.push_str(",TLS:SSL");
        let file = folder.path().join("server.pem");
        further.push_str(&format!(
            "listener.name.tls.ssl.keystore.type=PEM\nlistener.name.tls.ssl.keystore.location={}\n",
            file.display()
        ));
    }
    if options.authority.is_some() {
        let file = folder.path().join("authority.pem");
        further.push_str(&format!(
            "listener.name.tls.ssl.client.auth=required\nlistener.name.tls.ssl.truststore.type=PEM\n\
             listener.name.tls.ssl.truststore.location={}\n",
            file.display()
        ));
    }
    format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners={listeners},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={advertised}\n\
         controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAIN\n\
         listener.security.protocol.map={protocols}\nlog.dirs={}\nnum.partitions=1\n\
         offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\ngroup.initial.rebalance.delay.ms=0\nauto.create.topics.enable=false\n\
         message.max.bytes=8388608\ncontrolled.shutdown.enable=false\n\
         broker.session.timeout.ms=2000\nbroker.heartbeat.interval.ms=500\n{further}{}\n",
        data.display(),
        options.extra
    )
}
