//! From a committed row to the broker, through the public API of this crate only.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

mod embedded;
mod other_languages;

use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::memory::MemoryBroker;
use postrider::stores::{self, MigrateOptions, StoreOptions};
use postrider::{CancellationToken, DestinationName, DestinationTemplate, Relay};

/// A message as the broker got it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Got {
    id: String,
    key: Option<String>,
    payload: String,
    content_type: Option<String>,
    correlation_id: Option<String>,
}

/// Creates the tables of the store that the URL names.
async fn migrated(url: &str) {
    stores::migrate(url, &MigrateOptions::default()).await.unwrap();
}

/// Runs a relay until the outbox is empty and tells what the broker got, in its order.
async fn relayed(url: &str) -> Vec<Got> {
    let broker = Arc::new(MemoryBroker::recording());
    let store = stores::open(url, &StoreOptions::default()).await.unwrap();
    let relay = Relay::builder(store)
        .destination(DestinationName::new("memory"), Arc::clone(&broker) as _, DestinationTemplate::topic())
        .until_empty()
        .build()
        .unwrap();
    tokio::time::timeout(Duration::from_secs(30), relay.run(CancellationToken::new())).await.unwrap().unwrap();
    let got = broker.messages().into_iter().map(|outgoing| {
        let message = &outgoing.message;
        Got {
            id: message.id.to_string(),
            key: message.key.as_ref().map(ToString::to_string),
            payload: String::from_utf8(message.payload.to_vec()).unwrap(),
            content_type: message.content_type.clone(),
            correlation_id: message.headers.get("correlation-id").map(str::to_owned),
        }
    });
    got.collect()
}
