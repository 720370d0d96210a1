//! Billing: it gets the messages about orders over HTTP, and writes one invoice for each.
//!
//! A message may come more than once, with the same id: a receiver that answered and was not heard gets it again. So
//! what it does and the id it has seen belong together; here both are in memory, in earnest in one transaction of a
//! database.
//!
//! | variable | default | |
//! |---|---|---|
//! | `BILLING` | `127.0.0.1:3001` | the address that is listened on |

use std::collections::HashSet;
use std::env;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Order {
    id: i64,
    customer: String,
    item: String,
}

type Seen = Arc<Mutex<HashSet<String>>>;

/// Accepted is what is answered with a 2xx; anything else is sent again, or is a dead letter in the end.
async fn invoices(State(seen): State<Seen>, headers: HeaderMap, Json(order): Json<Order>) -> StatusCode {
    let Some(id) = headers.get("webhook-id").and_then(|id| id.to_str().ok()) else { return StatusCode::BAD_REQUEST };
    let is_new = seen.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    if is_new {
        println!("billing: order {} of {}: {}", order.id, order.customer, order.item);
    }
    StatusCode::NO_CONTENT
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::var("BILLING").unwrap_or_else(|_| "127.0.0.1:3001".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("billing: listening on {}", listener.local_addr()?);
    let router = Router::new().route("/invoices", post(invoices)).with_state(Seen::default());
    Ok(axum::serve(listener, router).await?)
}
