//! The API as its clients meet it: the real program, ended by SIGKILL between two tries.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// The API, running; killed when it is dropped.
struct Api {
    process: Child,
    url: String,
}

/// What a client gets: the status, whether it is an answer given before, and the body.
type Got = (u16, bool, String);

impl Api {
    async fn start(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_orders-api"))
            .env("DATABASE_URL", format!("sqlite://{}/orders.db", folder.display()))
            .env("LISTEN", "127.0.0.1:0")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
        let url = format!("http://{}/orders", line.strip_prefix("listening on ").unwrap());
        Self { process, url }
    }

    async fn order(&self, user: &str, key: &str, item: &str) -> Got {
        let request = reqwest::Client::new()
            .post(&self.url)
            .header("authorization", format!("Bearer {user}"))
            .header("idempotency-key", format!("{key:?}"))
            .header("content-type", "application/json")
            .body(format!(r#"{{"item":"{item}"}}"#));
        let response = request.send().await.unwrap();
        let replayed = response.headers().contains_key("idempotent-replayed");
        (response.status().as_u16(), replayed, response.text().await.unwrap())
    }

    async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}

async fn count(folder: &Path, of: &'static str) -> i64 {
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}/orders.db", folder.display())).await.unwrap();
    sqlx::query_scalar(of).fetch_one(&pool).await.unwrap()
}

#[tokio::test]
async fn an_order_is_placed_once_however_often_it_is_sent_and_its_answer_outlives_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let api = Api::start(folder.path()).await;
    let first = r#"{"id":1,"item":"book"}"#.to_owned();
    assert_eq!(api.order("ann", "a", "book").await, (201, false, first.clone()));
    assert_eq!(api.order("ann", "a", "book").await, (201, true, first.clone()));
    api.kill().await;
    let api = Api::start(folder.path()).await;
    assert_eq!(api.order("ann", "a", "book").await, (201, true, first));
    assert_eq!(api.order("ann", "b", "book").await.2, r#"{"id":2,"item":"book"}"#);
    assert_eq!(api.order("bob", "a", "lamp").await.2, r#"{"id":3,"item":"lamp"}"#);
    assert_eq!(count(folder.path(), "select count(*) from orders").await, 3);
    assert_eq!(count(folder.path(), "select count(*) from postrider_outbox").await, 3);
}

#[tokio::test]
async fn another_order_with_the_key_and_an_order_without_one_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let api = Api::start(folder.path()).await;
    assert_eq!(api.order("ann", "a", "book").await.0, 201);
    assert_eq!(api.order("ann", "a", "lamp").await.0, 422);
    let without = reqwest::Client::new().post(&api.url).header("authorization", "Bearer ann").body("{}");
    assert_eq!(without.send().await.unwrap().status().as_u16(), 400);
    assert_eq!(count(folder.path(), "select count(*) from orders").await, 1);
}
