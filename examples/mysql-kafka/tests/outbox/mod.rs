//! A private MariaDB with an outbox, and what a relay delivers from it.

use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::MemoryBroker;
use postrider::stores::{self, MigrateOptions, StoreOptions};
use postrider::{CancellationToken, DestinationName, DestinationTemplate, Relay};
use postrider_testkit::servers::mariadb::{Mariadb, shared};
use postrider_testkit::servers::process::ServerError;

/// A message as the broker got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub id: String,
    pub topic: String,
    pub key: Option<String>,
    pub payload: Vec<u8>,
    pub content_type: Option<String>,
    pub headers: Vec<(String, String)>,
}

/// A database of its own.
pub struct Database {
    pub server: &'static Mariadb,
    pub name: String,
    pub url: String,
}

impl Database {
    /// An empty database with the tables of the outbox.
    pub async fn migrated() -> Result<Self, ServerError> {
        let server = shared().await?;
        let name = server.create_database().await?;
        let url = server.url_for(&name);
        stores::migrate(&url, &MigrateOptions::default()).await.unwrap();
        Ok(Self { server, name, url })
    }

    /// Runs SQL as administrator.
    pub async fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.name, sql).await.unwrap()
    }

    /// A number that a statement counts.
    pub async fn count(&self, sql: &str) -> usize {
        self.sql(sql).await.parse().unwrap()
    }

    /// Runs a relay until the outbox is empty and tells what the broker got, in its order.
    pub async fn relayed(&self) -> Vec<Got> {
        let broker = Arc::new(MemoryBroker::recording());
        let store = stores::open(&self.url, &StoreOptions::default()).await.unwrap();
        let relay = Relay::builder(store)
            .destination(DestinationName::new("memory"), Arc::clone(&broker) as _, DestinationTemplate::topic())
            .until_empty()
            .build()
            .unwrap();
        tokio::time::timeout(Duration::from_secs(60), relay.run(CancellationToken::new())).await.unwrap().unwrap();
        let got = broker.messages().into_iter().map(|outgoing| {
            let message = &outgoing.message;
            Got {
                id: message.id.to_string(),
                topic: message.topic.to_string(),
                key: message.key.as_ref().map(ToString::to_string),
                payload: message.payload.to_vec(),
                content_type: message.content_type.clone(),
                headers: message.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            }
        });
        got.collect()
    }
}

/// Waits until a condition comes true.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), waiting).await.is_ok(), "waited in vain: {what}");
}
