//! A payment service: each order is charged once, however often the message about it comes, and whenever the service is killed.
//!
//! It reads `orders.placed` from NATS JetStream, where the relay brings what `orders-api` wrote into its outbox:
//!
//! ```text
//! nats-server -js &
//! nats stream add orders --subjects 'orders.>' --defaults && nats stream add dead --subjects 'dead.>' --defaults
//! postrider migrate --store sqlite:orders-api.db
//! cargo run -p receiving --bin orders-api &
//! postrider relay --store sqlite:orders-api.db --broker nats://127.0.0.1:4222 &
//! cargo run -p receiving --bin payments
//! ```
//!
//! Without the [nats command](https://github.com/nats-io/natscli), `python3 examples/from-python/jetstream.py
//! nats://127.0.0.1:4222 create orders 'orders.>'` makes a stream.
//!
//! An order is placed as the first lines of `orders-api` say; this program then prints that it is charged. Whether a message
//! was handled is recorded in the transaction that has its effect: kill the program at any moment and start it again.
//! What is no order goes to `dead.payments`, with the reason in its headers.
//!
//! | variable | default | |
//! |---|---|---|
//! | `DATABASE_URL` | `sqlite:payments.db` | |
//! | `BROKER_URL` | `nats://127.0.0.1:4222` | with a stream that covers `orders.placed`, and one that covers `dead.payments` |

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use postrider::brokers::{self, BrokerConfig, SubscriptionConfig};
use postrider::consume::{Consumer, Setback};
use postrider::{CancellationToken, Delivery, Destination, Inbox, Message, Outbox, Seen};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

type Failure = Box<dyn Error + Send + Sync>;

/// The name under which this service reads, and under which its inbox remembers.
const CONSUMER: &str = "payments";

const TABLE: &str = "create table if not exists payments (order_id integer not null, item text not null)";
const INSERT: &str = "insert into payments (order_id, item) values ($1, $2)";

/// Ids are forgotten when no message comes again any more. An older one is refused then, not charged twice.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Debug, Deserialize, Serialize)]
struct Order {
    id: i64,
    item: String,
}

/// Charges for an order, and tells about it: the payment, the message and the record that this order's message was handled are
/// committed together, or none of them.
async fn charge(pool: SqlitePool, delivery: Delivery) -> Result<Seen, Failure> {
    // It will be no order at the next attempt either.
    let order: Order = serde_json::from_slice(&delivery.message.payload).map_err(Setback::give_up)?;
    let mut tx = pool.begin_with("begin immediate").await?;
    let seen = Inbox::new().first_seen(&mut tx, CONSUMER, delivery.id()).await?;
    if seen == Seen::First {
        sqlx::query(INSERT).bind(order.id).bind(&order.item).execute(&mut *tx).await?;
        Outbox::new().enqueue(&mut tx, Message::json("payments.made", &order)?.key(order.id)).await?;
    }
    tx.commit().await?;
    if seen == Seen::First {
        println!("order {} is charged: {}", order.id, order.item);
    }
    Ok(seen)
}

/// Once an hour.
async fn forget_old_messages(pool: SqlitePool) -> Result<(), Failure> {
    loop {
        let mut tx = pool.begin_with("begin immediate").await?;
        let forgotten = Inbox::new().forget(&mut tx, KEPT).await?;
        tx.commit().await?;
        if !forgotten.more {
            tokio::time::sleep(HOUR).await;
        }
    }
}

async fn receive() -> Result<(), Failure> {
    let variable = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let options: SqliteConnectOptions = variable("DATABASE_URL", "sqlite:payments.db").parse()?;
    let pool = SqlitePool::connect_with(options.create_if_missing(true)).await?;
    postrider::migrate(&pool).await?;
    sqlx::query(TABLE).execute(&pool).await?;

    let broker = BrokerConfig::new(variable("BROKER_URL", "nats://127.0.0.1:4222"));
    let dead_letters = brokers::open(&broker)?;
    let orders = brokers::subscribe(&SubscriptionConfig::new(broker, CONSUMER, "orders.placed"))?;
    let to_charge = pool.clone();
    let consumer = Consumer::builder(orders, move |delivery| charge(to_charge.clone(), delivery))
        .dead_letters(dead_letters, Destination::new("dead.payments"))
        .build()?;

    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stopping.cancel();
    });
    tokio::select! {
        ended = consumer.run(stop) => {
            let summary = ended?;
            println!("{} messages are handled, {} of them repeats", summary.handled, summary.repeats);
            Ok(())
        }
        failed = forget_old_messages(pool) => failed,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match receive().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
