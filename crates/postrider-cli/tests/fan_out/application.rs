//! The application: it writes at a steady rate, however long the relay or a broker takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use postrider::{Message, Outbox};
use tokio_postgres::NoTls;

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

async fn write(url: &str, rate: usize, stop: &AtomicBool, committed: &AtomicUsize) -> Vec<Written> {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (outbox, began) = (Outbox::new(), Instant::now());
    let mut written: Vec<Written> = Vec::new();
    for beat in 1.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let due = rate * usize::try_from((BEAT * beat).as_millis()).unwrap() / 1_000;
        let from = written.len();
        let tx = client.transaction().await.unwrap();
        for n in from..due {
            // Not round and round: some keys follow each other closely.
            let key = (n * n / 3 % KEYS).to_string();
            let id = outbox.enqueue(&tx, Message::new("orders.placed", n.to_string()).key(&key)).await.unwrap();
            written.push(Written { id: id.to_string(), key, at: 0 });
        }
        tx.commit().await.unwrap();
        committed.store(written.len(), Ordering::SeqCst);
        let at = now();
        written[from..].iter_mut().for_each(|one| one.at = at);
        tokio::time::sleep_until((began + BEAT * beat).into()).await;
    }
    written
}
