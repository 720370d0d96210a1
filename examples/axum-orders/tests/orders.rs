//! The example as its reader runs it: the real program, real databases, a real receiver.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::Stdio;
use std::time::Duration;

use postrider_testkit::servers::http_receiver::HttpReceiver;
use postrider_testkit::servers::postgres;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// The example, running.
struct Service {
    process: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
    /// What stood on standard error before the address.
    log: String,
    url: String,
}

impl Service {
    async fn start(database: &str, broker: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_axum-orders"))
            .env("DATABASE_URL", database)
            .env("BROKER_URL", broker)
            .env("LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut err = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut log = String::new();
        let url = loop {
            let line = timeout(PATIENCE, err.next_line()).await.unwrap().unwrap().unwrap();
            if let Some(address) = line.strip_prefix("listening on ") {
                break format!("http://{address}/orders");
            }
            log.push_str(&line);
        };
        Self { process, out, err, log, url }
    }

    async fn order(&self, id: u64, customer: &str) -> u16 {
        self.answer(id, customer).await.0
    }

    async fn answer(&self, id: u64, customer: &str) -> (u16, String) {
        let body = format!(r#"{{"id":{id},"customer":"{customer}","item":"book"}}"#);
        let request = reqwest::Client::new().post(&self.url).header("content-type", "application/json").body(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// What it logs until a line has these words, that line included.
    async fn logged(&mut self, words: &str) -> String {
        while !self.log.contains(words) {
            let line = timeout(PATIENCE, self.err.next_line()).await.unwrap().unwrap().unwrap();
            self.log.push_str(&line);
        }
        self.log.clone()
    }

    /// Sends SIGTERM and tells the last line and whether the exit was a success.
    async fn stop(mut self) -> (String, bool) {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
        let mut last = String::new();
        while let Some(line) = timeout(PATIENCE, self.err.next_line()).await.unwrap().unwrap() {
            last = line;
        }
        (last, timeout(PATIENCE, self.process.wait()).await.unwrap().unwrap().success())
    }
}

/// Three orders, one of them twice: three messages reach the receiver, those of one customer in their order.
async fn orders_reach_the_receiver(database: &str) {
    let receiver = HttpReceiver::start().await.unwrap();
    let service = Service::start(database, &receiver.url()).await;
    assert_eq!(service.order(1, "ann").await, 201);
    assert_eq!(service.order(2, "ann").await, 201);
    assert_eq!(service.order(2, "ann").await, 409);
    assert_eq!(service.order(3, "bob").await, 201);
    timeout(PATIENCE, async {
        while receiver.requests().len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let (last, success) = service.stop().await;
    assert_eq!((last.as_str(), success), ("stopped: 3 delivered", true));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 3);
    let of = |customer: &str| -> Vec<_> {
        let of = requests.iter().filter(|request| request.header("postrider-key") == Some(customer));
        of.map(|request| request.header("correlation-id").unwrap().to_owned()).collect()
    };
    assert_eq!((of("ann"), of("bob")), (vec!["1".to_owned(), "2".to_owned()], vec!["3".to_owned()]));
    assert!(requests.iter().all(|request| request.header("content-type") == Some("application/json")));
}

#[tokio::test]
async fn orders_in_sqlite_reach_an_http_receiver_and_the_refused_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    orders_reach_the_receiver(&format!("sqlite://{}/orders.db", folder.path().display())).await;
}

#[tokio::test]
async fn orders_in_postgresql_reach_an_http_receiver_and_the_refused_one_does_not() {
    let database = postgres::shared().await.unwrap().fresh_database().await.unwrap();
    orders_reach_the_receiver(&database).await;
}

#[tokio::test]
async fn by_default_messages_are_lines_on_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}/orders.db", folder.path().display());
    let mut service = Service::start(&database, "stdout:").await;
    assert_eq!(service.order(7, "ann").await, 201);
    let line = timeout(PATIENCE, service.out.next_line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("orders.placed") && line.contains("ann"), "{line}");
    assert_eq!(service.stop().await, ("stopped: 1 delivered".to_owned(), true));
}

#[tokio::test]
async fn what_the_relay_logs_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}/orders.db", folder.path().display());
    let mut service = Service::start(&database, "http://127.0.0.1:9/nobody").await;
    let log = service.logged("destination paused").await;
    assert!(log.contains("WARN") && log.contains("postrider_relay"), "{log}");
}

async fn change(database: &str, statement: &'static str) {
    let pool = sqlx::SqlitePool::connect(database).await.unwrap();
    sqlx::query(statement).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn an_order_that_fails_for_another_reason_than_a_duplicate_is_the_services_fault_and_the_cause_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}/orders.db", folder.path().display());
    let mut service = Service::start(&database, "stdout:").await;
    assert_eq!(service.answer(1, "ann").await, (201, "order 1 is placed\n".to_owned()));
    assert_eq!(service.answer(1, "ann").await, (409, "order 1 is there already\n".to_owned()));
    change(&database, "drop table orders").await;
    assert_eq!(service.answer(2, "ann").await, (500, "order 2 is not placed\n".to_owned()));
    let log = service.logged("an order is not placed").await;
    assert!(log.contains("no such table: orders"), "{log}");
}

/// Orders that nobody relays are not taken.
#[tokio::test]
async fn the_service_ends_with_the_error_of_a_relay_that_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}/orders.db", folder.path().display());
    Service::start(&database, "stdout:").await.stop().await;
    change(&database, "drop table postrider_relay").await;
    let mut service = Service::start(&database, "stdout:").await;
    let log = service.logged("error: ").await;
    assert!(log.contains("postrider migrate"), "{log}");
    assert!(!timeout(PATIENCE, service.process.wait()).await.unwrap().unwrap().success());
}
