//! A table of its own in an emulator of DynamoDB.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::DocumentStore;
use postrider_documents::dynamodb::{DynamoDocuments, DynamoOptions};
use postrider_testkit::servers::installed;
use postrider_testkit::servers::moto::Moto;
use postrider_testkit::suites::documents::{DocumentHarness, Exclusion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const SECRET: &str = "the-secret-of-the-tests";

/// The documents of a table, whose service is reached there.
pub fn at(endpoint: &str, table: &str) -> Arc<dyn DocumentStore> {
    opened(&format!("dynamodb://{table}?region=us-east-1&timeout=3&endpoint={endpoint}"), ["test", SECRET])
}

/// The documents of a URL, with this name and this secret.
pub fn opened(url: &str, [name, secret]: [&str; 2]) -> Arc<dyn DocumentStore> {
    let variables = [("AWS_ACCESS_KEY_ID", name), ("AWS_SECRET_ACCESS_KEY", secret)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Arc::new(DynamoDocuments::new(DynamoOptions::new(url, variables).unwrap()).unwrap())
}

/// The emulator, where it is installed.
pub async fn moto(what: &str) -> Option<Arc<Moto>> {
    Some(Arc::new(installed(what, Moto::start().await)?))
}

/// What the emulator answers to a request of one of its services.
pub async fn told(moto: &Moto, service: &str, headers: &str, body: &str) -> String {
    let path = if service == "moto" { "/moto-api/reset-auth" } else { "/" };
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n{headers}\
         Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, moto.port())).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.lines().next().unwrap().contains(" 200 "), "{answer}");
    answer
}

/// What the emulator's DynamoDB answers.
pub async fn table_told(moto: &Moto, action: &str, body: &str) -> String {
    let headers = format!("Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.{action}\r\n");
    told(moto, "dynamodb", &headers, body).await
}

pub struct Harness {
    moto: Arc<Moto>,
    table: String,
}

impl Harness {
    pub async fn start(moto: &Arc<Moto>) -> Self {
        // A case may have left it closed.
        moto.come_back().await.unwrap();
        let table = format!("Documents.of_{}", uuid::Uuid::new_v4());
        at(&moto.endpoint(), &table).prepare().await.unwrap();
        Self { moto: Arc::clone(moto), table }
    }
}

#[async_trait]
impl DocumentHarness for Harness {
    async fn client(&self) -> Arc<dyn DocumentStore> {
        at(&self.moto.endpoint(), &self.table)
    }

    async fn unprepared(&self) -> Arc<dyn DocumentStore> {
        at(&self.moto.endpoint(), &format!("{}-empty", self.table))
    }

    async fn stop(&self) {
        self.moto.leave().await.unwrap();
    }

    async fn start(&self) {
        self.moto.come_back().await.unwrap();
    }

    async fn crash(&self) {}

    fn rounds(&self) -> usize {
        10
    }

    fn secret(&self) -> Option<String> {
        Some(SECRET.to_owned())
    }

    fn exclusions(&self) -> &'static [Exclusion] {
        &[Exclusion { case: "what_was_answered_survives_a_crash", reason: "moto keeps everything in memory" }]
    }
}
