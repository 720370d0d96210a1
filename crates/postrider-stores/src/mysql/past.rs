//! What is past its retention: shown whole, so that it can be archived, and then removed by its numbers.

use bytes::Bytes;
use postrider_core::{
    Attributes, DeliveredView, Headers, Key, Message, PastRow, Pruned, Result, Retention, Room, RowId, Timestamp,
    past_ids,
};

use super::columns::Columns;
use super::dead::{age, remove_past};
use super::explain::{message_id, view};
use super::found::numbers;
use super::link::Link;
use super::operator_sql::{PAST_DEAD_WEIGHED, PAST_DELIVERED_WEIGHED, REMOVE_DELIVERED, VIEW, VIEW_DELIVERED};
use crate::page::Filling;

/// The rows of both kinds, as many as there is room for.
pub(super) async fn rows(link: &mut Link, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
    let mut rows = Vec::new();
    if let Some(kept) = retention.delivered.map(age) {
        let ids = fitting(link, "looking for old history", PAST_DELIVERED_WEIGHED, kept, room).await?;
        let found = whole(link, "reading old history", VIEW_DELIVERED, &ids).await?;
        rows.extend(found.into_iter().map(|mut row| PastRow::Delivered(Box::new(delivered(&mut row)))));
    }
    if let Some(kept) = retention.dead.map(age) {
        let ids = fitting(link, "looking for old dead letters", PAST_DEAD_WEIGHED, kept, room).await?;
        let found = whole(link, "reading old dead letters", VIEW, &ids).await?;
        rows.extend(found.into_iter().map(|mut row| PastRow::Dead(Box::new(view(&mut row)))));
    }
    Ok(rows)
}

/// Removes those of these rows that are still past their retention.
pub(super) async fn remove(link: &mut Link, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
    let (delivered, dead) = past_ids(rows);
    let mut pruned = Pruned::default();
    if let Some(kept) = retention.delivered.map(age).filter(|_| !delivered.is_empty()) {
        let sql = link.options().names.fill(REMOVE_DELIVERED).replace("<age>", &kept.to_string());
        let sql = sql.replace("<ids>", &numbers(delivered.iter().map(|row| row.0)));
        pruned.delivered = link.execute_text("removing archived history", &sql).await?;
    }
    if let Some(kept) = retention.dead.map(age) {
        let dead: Vec<i64> = dead.iter().map(|row| row.0).collect();
        pruned.dead = remove_past(link, &dead, kept).await?;
    }
    Ok(pruned)
}

/// The numbers of the rows that there is room for; the first whatever it weighs.
async fn fitting(link: &mut Link, doing: &str, sql: &str, kept: i64, room: Room) -> Result<Vec<i64>> {
    let (sql, limit) = (link.options().names.fill(sql), u64::try_from(room.rows).unwrap_or(u64::MAX));
    let (mut ids, mut page) = (Vec::new(), Filling::new(room));
    for row in link.query(doing, &sql, (kept, limit)).await? {
        let row = Columns::new(row);
        let weight = row.integer(1).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        if !page.admit(weight) {
            break;
        }
        ids.extend(row.integer(0));
    }
    Ok(ids)
}

async fn whole(link: &mut Link, doing: &str, sql: &str, ids: &[i64]) -> Result<Vec<Columns>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let sql = link.options().names.fill(sql).replace("<ids>", &numbers(ids.iter().copied()));
    Ok(link.text(doing, &sql).await?.into_iter().map(Columns::new).collect())
}

fn delivered(row: &mut Columns) -> DeliveredView {
    let payload = row.take_bytes(4).map_or_else(Bytes::new, Bytes::from);
    let mut message = Message::new(row.text(2).unwrap_or_default(), payload);
    message.id = message_id(row, 1);
    message.key = row.text(3).map(Key::unchecked);
    message.content_type = row.text(5).map(str::to_owned);
    message.headers = row.text(6).and_then(|text| Headers::from_json(text).ok()).unwrap_or_default();
    message.attributes = row.text(7).and_then(|text| Attributes::from_json(text).ok()).unwrap_or_default();
    message.created_at = row.integer(8).map(Timestamp);
    DeliveredView {
        row: RowId(row.integer(0).unwrap_or(0)),
        message,
        attempts: row.integer(9).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        settled_at: Timestamp(row.integer(10).unwrap_or(0)),
    }
}
