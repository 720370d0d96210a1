//! A broker with a point before and after every publish.

use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{
    Broker, BrokerProfile, Destination, DestinationTemplate, Error, Finding, Outgoing, Published, Result, TopicPattern,
};

use super::step;

/// The same broker with points.
pub(crate) fn pointed(inner: Arc<dyn Broker>) -> Arc<dyn Broker> {
    Arc::new(PointedBroker(inner))
}

#[derive(Debug)]
struct PointedBroker(Arc<dyn Broker>);

#[async_trait]
impl Broker for PointedBroker {
    fn profile(&self) -> BrokerProfile {
        self.0.profile()
    }

    async fn publish(&self, batch: &[Outgoing]) -> Vec<Published> {
        let failed = |error: Error| {
            let each = |_: &Outgoing| Published::Failed(Error::new(error.kind(), error.story()));
            batch.iter().map(each).collect()
        };
        step("publish", async { Ok(self.0.publish(batch).await) }).await.unwrap_or_else(failed)
    }

    async fn check(&self, destinations: &[Destination]) -> Result<Vec<Finding>> {
        step("check", self.0.check(destinations)).await
    }

    async fn check_route(&self, topics: &TopicPattern, destination: &DestinationTemplate) -> Result<Vec<Finding>> {
        self.0.check_route(topics, destination).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
