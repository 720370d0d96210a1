//! A shop whose handler does as it is told, on each of the databases.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, http};
use http::StatusCode;
use postrider::{IdempotencyKeys, IdempotentRequest, InboxError, KeyBackend, PooledKeys};
use postrider_testkit::servers::{mariadb, postgres};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{MySqlPool, PgPool, SqlitePool};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// What the handler does of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Places an order and answers 201.
    Place,
    /// As [`Step::Place`], once it is let go on.
    PlaceLater,
    /// Places an order, and hangs before its commit.
    HangBeforeCommit,
    /// Places an order, and hangs after its commit.
    HangAfterCommit,
    /// Places an order whose answer is larger than what is stored.
    PlaceWithTooLargeAnAnswer,
    /// Finds that nothing is left, and stores that.
    SoldOut,
    /// Places an order, rolls it back, and says so.
    RollBack,
    /// Fails without a word.
    Fail,
    /// Returns a success that it did not store.
    Forget,
}

/// What tests and handler tell each other.
#[derive(Debug)]
pub struct Script {
    steps: Mutex<VecDeque<Step>>,
    /// A permit for each request that came to its point.
    pub arrived: Semaphore,
    /// A permit for each request that may go on.
    pub go_on: Semaphore,
}

impl Script {
    pub fn new(steps: &[Step]) -> Arc<Self> {
        let steps = Mutex::new(steps.iter().copied().collect());
        Arc::new(Self { steps, arrived: Semaphore::new(0), go_on: Semaphore::new(0) })
    }

    /// The next step; what is not told is [`Step::Place`].
    fn next(&self) -> Step {
        self.steps.lock().unwrap().pop_front().unwrap_or(Step::Place)
    }

    /// Says that a request came to its point, and waits until it may go on.
    async fn stop_here(&self) {
        self.arrived.add_permits(1);
        self.go_on.acquire().await.unwrap().forget();
    }
}

/// A database with orders.
pub trait Shop: Clone + Send + Sync + 'static {
    async fn fresh() -> (Self, Kept);
    fn keys(&self) -> impl KeyBackend;
    async fn orders(&self) -> i64;
    /// Ends its connections.
    async fn leave(&self);
    fn place(
        &self,
        request: &IdempotentRequest,
        step: Step,
        script: &Script,
    ) -> impl Future<Output = Result<Response, InboxError>> + Send;
}

/// What has to stay as long as the shop.
pub type Kept = Option<TempDir>;

const CREATE: &str = "create table orders (item text)";

macro_rules! shop {
    ($pool:ty, |$connect:ident| $begin:expr, $fresh:expr) => {
        impl Shop for $pool {
            async fn fresh() -> (Self, Kept) {
                let (pool, kept) = $fresh.await;
                postrider::migrate(&pool).await.unwrap();
                sqlx::query(CREATE).execute(&pool).await.unwrap();
                (pool, kept)
            }

            fn keys(&self) -> impl KeyBackend {
                PooledKeys::new(IdempotencyKeys::new(), self.clone())
            }

            async fn orders(&self) -> i64 {
                sqlx::query_scalar("select count(*) from orders").fetch_one(self).await.unwrap()
            }

            async fn leave(&self) {
                self.close().await;
            }

            async fn place(
                &self,
                request: &IdempotentRequest,
                step: Step,
                script: &Script,
            ) -> Result<Response, InboxError> {
                if step == Step::PlaceLater {
                    script.stop_here().await;
                }
                let $connect = self;
                let mut tx = $begin.await.unwrap();
                if step == Step::SoldOut {
                    let sold_out = answer(StatusCode::GONE, b"sold out".to_vec());
                    let response = request.answer(&mut tx, sold_out).await?;
                    tx.commit().await.unwrap();
                    return Ok(response.into_response());
                }
                sqlx::query("insert into orders values ('book')").execute(&mut *tx).await.unwrap();
                if step == Step::RollBack {
                    tx.rollback().await.unwrap();
                    request.rolled_back();
                    return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
                }
                let body = match step {
                    Step::PlaceWithTooLargeAnAnswer => vec![0; 2 * 1024 * 1024],
                    _ => format!("order {}\0\u{e4}", uuid()).into_bytes(),
                };
                let response = request.answer(&mut tx, answer(StatusCode::CREATED, body)).await?;
                if step == Step::HangBeforeCommit {
                    script.stop_here().await;
                }
                tx.commit().await.unwrap();
                if step == Step::HangAfterCommit {
                    script.stop_here().await;
                }
                Ok(response.into_response())
            }
        }
    };
}

shop!(SqlitePool, |pool| pool.begin_with("begin immediate"), async {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(folder.path().join("shop.db")).create_if_missing(true);
    (SqlitePool::connect_with(options).await.unwrap(), Some(folder))
});
shop!(PgPool, |pool| pool.begin(), async {
    let url = postgres::shared().await.unwrap().fresh_database().await.unwrap();
    (PgPool::connect(&url).await.unwrap(), None)
});
shop!(MySqlPool, |pool| pool.begin(), async {
    let server = mariadb::shared().await.unwrap();
    let url = server.url_for(&server.create_database().await.unwrap());
    (MySqlPool::connect(&url).await.unwrap(), None)
});

/// Another body for each answer that is made.
fn uuid() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

fn answer(status: StatusCode, body: Vec<u8>) -> http::Response<Vec<u8>> {
    http::Response::builder()
        .status(status)
        .header("content-type", "text/plain; charset=utf-8")
        .header("location", "/orders/7")
        .header("set-cookie", "session=1")
        .body(body)
        .unwrap()
}

/// The handler of `POST /orders`.
pub async fn place<S: Shop>(
    State((shop, script)): State<(S, Arc<Script>)>,
    Extension(request): Extension<IdempotentRequest>,
    body: String,
) -> Response {
    assert_eq!(body, "book");
    match script.next() {
        Step::Fail => StatusCode::BAD_GATEWAY.into_response(),
        Step::Forget => "done, I think".into_response(),
        step => match shop.place(&request, step, &script).await {
            Ok(response) => response,
            // The transaction was dropped, which rolls it back.
            Err(error @ InboxError::Invalid(_)) => {
                request.rolled_back();
                (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
            }
            Err(InboxError::Superseded) => StatusCode::CONFLICT.into_response(),
            Err(error) => panic!("{error:?}"),
        },
    }
}

/// The handler of `GET /orders`.
pub async fn list(body: Body) -> &'static str {
    drop(body);
    "orders"
}
