//! An order service whose clients may send a request again: it is placed once, and every try gets the same answer.
//!
//! ```text
//! cargo run -p receiving --bin orders-api
//! curl -i localhost:3001/orders -H 'authorization: Bearer ann' -H 'idempotency-key: "7d1f"' \
//!      -H 'content-type: application/json' -d '{"item": "book"}'
//! ```
//!
//! The same command again prints the same order, and `idempotent-replayed: true`. The order, the message about it and the
//! answer to the client are written in one transaction. Kill the service at any moment and send the request again.
//!
//! | variable | default | |
//! |---|---|---|
//! | `DATABASE_URL` | `sqlite:orders-api.db` | |
//! | `LISTEN` | `127.0.0.1:3001` | |

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{OriginalUri, State};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use postrider::{IdempotencyKeys, IdempotencyLayer, IdempotentRequest, Message, Outbox, PooledKeys};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

type Failure = Box<dyn Error + Send + Sync>;

const TABLE: &str = "create table if not exists orders (id integer primary key, item text not null)";
const INSERT: &str = "insert into orders (item) values ($1) returning id";

/// Answers are forgotten when no client tries again any more.
const KEPT: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Debug, Deserialize)]
struct Wanted {
    item: String,
}

#[derive(Debug, Serialize)]
struct Order {
    id: i64,
    item: String,
}

/// Writes the order, the message about it and the answer: all are committed, or none.
async fn place(pool: &SqlitePool, request: &IdempotentRequest, wanted: Wanted) -> Result<Response<Body>, Failure> {
    let mut tx = pool.begin_with("begin immediate").await?;
    let id = sqlx::query_scalar(INSERT).bind(&wanted.item).fetch_one(&mut *tx).await?;
    let order = Order { id, item: wanted.item };
    Outbox::new().enqueue(&mut tx, Message::json("orders.placed", &order)?.key(id)).await?;
    let created = Response::builder()
        .status(StatusCode::CREATED)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::LOCATION, format!("/orders/{id}"))
        .body(serde_json::to_string(&order)?)?;
    // Refused where another server has taken the request over: then the order is rolled back with it.
    let response = request.answer(&mut tx, created).await?;
    tx.commit().await?;
    Ok(response.into_response())
}

async fn orders(
    State(pool): State<SqlitePool>,
    Extension(request): Extension<IdempotentRequest>,
    Json(wanted): Json<Wanted>,
) -> Response<Body> {
    place(&pool, &request, wanted).await.unwrap_or_else(|failure| {
        eprintln!("an order is not placed, or nobody knows: {failure}");
        // Whether it was committed is not known here: the key is free again when the lease of this request has ended.
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    })
}

/// Who sent a request; a key of theirs is nobody else's. A service finds that out by what it trusts.
fn caller(request: &Parts) -> Option<String> {
    let token = request.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    Some(token.strip_prefix("Bearer ")?.to_owned())
}

/// The path that the client sent: `nest`, if these routes are ever put into another router, takes its beginning away.
fn path(request: &Parts) -> String {
    let sent = request.extensions.get::<OriginalUri>().map_or(&request.uri, |sent| &sent.0);
    sent.path().to_owned()
}

/// Once an hour.
async fn forget_old_answers(pool: SqlitePool) -> Result<(), Failure> {
    loop {
        let mut tx = pool.begin_with("begin immediate").await?;
        let forgotten = IdempotencyKeys::new().forget(&mut tx, KEPT).await?;
        tx.commit().await?;
        if !forgotten.more {
            tokio::time::sleep(HOUR).await;
        }
    }
}

async fn serve() -> Result<(), Failure> {
    let variable = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let options: SqliteConnectOptions = variable("DATABASE_URL", "sqlite:orders-api.db").parse()?;
    let pool = SqlitePool::connect_with(options.create_if_missing(true)).await?;
    postrider::migrate(&pool).await?;
    sqlx::query(TABLE).execute(&pool).await?;

    let layer = IdempotencyLayer::new(PooledKeys::new(IdempotencyKeys::new(), pool.clone()), caller).path(path);
    let router = Router::new().route("/orders", post(orders)).layer(layer).with_state(pool.clone());
    let listener = tokio::net::TcpListener::bind(variable("LISTEN", "127.0.0.1:3001")).await?;
    eprintln!("listening on {}", listener.local_addr()?);
    let serving = axum::serve(listener, router).with_graceful_shutdown(async {
        let _ = tokio::signal::ctrl_c().await;
    });
    tokio::select! {
        ended = serving.into_future() => Ok(ended?),
        failed = forget_old_answers(pool) => failed,
    }
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
