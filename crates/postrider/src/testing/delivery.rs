//! What a broker would get.

use std::sync::Arc;
use std::time::Duration;

use postrider_brokers::memory::MemoryBroker;
use postrider_core::{DestinationName, DestinationTemplate, Message, Result, Store};
use postrider_relay::Relay;
use tokio_util::sync::CancellationToken;

/// A broker in memory is never away: whatever pauses it has no better time coming.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs a relay over a store until nothing is left to do, and gives the messages that a broker got, in that order.
///
/// They are gone from the outbox then, as in production. Messages of one key come in their order; how keys lie between each
/// other is not promised. What is not yet due by its `deliver_at`, and what is dead, stays.
///
/// # Errors
/// `Config` when the tables cannot be worked on; the store's.
pub async fn delivered(store: Arc<dyn Store>) -> Result<Vec<Message>> {
    let broker = Arc::new(MemoryBroker::recording());
    let relay = Relay::builder(store)
        .name("test")
        .destination(DestinationName::new("test"), Arc::clone(&broker) as _, DestinationTemplate::topic())
        .patience(PATIENCE)
        .until_empty()
        .build()?;
    relay.run(CancellationToken::new()).await?;
    Ok(broker.messages().into_iter().map(|outgoing| (*outgoing.message).clone()).collect())
}
