//! NATS JetStream: a private server, a stream that takes every repeat, and a reader that misses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::{Client, ConnectOptions, jetstream};
use futures_util::StreamExt;
use postrider_testkit::servers::nats::{NatsBuild, NatsOptions, NatsServer};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::broker::Health;
use crate::Fallible;
use crate::record::{Delivered, Recorder, print};
use crate::writers::NUMBER;

/// The stream that the relays write to.
pub const STREAM: &str = "TORTURE";
/// What it takes, and what it takes while it refuses the relays.
pub const SUBJECTS: &str = "torture.>";
const ELSEWHERE: &str = "refused.>";
/// The server's shortest: repeats are to be seen, not swallowed.
const WINDOW: Duration = Duration::from_millis(100);
/// From here on a killed server keeps what it acknowledged.
const SAFE: (u32, u32, u32) = (2, 10, 23);
const PATIENCE: Duration = Duration::from_secs(5);

/// The server and its reader.
#[derive(Debug)]
pub struct NatsPlace {
    server: Mutex<NatsServer>,
    client: Client,
    /// What the stream covers and takes, as it should be.
    wanted: Mutex<(&'static str, Health)>,
    version: String,
    port: u16,
    /// The last sequence that is in the record.
    read: Arc<AtomicU64>,
    reader: JoinHandle<()>,
}

impl Drop for NatsPlace {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl NatsPlace {
    /// Starts a server with a stream.
    ///
    /// # Errors
    /// When it is missing or does not start.
    pub async fn start(recorder: &Arc<Recorder>) -> Fallible<Self> {
        let options = NatsOptions { build: NatsBuild::Later, ..NatsOptions::default() };
        let server = NatsServer::start_with(options).await?;
        let options = ConnectOptions::new().max_reconnects(None).request_timeout(Some(PATIENCE));
        let client = options.connect(server.url()).await?;
        jetstream::new(client.clone()).create_stream(stream(SUBJECTS, Health::Usual)?).await?;
        let read = Arc::new(AtomicU64::new(0));
        let reader = tokio::spawn(read_for_ever(client.clone(), Arc::clone(recorder), Arc::clone(&read)));
        let wanted = Mutex::new((SUBJECTS, Health::Usual));
        let (version, port, server) = (server.version()?, server.port(), Mutex::new(server));
        Ok(Self { version, port, server, client, wanted, read, reader })
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The server, for those who hurt it.
    pub fn server(&self) -> &Mutex<NatsServer> {
        &self.server
    }

    /// Whether a killed server of this version keeps what it acknowledged.
    pub fn survives_kill(&self) -> bool {
        let mut parts = self.version.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        (next(), next(), next()) >= SAFE
    }

    /// No stream covers the relays' subjects any more.
    ///
    /// # Errors
    /// When the server can't be told.
    pub async fn refuse(&self) -> Fallible<()> {
        self.covers(ELSEWHERE).await
    }

    /// The stream covers them again; tried until it is so.
    ///
    /// # Errors
    /// When the server can't be told for a long time.
    pub async fn accept(&self) -> Fallible<()> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match self.covers(SUBJECTS).await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    async fn covers(&self, subjects: &'static str) -> Fallible<()> {
        let mut wanted = self.wanted.lock().await;
        wanted.0 = subjects;
        self.update(*wanted).await
    }

    /// The stream takes messages of this size.
    ///
    /// # Errors
    /// When the server can't be told.
    pub async fn set_health(&self, health: Health) -> Fallible<()> {
        let mut wanted = self.wanted.lock().await;
        wanted.1 = health;
        self.update(*wanted).await
    }

    async fn update(&self, (subjects, health): (&str, Health)) -> Fallible<()> {
        jetstream::new(self.client.clone()).update_stream(stream(subjects, health)?).await?;
        Ok(())
    }

    /// Waits until the whole stream is in the record.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn read_to_end(&self) -> Fallible<()> {
        let until = Instant::now() + Duration::from_secs(120);
        let mut last = None;
        while last.is_none_or(|last| self.read.load(Ordering::SeqCst) < last) {
            if Instant::now() > until {
                let read = self.read.load(Ordering::SeqCst);
                return Err(format!("the stream has {last:?} messages, and only {read} could be read").into());
            }
            if let Ok(stream) = jetstream::new(self.client.clone()).get_stream(STREAM).await {
                last = Some(stream.cached_info().state.last_sequence);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

fn stream(subjects: &str, health: Health) -> Fallible<Config> {
    Ok(Config {
        name: STREAM.to_owned(),
        subjects: vec![subjects.to_owned()],
        storage: StorageType::File,
        duplicate_window: WINDOW,
        max_message_size: i32::try_from(health.most_bytes())?,
        ..Config::default()
    })
}

/// Reads on from where it was, over every restart of the server.
async fn read_for_ever(client: Client, recorder: Arc<Recorder>, read: Arc<AtomicU64>) {
    loop {
        if read_on(&client, &recorder, &read).await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

async fn read_on(client: &Client, recorder: &Recorder, read: &AtomicU64) -> Fallible<()> {
    let stream = timeout(PATIENCE, jetstream::new(client.clone()).get_stream(STREAM)).await??;
    let start_sequence = read.load(Ordering::SeqCst) + 1;
    let deliver_policy = DeliverPolicy::ByStartSequence { start_sequence };
    let config = OrderedConfig { deliver_policy, ..OrderedConfig::default() };
    let consumer = timeout(PATIENCE, stream.create_consumer(config)).await??;
    let mut messages = timeout(PATIENCE, consumer.messages()).await??;
    // A quiet stream and a reader that was forgotten look the same: after a while a new one is begun.
    while let Some(message) = timeout(PATIENCE, messages.next()).await? {
        let message = message?;
        let info = message.info()?;
        if info.stream_sequence != read.load(Ordering::SeqCst) + 1 {
            return Err("the reader missed a message".into());
        }
        let header = |name: &str| {
            let value = message.headers.as_ref().and_then(|headers| headers.get(name));
            value.map(|value| value.as_str().to_owned()).unwrap_or_default()
        };
        let stamp = info.published.unix_timestamp_nanos() / 1000;
        let key = header("postrider-key");
        let delivered = Delivered {
            id: header("postrider-id").parse().unwrap_or_default(),
            at: recorder.clock.of_wall(stamp),
            lane: header("postrider-lane").parse().unwrap_or(u16::MAX),
            term: header("postrider-term").parse().unwrap_or(-1),
            attempt: header("postrider-attempt").parse().unwrap_or(0),
            print: print(&message.subject, &key, &header(NUMBER), &message.payload),
        };
        recorder.open().delivered.push(delivered);
        read.store(info.stream_sequence, Ordering::SeqCst);
    }
    Ok(())
}
