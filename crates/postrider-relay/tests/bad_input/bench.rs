//! An outbox in a real database, the hand of an application on it, and a relay that runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_brokers::memory::MemoryBroker;
use postrider_core::{
    Broker, DestinationName, DestinationTemplate, LaneCount, Message, Operator, Result, Store, StoreStatus,
};
use postrider_relay::{Relay, RelayBuilder, RelayHandle, RelaySnapshot, RelayState, Summary};
use postrider_stores::{MigrateOptions, StoreOptions};
use postrider_testkit::servers::postgres::{Postgres, shared};
use rusqlite::types::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(40);

/// The lease of the relays here: short, so that a test can outlast it.
pub const LEASE: Duration = Duration::from_secs(1);

/// Where the outbox is.
pub enum Database {
    Sqlite { _folder: tempfile::TempDir },
    Postgres(&'static Postgres, String),
}

/// An outbox with its tables.
pub struct Outbox {
    pub database: Database,
    pub url: String,
}

impl Outbox {
    /// In a file of its own.
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("app.db").display());
        Self { database: Database::Sqlite { _folder: folder }, url }.migrated().await
    }

    /// In a database of its own.
    pub async fn postgres() -> Self {
        let server = shared().await.unwrap();
        let database = server.create_database().await.unwrap();
        let url = server.url_for(&database);
        Self { database: Database::Postgres(server, database), url }.migrated().await
    }

    async fn migrated(self) -> Self {
        migrate(&self.url).await;
        self
    }

    /// What the relay opens.
    pub async fn store(&self) -> Result<Arc<dyn Store>> {
        open(&self.url).await
    }

    pub async fn operator(&self) -> Box<dyn Operator> {
        self.store().await.unwrap().operator().await.unwrap()
    }

    pub async fn status(&self) -> StoreStatus {
        self.operator().await.status(10_000).await.unwrap()
    }

    pub async fn enqueue(&self, messages: &[Message]) {
        self.operator().await.enqueue(messages).await.unwrap();
    }

    pub fn is_sqlite(&self) -> bool {
        matches!(self.database, Database::Sqlite { .. })
    }

    /// The file of an outbox in SQLite.
    pub fn file(&self) -> PathBuf {
        Path::new(self.url.strip_prefix("sqlite://").unwrap()).to_owned()
    }

    /// Runs statements as the application and returns the rows of the last, columns separated by `|`.
    pub async fn sql(&self, sql: &str) -> std::result::Result<String, String> {
        match &self.database {
            Database::Postgres(server, database) => server.psql(database, sql).await.map_err(|error| error.to_string()),
            Database::Sqlite { .. } => on_sqlite(&self.file(), sql).map_err(|error| error.to_string()),
        }
    }
}

fn on_sqlite(file: &Path, sql: &str) -> rusqlite::Result<String> {
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(20))?;
    let (first, last) = sql.trim().trim_end_matches(';').rsplit_once(';').unwrap_or(("", sql));
    connection.execute_batch(first)?;
    let mut statement = connection.prepare(last)?;
    let columns = statement.column_count();
    let (mut rows, mut lines) = (statement.query([])?, Vec::new());
    while let Some(row) = rows.next()? {
        let mut line = Vec::new();
        for column in 0..columns {
            line.push(match row.get(column)? {
                Value::Null => String::new(),
                Value::Integer(number) => number.to_string(),
                Value::Real(number) => number.to_string(),
                Value::Text(text) => text,
                Value::Blob(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            });
        }
        lines.push(line.join("|"));
    }
    Ok(lines.join("\n"))
}

/// Opens an outbox.
pub async fn open(url: &str) -> Result<Arc<dyn Store>> {
    postrider_stores::open(url, &StoreOptions::default()).await
}

/// Creates the tables.
pub async fn migrate(url: &str) {
    let options = MigrateOptions { lanes: LaneCount::new(8), ..MigrateOptions::default() };
    postrider_stores::migrate(url, &options).await.unwrap();
}

/// A relay over a store and a broker in memory, with a lease of a second.
pub fn relay(store: Arc<dyn Store>, broker: &Arc<MemoryBroker>) -> RelayBuilder {
    let broker = Arc::clone(broker) as Arc<dyn Broker>;
    Relay::builder(store).lease(LEASE).destination(DestinationName::new("out"), broker, DestinationTemplate::topic())
}

/// A relay that runs until it is told to stop.
pub struct Running {
    pub handle: RelayHandle,
    pub broker: Arc<MemoryBroker>,
    stop: CancellationToken,
    task: JoinHandle<Result<Summary>>,
}

impl Running {
    /// Starts one and waits until it relays.
    pub async fn start(store: Arc<dyn Store>, broker: MemoryBroker) -> Self {
        let broker = Arc::new(broker);
        let (relay, stop) = (relay(store, &broker).build().unwrap(), CancellationToken::new());
        let running = Self { handle: relay.handle(), broker, task: tokio::spawn(relay.run(stop.clone())), stop };
        running.until("a relay that relays", |relay| relay.state == RelayState::Relaying).await;
        running
    }

    /// Waits until it shows something.
    pub async fn until(&self, what: &str, condition: impl Fn(&RelaySnapshot) -> bool) -> RelaySnapshot {
        let start = Instant::now();
        loop {
            let snapshot = self.handle.snapshot();
            if condition(&snapshot) {
                return snapshot;
            }
            assert!(!self.task.is_finished(), "the relay ended while it was waited for {what}");
            assert!(start.elapsed() < PATIENCE, "{what} did not come; {snapshot:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the broker has these payloads, whatever else it has.
    pub async fn until_delivered(&self, payloads: &[&str]) {
        self.until(&format!("{payloads:?}"), |_| {
            let known = delivered(&self.broker);
            payloads.iter().all(|payload| known.contains(*payload))
        })
        .await;
    }

    /// Waits until it cannot reach its store, and returns the cause.
    pub async fn until_store_away(&self) -> String {
        let snapshot = self.until("a store that is away", |relay| relay.state == RelayState::StoreAway).await;
        snapshot.store_error.unwrap_or_default()
    }

    /// Stops it in good order. No attempt was charged and nothing was given up.
    pub async fn stop_unharmed(self) -> Summary {
        let summary = self.stop().await;
        assert_eq!((summary.dead, summary.retried), (0, 0), "{summary:?}");
        summary
    }

    /// Stops it in good order.
    pub async fn stop(self) -> Summary {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap()
    }
}

/// Relays until the outbox is empty.
pub async fn drain(outbox: &Outbox, broker: &Arc<MemoryBroker>) -> Summary {
    let relay = relay(outbox.store().await.unwrap(), broker).until_empty().build().unwrap();
    let handle = relay.handle();
    match tokio::time::timeout(PATIENCE, relay.run(CancellationToken::new())).await {
        Ok(summary) => summary.unwrap(),
        Err(_) => panic!("the outbox does not become empty: {:?}; {:?}", handle.snapshot(), outbox.status().await),
    }
}

/// The payloads that a broker has.
pub fn delivered(broker: &MemoryBroker) -> BTreeSet<String> {
    broker.messages().iter().map(|sent| String::from_utf8_lossy(&sent.message.payload).into_owned()).collect()
}

/// A message with a key.
pub fn keyed(key: &str, payload: &str) -> Message {
    Message::new("t", payload.to_owned()).key(key)
}
