//! What people and the housekeeping need.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    DeadFilter, DeadGroup, Error, ErrorKind, Explained, Finding, Forgotten, InboxStatus, LaneCount, Message, MessageId,
    Operator, PastRow, Position, Pruned, RefusedFilter, RefusedGroup, RefusedView, Result, Retention, Room, RowView,
    StoreStatus, Subject,
};
use rusqlite::params;

use super::dead::{self, Verdict};
use super::enqueue::{Fields, enqueue};
use super::link::{Link, Use};
use super::{SqliteOptions, check, keeper, past, status};

/// The operator's side.
#[derive(Debug)]
pub(super) struct SqliteOperator {
    link: Link,
    lanes: LaneCount,
}

impl SqliteOperator {
    pub(super) fn new(options: Arc<SqliteOptions>, lanes: LaneCount) -> Self {
        Self { link: Link::new(options, Use::Writing), lanes }
    }
}

#[async_trait]
impl Operator for SqliteOperator {
    async fn status(&mut self, bound: u32) -> Result<StoreStatus> {
        self.link.run(move |session| status::status(session, bound)).await
    }

    async fn topics(&mut self) -> Result<Vec<String>> {
        self.link.run(status::topics).await
    }

    async fn explain(&mut self, subject: &Subject, timeout: Duration) -> Result<Vec<Explained>> {
        let (subject, lanes) = (subject.clone(), self.lanes);
        self.link.run_within(timeout, move |session| status::explain(session, lanes, &subject)).await
    }

    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
        let (filter, lanes) = (filter.clone(), self.lanes);
        self.link.run(move |session| dead::list(session, lanes, &filter, position)).await
    }

    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
        let filter = filter.clone();
        self.link.run(move |session| dead::groups(session, &filter)).await
    }

    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let filter = filter.clone();
        self.link.run(move |session| dead::decide(session, &filter, limit, Verdict::Replay)).await
    }

    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let filter = filter.clone();
        self.link.run(move |session| dead::decide(session, &filter, limit, Verdict::Discard)).await
    }

    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned> {
        let retention = *retention;
        self.link.run(move |session| dead::prune(session, &retention, limit)).await
    }

    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        let (retention, lanes) = (*retention, self.lanes);
        self.link.run(move |session| past::rows(session, lanes, &retention, room)).await
    }

    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        let (retention, rows) = (*retention, rows.to_vec());
        self.link.run(move |session| past::remove(session, &retention, &rows)).await
    }

    async fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        let retention = *retention;
        self.link.run(move |session| dead::prunable(session, &retention)).await
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<()> {
        for message in messages {
            message.validate().map_err(|invalid| {
                Error::new(ErrorKind::Rejected, format!("message {} was not enqueued", message.id)).because(invalid)
            })?;
        }
        let messages = messages.to_vec();
        let written = self.link.run(move |session| {
            let insert = enqueue(&session.options.prefix.sql(r#""{p}outbox""#), 1);
            session.writing("enqueueing", |statements| {
                for message in &messages {
                    let f = Fields::of(message);
                    statements.execute(
                        &insert,
                        params![
                            f.message_id,
                            f.topic,
                            f.key,
                            f.payload,
                            f.content_type,
                            f.headers,
                            f.attributes,
                            f.deliver_at,
                            f.expires_at,
                            f.retry
                        ],
                    )?;
                }
                Ok(())
            })
        });
        written.await
    }

    async fn check(&mut self) -> Result<Vec<Finding>> {
        self.link.run(check::check).await
    }

    async fn forget(&mut self, keep: Duration, limit: u32) -> Result<Forgotten> {
        self.link.run(move |session| keeper::forget(session, keep, limit)).await
    }

    async fn inbox(&mut self, bound: u32) -> Result<InboxStatus> {
        self.link.run(move |session| keeper::status(session, bound)).await
    }

    async fn refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
        let filter = filter.clone();
        self.link.run(move |session| keeper::refused(session, &filter, limit)).await
    }

    async fn refused_groups(&mut self, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
        let filter = filter.clone();
        self.link.run(move |session| keeper::groups(session, &filter)).await
    }

    async fn discard_refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
        let filter = filter.clone();
        self.link.run(move |session| keeper::discard(session, &filter, limit)).await
    }
}
