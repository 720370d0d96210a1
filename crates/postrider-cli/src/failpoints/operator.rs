//! The operator's side of a store, with a point before and after retention.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    DeadFilter, DeadGroup, Explained, Finding, Forgotten, InboxStatus, Message, MessageId, Operator, PastRow, Position,
    Pruned, RefusedFilter, RefusedGroup, RefusedView, Result, Retention, Room, RowView, StoreStatus, Subject,
};

use super::step;

#[derive(Debug)]
pub(super) struct PointedOperator(pub(super) Box<dyn Operator>);

#[async_trait]
impl Operator for PointedOperator {
    async fn status(&mut self, bound: u32) -> Result<StoreStatus> {
        step("count", self.0.status(bound)).await
    }

    async fn topics(&mut self) -> Result<Vec<String>> {
        self.0.topics().await
    }

    async fn explain(&mut self, subject: &Subject, timeout: Duration) -> Result<Vec<Explained>> {
        self.0.explain(subject, timeout).await
    }

    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
        self.0.dead(filter, position).await
    }

    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
        self.0.dead_groups(filter).await
    }

    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        self.0.replay(filter, limit).await
    }

    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        self.0.discard(filter, limit).await
    }

    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned> {
        step("retention", self.0.prune(retention, limit)).await
    }

    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        self.0.past(retention, room).await
    }

    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        step("retention", self.0.remove_past(retention, rows)).await
    }

    async fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        self.0.prunable(retention).await
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<()> {
        self.0.enqueue(messages).await
    }

    async fn check(&mut self) -> Result<Vec<Finding>> {
        self.0.check().await
    }

    async fn forget(&mut self, keep: Duration, limit: u32) -> Result<Forgotten> {
        self.0.forget(keep, limit).await
    }

    async fn inbox(&mut self, bound: u32) -> Result<InboxStatus> {
        self.0.inbox(bound).await
    }

    async fn refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
        self.0.refused(filter, limit).await
    }

    async fn refused_groups(&mut self, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
        self.0.refused_groups(filter).await
    }

    async fn discard_refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
        self.0.discard_refused(filter, limit).await
    }

    async fn check_inbox(&mut self) -> Result<Vec<Finding>> {
        self.0.check_inbox().await
    }
}
