//! Carts as a shop meets them: the real program on a real NATS, with documents in an emulator of S3.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::{self, stream};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::moto::Moto;
use postrider_testkit::servers::nats::NatsServer;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

/// Where the programs of one test work.
struct Shop {
    folder: tempfile::TempDir,
    nats: NatsServer,
    documents: String,
    context: jetstream::Context,
    /// Holds the objects.
    _moto: Moto,
}

/// A message as it lies in the outbox: its id, key, payload and headers.
type Waiting = (String, String, Vec<u8>, String);

impl Shop {
    async fn open() -> Option<Self> {
        let nats = installed("carts over NATS", NatsServer::start().await)?;
        let moto = installed("carts in S3", Moto::start().await)?;
        moto.make_bucket("carts").await.unwrap();
        let context = jetstream::new(async_nats::connect(nats.url()).await.unwrap());
        let config = stream::Config { name: "carts".into(), subjects: vec!["carts.>".into()], ..Default::default() };
        context.create_stream(config).await.unwrap();
        let documents = format!("s3://carts?region=us-east-1&endpoint={}", moto.endpoint());
        Some(Self { folder: tempfile::tempdir().unwrap(), nats, documents, context, _moto: moto })
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cart"));
        program
            .args(words)
            .env("DOCUMENTS_URL", &self.documents)
            .env("DATABASE_URL", format!("sqlite://{}/outbox.db", self.folder.path().display()))
            .env("BROKER_URL", self.nats.url())
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .kill_on_drop(true);
        program
    }

    async fn run(&self, words: &[&str]) -> Output {
        timeout(PATIENCE, self.program(words).output()).await.unwrap().unwrap()
    }

    async fn says(&self, words: &[&str]) -> String {
        let output = self.run(words).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Waits until the program says so.
    async fn comes_to(&self, words: &[&str], expected: &str) {
        let start = Instant::now();
        loop {
            let said = self.says(words).await;
            if said == expected {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{words:?} says {said:?} and not {expected:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn serve(&self) -> Child {
        let mut process = self.program(&["serve"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(timeout(PATIENCE, said.next_line()).await.unwrap().unwrap().unwrap(), "reading carts.add");
        process
    }

    /// Sends what lies in the outbox twice, as a relay does whose first answer was lost.
    async fn relay_twice(&self) {
        for (id, key, payload, headers) in waiting(self.folder.path()).await {
            let own: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&headers).unwrap();
            for _ in 0..2 {
                let mut headers = HeaderMap::new();
                headers.insert("postrider-id", id.as_str());
                headers.insert("postrider-topic", "carts.add");
                headers.insert("postrider-key", key.as_str());
                for (name, value) in &own {
                    headers.insert(name.as_str(), value.as_str().unwrap());
                }
                let sent = self.context.publish_with_headers("carts.add", headers, payload.clone().into());
                sent.await.unwrap().await.unwrap();
            }
        }
    }
}

async fn waiting(folder: &Path) -> Vec<Waiting> {
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}/outbox.db", folder.display())).await.unwrap();
    let waiting = "select message_id, key, cast(payload as blob) as payload, headers from postrider_outbox order by id";
    sqlx::query_as(waiting).fetch_all(&pool).await.unwrap()
}

#[tokio::test]
async fn an_item_is_in_its_cart_once_and_no_token_is_left_when_all_is_over() {
    let Some(shop) = Shop::open().await else { return };
    for (cart, item) in [("ann", "book"), ("ann", "lamp"), ("bob", "pen")] {
        shop.says(&["add", cart, item]).await;
    }
    assert_eq!(shop.says(&["outstanding"]).await, "3");
    shop.relay_twice().await;
    let mut server = shop.serve().await;
    shop.comes_to(&["show", "ann"], "book, lamp").await;
    server.kill().await.unwrap();

    let _server = shop.serve().await;
    shop.comes_to(&["show", "bob"], "pen").await;
    shop.comes_to(&["outstanding"], "0").await;
    // The whole topic once more: each of its messages is a repeat, and nothing remembers them.
    shop.relay_twice().await;
    shop.says(&["add", "ann", "cup"]).await;
    shop.relay_twice().await;
    shop.comes_to(&["show", "ann"], "book, lamp, cup").await;
    assert_eq!(shop.says(&["show", "bob"]).await, "pen");
}

#[tokio::test]
async fn words_that_mean_nothing_are_answered_with_those_that_do() {
    let Some(shop) = Shop::open().await else { return };
    let output = shop.run(&["ad", "ann", "book"]).await;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("add CART ITEM"));
}
