//! An order service: it writes each order and the message about it in one transaction, and relays the messages from
//! its own process.
//!
//! ```text
//! cargo run -p axum-orders
//! curl -d '{"id": 1, "customer": "ann", "item": "book"}' -H 'content-type: application/json' localhost:3000/orders
//! ```
//!
//! | variable | default | |
//! |---|---|---|
//! | `DATABASE_URL` | `sqlite:orders.db` | or `postgres://user:password@host/database` |
//! | `BROKER_URL` | `stdout:` | or `http://host/hook`, `nats://host:4222` with a stream that covers `orders.>` |
//! | `LISTEN` | `127.0.0.1:3000` | |
//! | `RUST_LOG` | `info` | what of the relay's log is printed, such as `warn` or `postrider_relay=debug` |

use std::env;
use std::error::Error;
use std::future::pending;
use std::process::ExitCode;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use postrider::brokers::{self, BrokerConfig};
use postrider::stores::{self, StoreOptions};
use postrider::{CancellationToken, DestinationName, DestinationTemplate, Message, Outbox, Relay, RelayHandle};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{PgPool, SqlitePool};
use tokio::signal;
use tracing_subscriber::EnvFilter;

type Failure = Box<dyn Error + Send + Sync>;

const TABLE: &str =
    "create table if not exists orders (id bigint primary key, customer text not null, item text not null)";
const INSERT: &str = "insert into orders (id, customer, item) values ($1, $2, $3)";

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: i64,
    customer: String,
    item: String,
}

#[derive(Debug, Clone)]
enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

#[derive(Debug, Clone)]
struct Service {
    database: Database,
    outbox: Outbox,
    relay: RelayHandle,
}

/// Writes the order and the message about it: both are committed, or neither.
async fn place(service: &Service, order: &Order) -> Result<(), Failure> {
    // Messages of one customer are delivered in the order of their transactions; other customers do not wait for them.
    let message = Message::json("orders.placed", order)?.key(&order.customer).correlation_id(order.id);
    match &service.database {
        Database::Sqlite(pool) => {
            // Immediate: SQLite has one writer, and a transaction that becomes one later may be refused.
            let mut tx = pool.begin_with("begin immediate").await?;
            sqlx::query(INSERT).bind(order.id).bind(&order.customer).bind(&order.item).execute(&mut *tx).await?;
            service.outbox.enqueue(&mut tx, message).await?;
            tx.commit().await?;
        }
        Database::Postgres(pool) => {
            let mut tx = pool.begin().await?;
            sqlx::query(INSERT).bind(order.id).bind(&order.customer).bind(&order.item).execute(&mut *tx).await?;
            service.outbox.enqueue(&mut tx, message).await?;
            tx.commit().await?;
        }
    }
    // Optional: the relay looks now instead of at its next poll.
    service.relay.hint();
    Ok(())
}

async fn orders(State(service): State<Service>, Json(order): Json<Order>) -> (StatusCode, String) {
    match place(&service, &order).await {
        Ok(()) => (StatusCode::CREATED, format!("order {} is placed\n", order.id)),
        Err(failure) if is_duplicate(&failure) => {
            (StatusCode::CONFLICT, format!("order {} is there already\n", order.id))
        }
        Err(failure) => {
            tracing::error!(order = order.id, %failure, "an order is not placed");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("order {} is not placed\n", order.id))
        }
    }
}

/// Whether the order was there already, as after a request that was repeated.
fn is_duplicate(failure: &Failure) -> bool {
    let refused = failure.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    refused.is_some_and(|refused| refused.is_unique_violation())
}

/// Opens the database and creates the tables: the service's own, and the outbox.
async fn open(url: &str) -> Result<Database, Failure> {
    if url.starts_with("sqlite:") {
        let pool = SqlitePool::connect_with(url.parse::<SqliteConnectOptions>()?.create_if_missing(true)).await?;
        postrider::migrate(&pool).await?;
        sqlx::query(TABLE).execute(&pool).await?;
        Ok(Database::Sqlite(pool))
    } else {
        let pool = PgPool::connect(url).await?;
        postrider::migrate(&pool).await?;
        sqlx::query(TABLE).execute(&pool).await?;
        Ok(Database::Postgres(pool))
    }
}

/// Ends when the process is asked to: Ctrl-C or SIGTERM.
async fn asked_to_stop() {
    let terminated = async {
        match signal::unix::signal(signal::unix::SignalKind::terminate()) {
            Ok(mut terminations) => terminations.recv().await,
            Err(_) => pending().await,
        }
    };
    tokio::select! { _ = terminated => {} _ = signal::ctrl_c() => {} }
}

/// Prints what the relay logs to standard error: why it retries, why a destination pauses, what is given up.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Failure> {
    log();
    let variable = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let url = variable("DATABASE_URL", "sqlite:orders.db");
    let database = open(&url).await?;

    // The relay has connections of its own; the table is all that it shares with the service.
    let store = stores::open(&url, &StoreOptions::default()).await?;
    let broker = brokers::open(&BrokerConfig::new(variable("BROKER_URL", "stdout:")))?;
    let relay = Relay::builder(store)
        .name("axum-orders")
        .destination(DestinationName::new("events"), broker, DestinationTemplate::topic())
        .build()?;
    let service = Service { database, outbox: Outbox::new(), relay: relay.handle() };
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let (running, at_its_end) = (relay.run(stop.clone()), ended.clone().drop_guard());
    let relaying = tokio::spawn(async move {
        let _at_its_end = at_its_end;
        running.await
    });

    let listener = tokio::net::TcpListener::bind(variable("LISTEN", "127.0.0.1:3000")).await?;
    eprintln!("listening on {}", listener.local_addr()?);
    let router = Router::new().route("/orders", post(orders)).with_state(service);
    // A relay that ends by itself ends the service too: it would take orders whose messages never leave.
    let until = async move {
        tokio::select! { () = asked_to_stop() => {} () = ended.cancelled() => {} }
    };
    axum::serve(listener, router).with_graceful_shutdown(until).await?;

    // Requests are finished, so no order is being written: now the relay settles what is in flight and leaves.
    stop.cancel();
    let summary = relaying.await??;
    eprintln!("stopped: {} delivered", summary.delivered);
    Ok(())
}
