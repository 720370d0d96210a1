//! Requests to a shop, and what came of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::routing::post;
use postrider::{IdempotencyLayer, KeyBackend};
use tower_service::Service;

use crate::shop::{Kept, Script, Shop, Step, list, place};

/// What a client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Whether it is this answer again, to the byte.
    pub fn is_replay_of(&self, first: &Self) -> bool {
        let mut headers = self.headers.clone();
        let mark = headers.remove("idempotent-replayed");
        mark.is_some_and(|mark| mark == "true")
            && (self.status, &headers, &self.body) == (first.status, &first.headers, &first.body)
    }

    /// The kind of the problem that is told, such as `idempotency-key-missing`.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let told: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(told["status"], self.status.as_u16());
        assert!(told["detail"].as_str().unwrap().len() > 20, "{told}");
        told["type"].as_str().unwrap().strip_prefix("urn:postrider:").unwrap().to_owned()
    }
}

/// A shop with a server before it.
pub struct Scene<S> {
    pub shop: S,
    pub script: Arc<Script>,
    pub wait: Duration,
    pub lease: Duration,
    _kept: Kept,
}

impl<S: Shop> Scene<S> {
    pub async fn fresh(steps: &[Step]) -> Self {
        let (shop, kept) = S::fresh().await;
        let (wait, lease) = (Duration::ZERO, Duration::from_secs(60));
        Self { shop, script: Script::new(steps), wait, lease, _kept: kept }
    }

    /// A layer that compares the path that it sees.
    pub fn layer(&self) -> IdempotencyLayer<impl KeyBackend> {
        let caller = |parts: &Parts| Some(parts.headers.get("caller")?.to_str().ok()?.to_owned());
        IdempotencyLayer::new(self.shop.keys(), caller).wait(self.wait).lease(self.lease).largest_request(1_000)
    }

    /// What the layer stands before.
    pub fn router(&self) -> Router {
        let state = (self.shop.clone(), Arc::clone(&self.script));
        Router::new().route("/orders", post(place::<S>).get(list)).with_state(state)
    }

    /// A server that has just been started.
    pub fn server(&self) -> Router {
        self.router().layer(self.layer())
    }

    /// A request to a server of its own.
    pub async fn send(&self, request: Request<Body>) -> Got {
        self.send_to(self.server(), request).await
    }

    /// A request to this server.
    pub async fn send_to(&self, mut server: Router, request: Request<Body>) -> Got {
        let response = server.call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Got { status: parts.status, headers: parts.headers, body: to_bytes(body, usize::MAX).await.unwrap().to_vec() }
    }

    /// The same order once more.
    pub async fn order(&self) -> Got {
        self.send(order()).await
    }

    /// The same order, until it is not told that it is worked on.
    pub async fn order_until_answered(&self) -> Got {
        loop {
            let got = self.order().await;
            if got.status != StatusCode::CONFLICT {
                return got;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub fn request(key: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post("/orders").header("caller", "alice").header("content-type", "text/plain");
    request.header("idempotency-key", key).body(body.into()).unwrap()
}

pub fn order() -> Request<Body> {
    request("\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", "book")
}

/// Runs every case on each of the databases where one who writes leaves others to write.
macro_rules! on_every_server {
    ($($case:ident),* $(,)?) => {
        mod on_postgresql { $(
            #[tokio::test]
            async fn $case() {
                super::$case::<sqlx::PgPool>().await;
            }
        )* }
        mod on_mysql { $(
            #[tokio::test]
            async fn $case() {
                super::$case::<sqlx::MySqlPool>().await;
            }
        )* }
    };
}
pub(crate) use on_every_server;

/// Runs every case on each of the databases.
macro_rules! on_every_database {
    ($($case:ident),* $(,)?) => {
        $crate::scene::on_every_server!($($case),*);
        mod on_sqlite { $(
            #[tokio::test]
            async fn $case() {
                super::$case::<sqlx::SqlitePool>().await;
            }
        )* }
    };
}
pub(crate) use on_every_database;
