//! The payment service as an operator meets it: the real program on a real NATS, ended by SIGKILL between messages.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::{self, stream};
use futures_util::StreamExt;
use postrider::MessageId;
use postrider_testkit::servers::installed;
use postrider_testkit::servers::nats::NatsServer;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// The service, running; killed when it is dropped.
struct Payments {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Payments {
    fn start(folder: &Path, nats: &NatsServer) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_payments"))
            .env("DATABASE_URL", format!("sqlite://{}/payments.db", folder.display()))
            .env("BROKER_URL", nats.url())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    async fn says(&mut self) -> String {
        timeout(PATIENCE, self.said.next_line()).await.unwrap().unwrap().unwrap()
    }

    /// Its next two lines, in the order of their letters: orders that have no key in common are handled at once.
    async fn says_both(&mut self) -> [String; 2] {
        let mut both = [self.says().await, self.says().await];
        both.sort();
        both
    }

    async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}

async fn streams(nats: &NatsServer) -> jetstream::Context {
    let context = jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    for name in ["orders", "dead"] {
        let subjects = vec![format!("{name}.>")];
        context.create_stream(stream::Config { name: name.into(), subjects, ..Default::default() }).await.unwrap();
    }
    context
}

/// What the relay sends for an order; without an id for the broker, which would drop a repeat.
async fn send(context: &jetstream::Context, id: MessageId, payload: &str) {
    let mut headers = HeaderMap::new();
    headers.insert("postrider-id", id.to_string());
    headers.insert("postrider-topic", "orders.placed");
    let sent = context.publish_with_headers("orders.placed", headers, payload.to_owned().into()).await.unwrap();
    sent.await.unwrap();
}

async fn count(folder: &Path, of: &'static str) -> i64 {
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}/payments.db", folder.display())).await.unwrap();
    sqlx::query_scalar(of).fetch_one(&pool).await.unwrap()
}

#[tokio::test]
async fn each_order_is_charged_once_however_often_it_comes_and_whenever_the_service_is_killed() {
    let Some(nats) = installed("payments of orders on NATS", NatsServer::start().await) else { return };
    let context = streams(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let ids: Vec<MessageId> = (0..4).map(|_| MessageId::fresh()).collect();
    let order = |n: usize| format!(r#"{{"id":{n},"item":"book"}}"#);
    for n in [0, 0, 1] {
        send(&context, ids[n], &order(n)).await;
    }
    let mut service = Payments::start(folder.path(), &nats);
    assert_eq!(service.says_both().await, ["order 0 is charged: book", "order 1 is charged: book"]);
    service.kill().await;
    for n in [1, 2, 0, 2, 3] {
        send(&context, ids[n], &order(n)).await;
    }
    let mut service = Payments::start(folder.path(), &nats);
    assert_eq!(service.says_both().await, ["order 2 is charged: book", "order 3 is charged: book"]);
    for table in ["select count(*) from payments", "select count(*) from postrider_outbox"] {
        assert_eq!(count(folder.path(), table).await, 4, "{table}");
    }
}

#[tokio::test]
async fn what_is_no_order_goes_to_the_dead_letters_and_keeps_nobody_waiting() {
    let Some(nats) = installed("payments of what is no order", NatsServer::start().await) else { return };
    let context = streams(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let bad = MessageId::fresh();
    send(&context, bad, "no order").await;
    send(&context, MessageId::fresh(), r#"{"id":7,"item":"lamp"}"#).await;
    let mut service = Payments::start(folder.path(), &nats);
    assert_eq!(service.says().await, "order 7 is charged: lamp");

    let dead = context.get_stream("dead").await.unwrap();
    let reader = dead.create_consumer(jetstream::consumer::pull::Config::default()).await.unwrap();
    let mut letters = reader.messages().await.unwrap();
    let letter = timeout(PATIENCE, letters.next()).await.unwrap().unwrap().unwrap();
    let headers = letter.headers.as_ref().unwrap();
    assert_eq!((letter.subject.as_str(), &letter.payload[..]), ("dead.payments", b"no order".as_slice()));
    assert_eq!(headers.get("postrider-id").unwrap().as_str(), bad.to_string());
    assert_eq!(headers.get("postrider-dead-reason").unwrap().as_str(), "malformed");
    assert_eq!(count(folder.path(), "select count(*) from payments").await, 1);
}

#[tokio::test]
async fn a_broker_without_the_stream_ends_it_with_what_to_do() {
    let Some(nats) = installed("payments without a stream", NatsServer::start().await) else { return };
    let folder = tempfile::tempdir().unwrap();
    let running = Command::new(env!("CARGO_BIN_EXE_payments"))
        .env("DATABASE_URL", format!("sqlite://{}/payments.db", folder.path().display()))
        .env("BROKER_URL", nats.url())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, running).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("orders.placed") && said.contains("stream"), "{said}");
}
