//! The application: it writes without a pause, keeps a ledger in its own transactions, and looks at the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use postrider::{Message, Outbox};
use postrider_testkit::verdict::Committed;
use tokio_postgres::{Client, NoTls};

/// Keys of the load.
pub const KEYS: u64 = 20;
/// Between two transactions.
const PAUSE: Duration = Duration::from_millis(6);

const LEDGER: &str = "create table ledger (n bigint generated always as identity primary key, message_id uuid not null, \
    key text not null)";
const NOTE: &str = "insert into ledger (message_id, key) values ($1::text::uuid, $2)";
const COMMITTED: &str = "select message_id::text, key from ledger order by n";

/// What goes on while a transaction is measured.
#[derive(Debug, Clone, Copy)]
pub enum Phase {
    Before,
    During,
    After,
}

/// A running application.
pub struct Application {
    stop: Arc<AtomicBool>,
    phase: Arc<AtomicUsize>,
    thread: JoinHandle<Record>,
}

/// What it has to tell when it has stopped.
pub struct Record {
    /// In the order of the commits.
    pub committed: Vec<Committed>,
    /// Messages of transactions that it rolled back.
    pub rolled_back: usize,
    latencies: [Vec<Duration>; 3],
}

impl Record {
    /// The transaction time that this part of all, in percent, did not exceed in a phase.
    pub fn latency(&self, phase: Phase, percent: usize) -> Duration {
        let mut sorted = self.latencies[phase as usize].clone();
        sorted.sort_unstable();
        sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
    }

    /// How many transactions were measured in a phase.
    pub fn transactions(&self, phase: Phase) -> usize {
        self.latencies[phase as usize].len()
    }
}

impl Application {
    /// Starts to write.
    pub fn start(url: &str) -> Self {
        let (stop, phase) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (asked, now, url) = (Arc::clone(&stop), Arc::clone(&phase), url.to_owned());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(write(&url, &asked, &now))
        });
        Self { stop, phase, thread }
    }

    /// From now on transactions belong to this phase.
    pub fn enters(&self, phase: Phase) {
        self.phase.store(phase as usize, Ordering::SeqCst);
    }

    /// Stops after the transaction that is under way.
    pub fn stop(self) -> Record {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

async fn write(url: &str, stop: &AtomicBool, phase: &AtomicUsize) -> Record {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(LEDGER).await.unwrap();
    let mut record = Record { committed: Vec::new(), rolled_back: 0, latencies: Default::default() };
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let (began, when) = (Instant::now(), phase.load(Ordering::SeqCst));
        let messages = 1 + number % 5;
        number += 1;
        if transaction(&mut client, number, messages).await {
            record.latencies[when].push(began.elapsed());
        } else {
            record.rolled_back += usize::try_from(messages).unwrap();
        }
        tokio::time::sleep(PAUSE).await;
    }
    let rows = client.query(COMMITTED, &[]).await.unwrap();
    record.committed = rows.iter().map(|row| Committed { id: row.get(0), key: row.get(1) }).collect();
    record
}

/// Writes some messages of several keys and notes them; every eleventh transaction is rolled back. True when it was
/// committed.
async fn transaction(client: &mut Client, number: u64, messages: u64) -> bool {
    let outbox = Outbox::new();
    let tx = client.transaction().await.unwrap();
    for n in 0..messages {
        let key = (number * 7 + n) % KEYS;
        let message = Message::new("orders.placed", format!("order {number}.{n}")).key(key);
        let id = outbox.enqueue(&tx, message).await.unwrap().to_string();
        tx.execute(NOTE, &[&id, &key.to_string()]).await.unwrap();
    }
    if number.is_multiple_of(11) {
        tx.rollback().await.unwrap();
        return false;
    }
    tx.commit().await.unwrap();
    true
}
