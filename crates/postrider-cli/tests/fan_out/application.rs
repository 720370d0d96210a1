//! The application: it writes at a steady rate, however long the relay or a broker takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mysql_async::{Conn, TxOpts};
use postrider::{Message, MessageId, Outbox};
use tokio_postgres::{Client, NoTls};

/// Keys of the load.
const KEYS: usize = 200;
/// One transaction in this time.
const BEAT: Duration = Duration::from_millis(10);

/// A message that was committed.
#[derive(Debug, Clone)]
pub struct Written {
    pub id: String,
    pub key: String,
    /// When its transaction was committed.
    pub at: u64,
}

/// A running application.
pub struct Application {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Written>>,
}

impl Application {
    /// Starts to write so many messages a second.
    pub fn start(url: &str, rate: usize) -> Self {
        let (stop, committed, url) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default(), url.to_owned());
        let (asked, count) = (Arc::clone(&stop), Arc::clone(&committed));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(write(&url, rate, &asked, &count))
        });
        Self { stop, committed, thread }
    }

    /// How many messages are committed by now: under a load that the machine cannot take these are fewer than asked for.
    pub fn committed(&self) -> usize {
        self.committed.load(Ordering::SeqCst)
    }

    /// Stops after the transaction that is under way: what was committed, in the order of the commits.
    pub fn stop(self) -> Vec<Written> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

/// Milliseconds since 1970.
pub fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The application's own connection.
enum Connection {
    Postgres(Client),
    Mysql(Conn),
}

impl Connection {
    async fn to(url: &str) -> Self {
        if url.starts_with("mysql") {
            return Self::Mysql(Conn::from_url(url).await.unwrap());
        }
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self::Postgres(client)
    }

    /// Commits messages in one transaction.
    async fn commit(&mut self, messages: Vec<Message>) -> Vec<MessageId> {
        let (outbox, mut ids) = (Outbox::new(), Vec::with_capacity(messages.len()));
        match self {
            Self::Postgres(client) => {
                let tx = client.transaction().await.unwrap();
                for message in messages {
                    ids.push(outbox.enqueue(&tx, message).await.unwrap());
                }
                tx.commit().await.unwrap();
            }
            Self::Mysql(connection) => {
                let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
                for message in messages {
                    ids.push(outbox.enqueue(&mut tx, message).await.unwrap());
                }
                tx.commit().await.unwrap();
            }
        }
        ids
    }
}

async fn write(url: &str, rate: usize, stop: &AtomicBool, committed: &AtomicUsize) -> Vec<Written> {
    let (mut connection, began) = (Connection::to(url).await, Instant::now());
    let mut written: Vec<Written> = Vec::new();
    for beat in 1.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let due = rate * usize::try_from((BEAT * beat).as_millis()).unwrap() / 1_000;
        // Not round and round: some keys follow each other closely.
        let keys: Vec<String> = (written.len()..due).map(|n| (n * n / 3 % KEYS).to_string()).collect();
        let message = |(n, key): (usize, &String)| Message::new("orders.placed", n.to_string()).key(key);
        let messages = (written.len()..).zip(&keys).map(message).collect();
        let ids = connection.commit(messages).await;
        let at = now();
        written.extend(ids.iter().zip(keys).map(|(id, key)| Written { id: id.to_string(), key, at }));
        committed.store(written.len(), Ordering::SeqCst);
        tokio::time::sleep_until((began + BEAT * beat).into()).await;
    }
    written
}
