//! What people and the housekeeping need.

use std::time::Duration;

use async_trait::async_trait;
use mysql_async::{Params, Value};
use postrider_core::{
    DeadFilter, DeadGroup, Error, ErrorKind, Explained, Finding, Forgotten, InboxStatus, LaneCount, Message, MessageId,
    Operator, PastRow, Position, Pruned, RefusedFilter, RefusedGroup, RefusedView, Result, Retention, Room, RowView,
    StoreStatus, Subject,
};

use super::dead::{self, Verdict};
use super::enqueue::{Fields, ROWS_PER_STATEMENT, enqueue};
use super::link::Link;
use super::{doctor, explain, keeper, past, status};

/// Bytes of one statement beside its payloads.
const ENVELOPE: usize = 64 << 10;

/// The operator's side.
#[derive(Debug)]
pub(super) struct MysqlOperator {
    link: Link,
    lanes: LaneCount,
}

impl MysqlOperator {
    pub(super) fn new(link: Link, lanes: LaneCount) -> Self {
        Self { link, lanes }
    }
}

/// As many of these messages as one statement takes, at least one, and the others.
fn split(messages: &[Message], packet: usize) -> (&[Message], &[Message]) {
    let (mut bytes, most) = (ENVELOPE, messages.len().min(ROWS_PER_STATEMENT));
    let fits = messages.iter().take(most).take_while(|message| {
        bytes = bytes.saturating_add(message.weight() + 512);
        bytes <= packet
    });
    messages.split_at(fits.count().max(1).min(messages.len()))
}

#[async_trait]
impl Operator for MysqlOperator {
    async fn status(&mut self, bound: u32) -> Result<StoreStatus> {
        status::status(&mut self.link, bound).await
    }

    async fn topics(&mut self) -> Result<Vec<String>> {
        status::topics(&mut self.link).await
    }

    async fn explain(&mut self, subject: &Subject, timeout: Duration) -> Result<Vec<Explained>> {
        explain::explain(&mut self.link, self.lanes, subject, timeout).await
    }

    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
        dead::list(&mut self.link, filter, position).await
    }

    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
        dead::groups(&mut self.link, filter).await
    }

    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        dead::decide(&mut self.link, filter, limit, Verdict::Replay).await
    }

    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        dead::decide(&mut self.link, filter, limit, Verdict::Discard).await
    }

    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned> {
        dead::prune(&mut self.link, retention, limit).await
    }

    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        past::rows(&mut self.link, retention, room).await
    }

    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        past::remove(&mut self.link, retention, rows).await
    }

    async fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        dead::prunable(&mut self.link, retention).await
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<()> {
        for message in messages {
            message.validate().map_err(|invalid| {
                Error::new(ErrorKind::Rejected, format!("message {} was not enqueued", message.id)).because(invalid)
            })?;
        }
        if messages.is_empty() {
            return Ok(());
        }
        let (packet, names) = (self.link.packet().await?, self.link.options().names.clone());
        if let Some(large) = messages.iter().find(|message| message.weight().saturating_add(ENVELOPE) > packet) {
            let what = format!(
                "message {} is larger than the server takes: max_allowed_packet is {packet} bytes there",
                large.id
            );
            return Err(Error::new(ErrorKind::Rejected, what).advise("raise max_allowed_packet of the server"));
        }
        let mut work = self.link.begin("enqueueing").await?;
        let mut rest = messages;
        while !rest.is_empty() {
            let (some, others) = split(rest, packet);
            let values: Vec<Value> = some.iter().map(Fields::of).flat_map(Fields::values).collect();
            work.execute(&enqueue(&names, some.len()), Params::Positional(values)).await?;
            rest = others;
        }
        work.commit().await
    }

    async fn check(&mut self) -> Result<Vec<Finding>> {
        doctor::check(&mut self.link).await
    }

    async fn forget(&mut self, keep: Duration, limit: u32) -> Result<Forgotten> {
        keeper::forget(&mut self.link, keep, limit).await
    }

    async fn inbox(&mut self, bound: u32) -> Result<InboxStatus> {
        keeper::status(&mut self.link, bound).await
    }

    async fn refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<RefusedView>> {
        keeper::refused(&mut self.link, filter, limit).await
    }

    async fn refused_groups(&mut self, filter: &RefusedFilter) -> Result<Vec<RefusedGroup>> {
        keeper::groups(&mut self.link, filter).await
    }

    async fn discard_refused(&mut self, filter: &RefusedFilter, limit: u32) -> Result<Vec<MessageId>> {
        keeper::discard(&mut self.link, filter, limit).await
    }

    async fn check_inbox(&mut self) -> Result<Vec<Finding>> {
        keeper::check(&mut self.link).await
    }
}
