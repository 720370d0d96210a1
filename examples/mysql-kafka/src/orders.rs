//! An order service on MySQL or MariaDB: it writes each order and the message about it in one transaction. `postrider
//! relay`, a process of its own, delivers the messages.
//!
//! | variable | default | |
//! |---|---|---|
//! | `DATABASE_URL` | `mysql://shop:secret@127.0.0.1:3306/shop` | where `postrider migrate` made the outbox |
//! | `ORDERS` | `127.0.0.1:3000` | the address that is listened on |

use std::env;
use std::error::Error;
use std::process::ExitCode;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use postrider::{Message, Outbox};
use serde::{Deserialize, Serialize};
use sqlx::MySqlPool;

type Failure = Box<dyn Error + Send + Sync>;

const TABLE: &str = include_str!("../schema.sql");
const INSERT: &str = "insert into orders (id, customer, item) values (?, ?, ?)";

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: i64,
    customer: String,
    item: String,
}

#[derive(Debug, Clone)]
struct Service {
    pool: MySqlPool,
    outbox: Outbox,
}

/// Writes the order and the message about it: both are committed, or neither.
async fn place(service: &Service, order: &Order) -> Result<(), Failure> {
    // The customer is the key: the messages of one customer keep the order of the transactions that wrote them.
    let message = Message::json("orders.placed", order)?.key(&order.customer).correlation_id(order.id);
    let mut tx = service.pool.begin().await?;
    sqlx::query(INSERT).bind(order.id).bind(&order.customer).bind(&order.item).execute(&mut *tx).await?;
    service.outbox.enqueue(&mut tx, message).await?;
    tx.commit().await?;
    Ok(())
}

async fn orders(State(service): State<Service>, Json(order): Json<Order>) -> (StatusCode, String) {
    match place(&service, &order).await {
        Ok(()) => (StatusCode::CREATED, format!("order {} is placed\n", order.id)),
        Err(failure) if is_there(&failure) => (StatusCode::CONFLICT, format!("order {} is there already\n", order.id)),
        Err(failure) => (StatusCode::INTERNAL_SERVER_ERROR, format!("order {} is not placed: {failure}\n", order.id)),
    }
}

fn is_there(failure: &Failure) -> bool {
    let database = failure.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    database.is_some_and(|error| error.is_unique_violation())
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
    let variable = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let pool = MySqlPool::connect(&variable("DATABASE_URL", "mysql://shop:secret@127.0.0.1:3306/shop")).await?;
    sqlx::query(TABLE).execute(&pool).await?;
    let router = Router::new().route("/orders", post(orders)).with_state(Service { pool, outbox: Outbox::new() });
    let listener = tokio::net::TcpListener::bind(variable("ORDERS", "127.0.0.1:3000")).await?;
    eprintln!("orders: listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
