//! What people and the housekeeping need.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    DeadFilter, DeadGroup, DeadReason, Error, ErrorKind, Explained, Finding, Forgotten, Held, InboxStatus, Key, Lane,
    LaneCount, MemberStatus, Message, MessageId, Operator, PastRow, Position, Pruned, RefusedFilter, RefusedGroup,
    RefusedView, Result, Retention, Room, RowId, RowState, RowView, Standing, StoreStatus, Subject, Timestamp,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::decode::{Moment, get, readable};
use super::doctor;
use super::enqueue::{Columns, ENQUEUE};
use super::keeper;
use super::link::{Link, Parameter, Purpose};
use super::operator_sql::{
    DEAD, DEAD_GROUPS, DISCARD, EXPLAIN, EXPLAIN_DELIVERED, PRUNABLE, PRUNE_DEAD, PRUNE_DELIVERED, REPLAY,
};
use super::past;
use super::status;
use crate::failures::micros;

const EXPLAINED: usize = 100;

/// The operator's side.
#[derive(Debug)]
pub(super) struct PostgresOperator {
    link: Link,
    lanes: LaneCount,
}

impl PostgresOperator {
    pub(super) const PURPOSE: Purpose = Purpose::Cold;

    pub(super) fn new(link: Link, lanes: LaneCount) -> Self {
        Self { link, lanes }
    }

    fn fill(&self, sql: &str) -> String {
        self.link.options().names.fill(sql)
    }

    async fn query(
        &mut self,
        doing: &str,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let sql = self.fill(sql);
        self.link.query(doing, &sql, parameters).await
    }
}

/// A filter as the statements take it.
struct Filter<'f> {
    ids: Option<Vec<Uuid>>,
    topic: Option<&'f str>,
    key: Option<&'f str>,
    reason: Option<i16>,
    age: Option<i64>,
    state: Option<i16>,
}

impl<'f> Filter<'f> {
    fn of(filter: &'f DeadFilter) -> Self {
        Self {
            ids: (!filter.ids.is_empty()).then(|| filter.ids.iter().map(|id| id.0).collect()),
            topic: filter.topic.as_deref(),
            key: filter.key.as_ref().map(Key::as_str),
            reason: filter.reason.map(DeadReason::code),
            age: filter.older_than.map(age),
            state: filter.state.map(RowState::code),
        }
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        vec![
            (&self.ids, Type::UUID_ARRAY),
            (&self.topic, Type::TEXT),
            (&self.key, Type::TEXT),
            (&self.reason, Type::INT2),
            (&self.age, Type::INT8),
            (&self.state, Type::INT2),
        ]
    }
}

