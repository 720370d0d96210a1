//! Every message is delivered twice, and has its effect once.

use std::sync::Arc;

use postrider::brokers::memory::MemoryBroker;
use postrider::consume::{ConsumeSummary, Consumer, Receiver};
use postrider::documents::memory::MemoryDocuments;
use postrider::{
    CancellationToken, Delivery, DestinationTemplate, EntityKey, Handler, Inbox, Invalid, Message, Outbox, Outputs,
    Processor, Seen,
};
use sqlx::SqlitePool;

use crate::queue::Queue;
use crate::scene::until;

const KEYS: usize = 4;
const EACH: usize = 10;

/// Messages of some keys, each of which lies there twice.
fn twice() -> Arc<Queue> {
    let queue = Queue::new();
    let mut all = Vec::new();
    for n in 0..EACH {
        for key in 0..KEYS {
            all.push(Message::new("orders.placed", n.to_string()).key(key));
        }
    }
    for message in all.iter().flat_map(|message| [message, message]) {
        queue.put_message(message.clone(), 0);
    }
    queue
}

async fn consumed(queue: &Arc<Queue>, receiver: impl Receiver) -> ConsumeSummary {
    let stop = CancellationToken::new();
    let consumer = Consumer::builder(Arc::clone(queue) as _, receiver).build().unwrap();
    let running = tokio::spawn(consumer.run(stop.clone()));
    until(|| queue.left() == 0).await;
    stop.cancel();
    running.await.unwrap().unwrap()
}

/// Writes an invoice for each order, once, and a message about it.
async fn bill(pool: SqlitePool, delivery: Delivery) -> Result<Seen, Box<dyn std::error::Error + Send + Sync>> {
    let mut tx = pool.begin_with("begin immediate").await?;
    let seen = Inbox::new().first_seen(&mut tx, "billing", delivery.id()).await?;
    if seen == Seen::First {
        let key = delivery.message.key.as_ref().unwrap().as_str();
        let number = std::str::from_utf8(&delivery.message.payload)?;
        sqlx::query("insert into invoices values (?, ?)").bind(key).bind(number).execute(&mut *tx).await?;
        Outbox::new().enqueue(&mut tx, Message::new("invoices.made", number.to_owned()).key(key)).await?;
    }
    tx.commit().await?;
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_inbox_in_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("billing.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    postrider::migrate(&pool).await.unwrap();
    sqlx::query("create table invoices (order_key text, number text)").execute(&pool).await.unwrap();
    let billing = pool.clone();
    let summary = consumed(&twice(), move |delivery| bill(billing.clone(), delivery)).await;
    let (all, all_64) = (KEYS * EACH, i64::try_from(KEYS * EACH).unwrap());
    for table in ["select count(*) from invoices", "select count(*) from postrider_outbox"] {
        let count: i64 = sqlx::query_scalar(table).fetch_one(&pool).await.unwrap();
        assert_eq!(count, all_64, "{table}");
    }
    for key in 0..KEYS {
        let numbers: Vec<String> = sqlx::query_scalar("select number from invoices where order_key = ? order by rowid")
            .bind(key.to_string())
            .fetch_all(&pool)
            .await
            .unwrap();
        assert_eq!(numbers, (0..EACH).map(|n| n.to_string()).collect::<Vec<_>>(), "in order");
    }
    let all = u64::try_from(all).unwrap();
    assert_eq!((summary.handled, summary.repeats, summary.failed), (2 * all, all, 0));
}

struct Carts;

impl Handler for Carts {
    type State = Vec<String>;
    type Error = Invalid;

    fn entity(&self, message: &Delivery) -> EntityKey {
        EntityKey::new(message.message.key.as_ref().map_or("", |key| key.as_str()))
    }

    async fn handle(&self, cart: &mut Self::State, message: &Delivery, out: &mut Outputs) -> Result<(), Invalid> {
        cart.push(String::from_utf8_lossy(&message.message.payload).into_owned());
        out.send(Message::new("carts.changed", cart.len().to_string()).key(self.entity(message).as_str()))?;
        Ok(())
    }
}

#[tokio::test]
async fn with_a_processor_over_documents() {
    let broker = Arc::new(MemoryBroker::recording());
    let processor = Processor::builder("carts", Arc::new(MemoryDocuments::new()), Carts)
        .broker(Arc::clone(&broker) as _, DestinationTemplate::topic())
        .build()
        .unwrap();
    let processor = Arc::new(processor); // shared with whoever calls keep_up
    let summary = consumed(&twice(), Arc::clone(&processor)).await;
    let all = u64::try_from(KEYS * EACH).unwrap();
    assert_eq!((summary.handled, summary.repeats, summary.failed), (2 * all, all, 0));
    assert_eq!(broker.accepted(), all);
    for key in 0..KEYS {
        let sent = broker.messages();
        let of_key = sent.iter().filter(|one| one.message.key.as_ref().unwrap().as_str() == key.to_string());
        let lengths: Vec<String> =
            of_key.map(|one| String::from_utf8_lossy(&one.message.payload).into_owned()).collect();
        assert_eq!(lengths, (1..=EACH).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    assert!(processor.keep_up().await.unwrap().stuck.is_empty());
}
