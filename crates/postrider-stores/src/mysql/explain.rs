//! Where a message is and why: rows for people.

use std::time::Duration;

use bytes::Bytes;
use mysql_async::{Params, params};
use postrider_core::{
    Attributes, DeadReason, Explained, Headers, Held, Key, LaneCount, MemberStatus, Message, MessageId, Result,
    RetryOverride, RowId, RowState, RowView, Standing, Subject, Timestamp,
};
use uuid::Uuid;

use super::columns::Columns;
use super::decode::{lane, names, small};
use super::found::indexed;
use super::link::Link;
use super::operator_sql::{EXPLAIN, EXPLAIN_DELIVERED, IN_FRONT, IN_FRONT_OF_ALL};

const MOST: usize = 100;

/// The row as people look at it: what cannot be read is empty.
pub(super) fn view(row: &mut Columns) -> RowView {
    let payload = row.take_bytes(6).map_or_else(Bytes::new, Bytes::from);
    let moment = |place| row.integer(place).map(Timestamp);
    let mut message = Message::new(row.text(4).unwrap_or_default(), payload);
    message.id = message_id(row, 3);
    message.key = row.text(5).map(Key::unchecked);
    message.content_type = row.text(7).map(str::to_owned);
    message.headers = row.text(8).and_then(|text| Headers::from_json(text).ok()).unwrap_or_default();
    message.attributes = row.text(9).and_then(|text| Attributes::from_json(text).ok()).unwrap_or_default();
    message.created_at = moment(10);
    message.deliver_at = moment(11);
    message.expires_at = moment(12);
    message.retry = row.text(13).and_then(|text| RetryOverride::from_json(text).ok());
    RowView {
        row: RowId(row.integer(0).unwrap_or(0)),
        lane: lane(row, 1),
        state: small(row, 2).and_then(RowState::from_code),
        message,
        attempts: row.integer(14).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        last_attempt_at: moment(15),
        next_attempt_at: moment(16),
        waiting_for: row.text(17).and_then(names).map(|names| names.iter().map(ToString::to_string).collect()),
        errors: row.text(18).map(str::to_owned),
        dead_at: moment(19),
        dead_reason: small(row, 20).and_then(DeadReason::from_code),
    }
}

pub(super) fn message_id(row: &Columns, place: usize) -> MessageId {
    MessageId(row.text(place).and_then(|text| Uuid::parse_str(text).ok()).unwrap_or_default())
}

/// Where a message or the messages of a key are.
pub(super) async fn explain(
    link: &mut Link,
    lanes: LaneCount,
    subject: &Subject,
    timeout: Duration,
) -> Result<Vec<Explained>> {
    let (id, key) = match subject {
        Subject::Id(id) => (Some(id.to_string()), None),
        Subject::Key(key) => (None, Some(key.as_str())),
    };
    let (dialect, all) = (link.dialect().await?, link.options().names.clone());
    let sql = dialect.limited(&all.fill(EXPLAIN), timeout);
    let params: Params = params! { "id" => id.clone(), "key" => key };
    let rows = link.query("looking through the outbox", &sql, params).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let mut row = Columns::new(row);
        let (now, owner) = (Timestamp(row.integer(21).unwrap_or(0)), owner(&row));
        let view = view(&mut row);
        let held = in_front(link, lanes, &view).await?;
        found.push(Explained { standing: Standing::Outbox(Box::new(view)), held, owner, now });
    }
    let sql = dialect.limited(&all.fill(EXPLAIN_DELIVERED), timeout);
    let left = MOST.saturating_sub(found.len());
    let params: Params = params! { "id" => id, "key" => key, "limit" => left };
    let rows = link.query("looking through the history", &sql, params).await?;
    found.extend(rows.into_iter().map(|row| delivered(&Columns::new(row))));
    Ok(found)
}

fn owner(row: &Columns) -> Option<MemberStatus> {
    let id = Uuid::parse_str(row.text(23)?).ok()?;
    let left = row.integer(25).and_then(|micros| u64::try_from(micros).ok()).unwrap_or(0);
    let name = row.text(24).unwrap_or_default().to_owned();
    Some(MemberStatus { id, name, lease_left: Duration::from_micros(left) })
}

/// What a row that is to be delivered stands behind.
async fn in_front(link: &mut Link, lanes: LaneCount, view: &RowView) -> Result<Option<Held>> {
    if !matches!(view.state, Some(RowState::Pending | RowState::SetAside)) {
        return Ok(None);
    }
    let (doing, all) = ("looking at what stands before a message", link.options().names.clone());
    let rows = match &view.message.key {
        _ if lanes == LaneCount::ONE => link.query(doing, &all.fill(IN_FRONT_OF_ALL), (view.row.0,)).await?,
        Some(key) => {
            let params = (view.lane.0, indexed(key.as_str()).to_vec(), view.row.0);
            link.query(doing, &all.fill(IN_FRONT), params).await?
        }
        None => return Ok(None),
    };
    Ok(rows.into_iter().next().map(Columns::new).map(|row| Held {
        behind: RowId(row.integer(0).unwrap_or(0)),
        id: message_id(&row, 1),
        state: small(&row, 2).and_then(RowState::from_code).unwrap_or(RowState::Pending),
    }))
}

fn delivered(row: &Columns) -> Explained {
    let standing = Standing::Delivered {
        row: RowId(row.integer(0).unwrap_or(0)),
        id: message_id(row, 1),
        key: row.text(2).map(Key::unchecked),
        topic: row.text(3).unwrap_or_default().to_owned(),
        settled_at: Timestamp(row.integer(4).unwrap_or(0)),
    };
    Explained { standing, held: None, owner: None, now: Timestamp(row.integer(5).unwrap_or(0)) }
}
