//! The load: one writer whose transactions are ordered, so that the order per key is the order of its ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::{Message, Outbox};
use postrider_testkit::verdict::Committed;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::NoTls;

/// Keys of the load: several for each of the 64 lanes.
const KEYS: usize = 500;
/// Messages of one transaction, every 20 ms: 500 a second.
const AT_ONCE: usize = 10;
const EVERY: Duration = Duration::from_millis(20);

/// A load that goes on until it is told to stop.
pub struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<Committed>>,
}

impl Writer {
    pub fn start(url: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, url) = (Arc::clone(&stop), url.to_owned());
        Self { stop, task: tokio::spawn(async move { write(&url, &asked).await }) }
    }

    /// What it committed, in order.
    pub async fn stop(self) -> Vec<Committed> {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap()
    }
}

async fn write(url: &str, stop: &AtomicBool) -> Vec<Committed> {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (outbox, mut committed) = (Outbox::new(), Vec::new());
    let mut clock = interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut number = 0_usize;
    while !stop.load(Ordering::SeqCst) {
        clock.tick().await;
        let keys: Vec<String> = (0..AT_ONCE).map(|n| ((number + n) * 7 % KEYS).to_string()).collect();
        let messages = keys.iter().map(|key| {
            number += 1;
            Message::new("orders.placed", number.to_string()).key(key)
        });
        let messages: Vec<_> = messages.collect();
        let tx = client.transaction().await.unwrap();
        let ids = outbox.enqueue_all(&tx, messages).await.unwrap();
        tx.commit().await.unwrap();
        committed.extend(ids.iter().zip(keys).map(|(id, key)| Committed { id: id.to_string(), key }));
    }
    committed
}
