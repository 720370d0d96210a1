//! What is past its retention: shown whole, so that it can be archived, and then removed by its numbers.

use postrider_core::{DeliveredView, PastRow, Pruned, Result, Retention, Room, RowId, past_ids};
use tokio_postgres::types::Type;

use super::decode::{Moment, get, readable};
use super::link::{Link, Parameter};
use super::operator::{age, view};
use super::operator_sql::{PAST_DEAD, PAST_DELIVERED, REMOVE_DEAD, REMOVE_DELIVERED};

/// The rows of both kinds, as many as there is room for.
pub(super) async fn rows(link: &mut Link, retention: &Retention, room: Room) -> Result<Vec<PastRow>> {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (most, bytes) = (number(room.rows), number(room.bytes));
    let mut rows = Vec::new();
    if let Some(kept) = retention.delivered.map(age) {
        let sql = link.options().names.fill(PAST_DELIVERED);
        let parameters: [Parameter<'_>; 3] = [(&kept, Type::INT8), (&most, Type::INT8), (&bytes, Type::INT8)];
        let found = link.query("reading old history", &sql, &parameters).await?;
        rows.extend(found.iter().map(delivered).collect::<Result<Vec<_>>>()?);
    }
    if let Some(kept) = retention.dead.map(age) {
        let sql = link.options().names.fill(PAST_DEAD);
        let parameters: [Parameter<'_>; 3] = [(&kept, Type::INT8), (&most, Type::INT8), (&bytes, Type::INT8)];
        let found = link.query("reading old dead letters", &sql, &parameters).await?;
        let dead = found.iter().map(|row| Ok(PastRow::Dead(Box::new(view(row)?))));
        rows.extend(dead.collect::<Result<Vec<_>>>()?);
    }
    Ok(rows)
}

/// Removes those of these rows that are still past their retention.
pub(super) async fn remove(link: &mut Link, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
    let (delivered, dead) = past_ids(rows);
    let numbers = |rows: Vec<RowId>| rows.into_iter().map(|row| row.0).collect::<Vec<i64>>();
    let (delivered, dead) = (numbers(delivered), numbers(dead));
    let mut pruned = Pruned::default();
    if let Some(kept) = retention.delivered.map(age).filter(|_| !delivered.is_empty()) {
        let sql = link.options().names.fill(REMOVE_DELIVERED);
        let parameters: [Parameter<'_>; 2] = [(&delivered, Type::INT8_ARRAY), (&kept, Type::INT8)];
        pruned.delivered = link.execute("removing archived history", &sql, &parameters).await?;
    }
    if let Some(kept) = retention.dead.map(age).filter(|_| !dead.is_empty()) {
        let sql = link.options().names.fill(REMOVE_DEAD);
        let parameters: [Parameter<'_>; 2] = [(&dead, Type::INT8_ARRAY), (&kept, Type::INT8)];
        let row = link.query_one("removing archived dead letters", &sql, &parameters).await?;
        pruned.dead = u64::try_from(get::<i64>(&row, "number")?).unwrap_or(0);
    }
    Ok(pruned)
}

fn delivered(row: &tokio_postgres::Row) -> Result<PastRow> {
    Ok(PastRow::Delivered(Box::new(DeliveredView {
        row: RowId(get(row, "id")?),
        message: readable(row),
        attempts: u32::try_from(get::<i32>(row, "attempts")?).unwrap_or(0),
        settled_at: get::<Moment>(row, "settled_at")?.into(),
    })))
}
