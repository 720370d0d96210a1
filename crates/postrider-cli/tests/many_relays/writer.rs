//! The load: one writer whose transactions are ordered, so that the order per key is the order of its ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::{Message, MessageId, Outbox};
use postrider_testkit::verdict::Committed;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::NoTls;

/// The pause between two transactions.
const EVERY: Duration = Duration::from_millis(20);

/// What is written.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Messages of one transaction.
    at_once: usize,
    /// The key of each message by its number.
    key: fn(usize) -> Option<String>,
}

/// 500 messages a second, with several keys for each of the 64 lanes.
pub const MANY_KEYS: Load = Load { at_once: 10, key: |n| Some((n * 7 % 500).to_string()) };

/// 200 messages a second of a few keys and of none.
pub const WITH_AND_WITHOUT_KEYS: Load =
    Load { at_once: 4, key: |n| (!n.is_multiple_of(3)).then(|| (n % 7).to_string()) };

/// A load that goes on until it is told to stop.
pub struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<Committed>>,
}

impl Writer {
    pub fn start(url: &str, load: Load) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, url) = (Arc::clone(&stop), url.to_owned());
        Self { stop, task: tokio::spawn(async move { write(&url, load, &asked).await }) }
    }

    /// What it committed, in order.
    pub async fn stop(self) -> Vec<Committed> {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap()
    }
}

async fn write(url: &str, load: Load, stop: &AtomicBool) -> Vec<Committed> {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (outbox, mut committed) = (Outbox::new(), Vec::new());
    let mut clock = interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut number = 0_usize;
    while !stop.load(Ordering::SeqCst) {
        clock.tick().await;
        let keys: Vec<Option<String>> = (number..number + load.at_once).map(load.key).collect();
        let messages = keys.iter().map(|key| {
            number += 1;
            let message = Message::new("orders.placed", number.to_string());
            key.iter().fold(message, |message, key| message.key(key))
        });
        let messages: Vec<_> = messages.collect();
        let tx = client.transaction().await.unwrap();
        let ids = outbox.enqueue_all(&tx, messages).await.unwrap();
        tx.commit().await.unwrap();
        // Without a key no order is asked for: a message then stands for itself.
        let written = |(id, key): (&MessageId, Option<String>)| {
            let id = id.to_string();
            Committed { key: key.unwrap_or_else(|| id.clone()), id }
        };
        committed.extend(ids.iter().zip(keys).map(written));
    }
    committed
}