/// An age in microseconds that the database can subtract: at most a thousand years.
pub(super) fn age(duration: Duration) -> i64 {
    micros(duration).min(31_557_600_000_000_000)
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(super) fn view(row: &tokio_postgres::Row) -> Result<RowView> {
    let (lane, state, attempts): (i16, i16, i32) = (get(row, "lane")?, get(row, "state")?, get(row, "attempts")?);
    let moment = |column: &str| Ok(get::<Option<Moment>>(row, column)?.map(Timestamp::from));
    let waiting_for = row.try_get::<_, Option<Vec<Option<String>>>>("waiting_for").ok().flatten();
    Ok(RowView {
        row: RowId(get(row, "id")?),
        lane: Lane(u16::try_from(lane).unwrap_or(0)),
        state: RowState::from_code(state),
        message: readable(row),
        attempts: u32::try_from(attempts).unwrap_or(0),
        last_attempt_at: moment("last_attempt_at")?,
        next_attempt_at: moment("next_attempt_at")?,
        waiting_for: waiting_for.map(|names| names.into_iter().flatten().collect()),
        errors: get(row, "errors")?,
        dead_at: moment("dead_at")?,
        dead_reason: get::<Option<i16>>(row, "dead_reason")?.and_then(DeadReason::from_code),
    })
}

fn explained(row: &tokio_postgres::Row) -> Result<Explained> {
    let behind: Option<i64> = get(row, "behind")?;
    let behind_id: Option<Uuid> = get(row, "behind_id")?;
    let state = get::<Option<i16>>(row, "behind_state")?.and_then(RowState::from_code).unwrap_or(RowState::Pending);
    let owner: Option<Uuid> = get(row, "owner")?;
    let (name, left): (Option<String>, Option<i64>) = (get(row, "owner_name")?, get(row, "lease_left")?);
    Ok(Explained {
        standing: Standing::Outbox(Box::new(view(row)?)),
        held: behind.zip(behind_id).map(|(behind, id)| Held { behind: RowId(behind), id: MessageId(id), state }),
        owner: owner.map(|id| MemberStatus {
            id,
            name: name.unwrap_or_default(),
            lease_left: duration(left.unwrap_or(0)),
        }),
        now: get::<Moment>(row, "now")?.into(),
    })
}

fn delivered(row: &tokio_postgres::Row) -> Result<Explained> {
    Ok(Explained {
        standing: Standing::Delivered {
            row: RowId(get(row, "id")?),
            id: MessageId(get(row, "message_id")?),
            key: get::<Option<String>>(row, "key")?.map(Key::unchecked),
            topic: get(row, "topic")?,
            settled_at: get::<Moment>(row, "settled_at")?.into(),
        },
        held: None,
        owner: None,
        now: get::<Moment>(row, "now")?.into(),
    })
}

fn ids(rows: &[tokio_postgres::Row]) -> Result<Vec<MessageId>> {
    rows.iter().map(|row| get(row, "message_id").map(MessageId)).collect()
}

#[async_trait]
impl Operator for PostgresOperator {
    async fn status(&mut self, bound: u32) -> Result<StoreStatus> {
        status::status(&mut self.link, bound).await
    }

    async fn topics(&mut self) -> Result<Vec<String>> {
        status::topics(&mut self.link).await
    }

    async fn explain(&mut self, subject: &Subject, timeout: Duration) -> Result<Vec<Explained>> {
        let (id, key) = match subject {
            Subject::Id(id) => (Some(id.0), None),
            Subject::Key(key) => (None, Some(key.as_str())),
        };
        let (outbox, history) = (self.fill(EXPLAIN), self.fill(EXPLAIN_DELIVERED));
        let one_order = self.lanes == LaneCount::ONE;
        let parameters: [Parameter<'_>; 3] = [(&id, Type::UUID), (&key, Type::TEXT), (&one_order, Type::BOOL)];
        let rows = self.link.query_limited("looking through the outbox", timeout, &outbox, &parameters).await?;
        let mut found = rows.iter().map(explained).collect::<Result<Vec<_>>>()?;
        let left = i64::try_from(EXPLAINED.saturating_sub(found.len())).unwrap_or(0);
        let parameters: [Parameter<'_>; 3] = [(&id, Type::UUID), (&key, Type::TEXT), (&left, Type::INT8)];
        let rows = self.link.query_limited("looking through the history", timeout, &history, &parameters).await?;
        found.extend(rows.iter().map(delivered).collect::<Result<Vec<_>>>()?);
        Ok(found)
    }

    async fn dead(&mut self, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
        let filter = Filter::of(filter);
        let (after, limit) = (position.after.0, i64::from(position.limit));
        let mut parameters = filter.parameters();
        parameters.extend::<[Parameter<'_>; 2]>([(&after, Type::INT8), (&limit, Type::INT8)]);
        self.query("listing dead letters", DEAD, &parameters).await?.iter().map(view).collect()
    }

    async fn dead_groups(&mut self, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
        let filter = Filter::of(filter);
        let rows = self.query("grouping dead letters", DEAD_GROUPS, &filter.parameters()).await?;
        rows.iter()
            .map(|row| {
                let (count, oldest): (i64, i64) = (get(row, "number")?, get(row, "oldest")?);
                Ok(DeadGroup {
                    topic: get(row, "topic")?,
                    reason: get::<Option<i16>>(row, "dead_reason")?.and_then(DeadReason::from_code),
                    count: u64::try_from(count).unwrap_or(0),
                    oldest: duration(oldest),
                })
            })
            .collect()
    }

    async fn replay(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let (filter, limit) = (Filter::of(filter), i64::from(limit));
        let mut parameters = filter.parameters();
        parameters.push((&limit, Type::INT8));
        ids(&self.query("replaying dead letters", REPLAY, &parameters).await?)
    }

    async fn discard(&mut self, filter: &DeadFilter, limit: u32) -> Result<Vec<MessageId>> {
        let (filter, limit) = (Filter::of(filter), i64::from(limit));
        let mut parameters = filter.parameters();
        parameters.push((&limit, Type::INT8));
        ids(&self.query("discarding dead letters", DISCARD, &parameters).await?)
    }

    async fn prune(&mut self, retention: &Retention, limit: u32) -> Result<Pruned> {
        let limit = i64::from(limit);
        let mut pruned = Pruned::default();
        if let Some(kept) = retention.delivered.map(age) {
            let sql = self.fill(PRUNE_DELIVERED);
            let parameters: [Parameter<'_>; 2] = [(&kept, Type::INT8), (&limit, Type::INT8)];
            pruned.delivered = self.link.execute("removing old history", &sql, &parameters).await?;
        }
        if let Some(kept) = retention.dead.map(age) {
            let sql = self.fill(PRUNE_DEAD);
            let parameters: [Parameter<'_>; 2] = [(&kept, Type::INT8), (&limit, Type::INT8)];
            let row = self.link.query_one("removing old dead letters", &sql, &parameters).await?;
            pruned.dead = u64::try_from(get::<i64>(&row, "number")?).unwrap_or(0);
        }
        Ok(pruned)
    }

    async fn past(&mut self, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
        past::rows(&mut self.link, retention, room).await
    }

    async fn remove_past(&mut self, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
        past::remove(&mut self.link, retention, rows).await
    }

    async fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        let (delivered, dead) = (retention.delivered.map(age), retention.dead.map(age));
        let sql = self.fill(PRUNABLE);
        let parameters: [Parameter<'_>; 2] = [(&delivered, Type::INT8), (&dead, Type::INT8)];
        let row = self.link.query_one("counting what is past its retention", &sql, &parameters).await?;
        let number = |column: &str| Ok(u64::try_from(get::<i64>(&row, column)?).unwrap_or(0));
        Ok(Pruned { delivered: number("delivered")?, dead: number("dead")? })
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<()> {
        for message in messages {
            message.validate().map_err(|invalid| {
                Error::new(ErrorKind::Rejected, format!("message {} was not enqueued", message.id)).because(invalid)
            })?;
        }
        let (columns, sql) = (Columns::of(messages), self.fill(ENQUEUE));
        let parameters: [Parameter<'_>; 10] = [
            (&columns.message_ids, Type::UUID_ARRAY),
            (&columns.topics, Type::TEXT_ARRAY),
            (&columns.keys, Type::TEXT_ARRAY),
            (&columns.payloads, Type::BYTEA_ARRAY),
            (&columns.content_types, Type::TEXT_ARRAY),
            (&columns.headers, Type::TEXT_ARRAY),
            (&columns.attributes, Type::TEXT_ARRAY),
            (&columns.deliver_at, Type::INT8_ARRAY),
            (&columns.expires_at, Type::INT8_ARRAY),
            (&columns.retries, Type::TEXT_ARRAY),
        ];
        self.link.execute("enqueueing", &sql, &parameters).await?;
        Ok(())
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
