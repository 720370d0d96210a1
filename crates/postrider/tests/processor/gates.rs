//! A store and a broker that wait before every call until they are polled once more: what a test polls next goes on next.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use postrider::brokers::memory::MemoryBroker;
use postrider_core::{
    Broker, BrokerProfile, Collection, Destination, DocumentKey, DocumentProfile, DocumentStore, Draft, Finding,
    Outgoing, Published, Result, Stored, Timestamp, Version, WriteError,
};

/// Ready when it is polled for the second time.
async fn gate() {
    let mut is_open = false;
    poll_fn(|_| if std::mem::replace(&mut is_open, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[derive(Debug)]
pub struct GatedStore(pub Arc<dyn DocumentStore>);

#[async_trait]
impl DocumentStore for GatedStore {
    fn profile(&self) -> DocumentProfile {
        self.0.profile()
    }

    async fn load(&self, key: &DocumentKey) -> Result<Option<Stored>> {
        gate().await;
        self.0.load(key).await
    }

    async fn create(&self, key: &DocumentKey, draft: &Draft) -> std::result::Result<Version, WriteError> {
        gate().await;
        self.0.create(key, draft).await
    }

    async fn replace(
        &self,
        key: &DocumentKey,
        over: &Version,
        draft: &Draft,
    ) -> std::result::Result<Version, WriteError> {
        gate().await;
        self.0.replace(key, over, draft).await
    }

    async fn delete(&self, key: &DocumentKey, over: &Version) -> std::result::Result<(), WriteError> {
        gate().await;
        self.0.delete(key, over).await
    }

    async fn due(
        &self,
        collection: &Collection,
        by: Timestamp,
        after: Option<&DocumentKey>,
        at_most: usize,
    ) -> Result<Vec<DocumentKey>> {
        gate().await;
        self.0.due(collection, by, after, at_most).await
    }

    async fn prepare(&self) -> Result<()> {
        self.0.prepare().await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.0.check().await
    }
}

#[derive(Debug)]
pub struct GatedBroker(pub Arc<MemoryBroker>);

#[async_trait]
impl Broker for GatedBroker {
    fn profile(&self) -> BrokerProfile {
        self.0.profile()
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        gate().await;
        self.0.publish(batch).await
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        self.0.check(destinations).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
