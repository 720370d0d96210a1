//! What is past its retention: shown whole, so that it can be archived, and then removed by its numbers.

use postrider_core::{
    Attributes, DeliveredView, Headers, Key, LaneCount, Message, PastRow, Pruned, Result, Retention, Room, RowId,
    Timestamp, past_ids,
};
use rusqlite::params;

use super::dead::discard;
use super::link::{Done, Session, Statements};
use super::row::{columns, decode};
use super::settler::BREATH;
use super::status::{message_id, text};
use crate::failures::micros;
use crate::page::Filling;

const DEAD: &str =
    columns!(r#"indexed by "{p}outbox_dead_at" where state in (1, 3) and dead_at <= ?1 order by dead_at limit ?2"#);
const DELIVERED: &str = r#"select id, message_id, topic, key, payload, content_type, headers, attributes, created_at, attempts,
  settled_at from "{p}delivered" where settled_at <= ?1 order by settled_at limit ?2"#;
const IS_DEAD: &str = r#"select 1 from "{p}outbox" where id = ?1 and state in (1, 3) and dead_at <= ?2"#;
const REMOVE_DELIVERED: &str = r#"delete from "{p}delivered" where id = ?1 and settled_at <= ?2"#;

/// Rows removed by one transaction.
const MANY: usize = 100;

/// The rows of both kinds, oldest first, as many as there is room for.
pub(super) fn rows(
    session: &mut Session<'_>,
    lanes: LaneCount,
    retention: &Retention,
    room: Room,
) -> Result<Vec<PastRow>> {
    session.reading("reading what is past its retention", |statements| {
        let now = statements.now()?;
        let limit = i64::try_from(room.rows).unwrap_or(i64::MAX);
        let mut rows = Vec::new();
        if let Some(age) = retention.delivered {
            let mut page = Filling::new(room);
            statements.each(DELIVERED, params![before(now, age), limit], |row| {
                Ok(take(PastRow::Delivered(Box::new(delivered(row)?)), &mut page, &mut rows))
            })?;
        }
        if let Some(age) = retention.dead {
            let mut page = Filling::new(room);
            statements.each(DEAD, params![before(now, age), limit], |row| {
                Ok(take(PastRow::Dead(Box::new(decode(row)?.into_view(lanes))), &mut page, &mut rows))
            })?;
        }
        Ok(rows)
    })
}

/// Removes those of these rows that are still past their retention, in short transactions.
pub(super) fn remove(session: &mut Session<'_>, retention: &Retention, rows: &[PastRow]) -> Result<Pruned> {
    let (delivered, dead) = past_ids(rows);
    Ok(Pruned {
        delivered: match retention.delivered {
            Some(age) => each(session, &delivered, |statements, now, row| {
                statements.execute(REMOVE_DELIVERED, params![row.0, before(now, age)])
            })?,
            None => 0,
        },
        dead: match retention.dead {
            Some(age) => each(session, &dead, |statements, now, row| {
                match statements.first(IS_DEAD, params![row.0, before(now, age)], |_| Ok(()))? {
                    Some(()) => discard(statements, row.0, now),
                    None => Ok(0),
                }
            })?,
            None => 0,
        },
    })
}

fn each(
    session: &mut Session<'_>,
    rows: &[RowId],
    remove: impl Fn(&Statements<'_>, Timestamp, RowId) -> Done<usize>,
) -> Result<u64> {
    let mut removed = 0;
    for (place, some) in rows.chunks(MANY).enumerate() {
        if place > 0 {
            std::thread::sleep(BREATH);
        }
        removed += session.writing("removing what was archived", |statements| {
            let now = statements.now()?;
            some.iter().try_fold(0, |removed, row| Ok(removed + remove(statements, now, *row)?))
        })?;
    }
    Ok(u64::try_from(removed).unwrap_or(0))
}

fn before(now: Timestamp, age: std::time::Duration) -> i64 {
    now.0.saturating_sub(micros(age))
}

fn delivered(row: &rusqlite::Row<'_>) -> Done<DeliveredView> {
    let payload = row.get_ref(4)?.as_bytes_or_null().ok().flatten().map(<[u8]>::to_vec).unwrap_or_default();
    let mut message = Message::new(text(row, 2)?.unwrap_or_default(), payload);
    message.id = message_id(row, 1)?;
    message.key = text(row, 3)?.map(Key::unchecked);
    message.content_type = text(row, 5)?;
    message.headers = text(row, 6)?.and_then(|text| Headers::from_json(&text).ok()).unwrap_or_default();
    message.attributes = text(row, 7)?.and_then(|text| Attributes::from_json(&text).ok()).unwrap_or_default();
    let number = |place| row.get_ref(place).map(|value| value.as_i64().ok());
    message.created_at = number(8)?.map(Timestamp);
    Ok(DeliveredView {
        row: RowId(row.get(0)?),
        message,
        attempts: number(9)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        settled_at: Timestamp(number(10)?.unwrap_or(0)),
    })
}

/// Takes a row if there is room for it; whether it was taken.
fn take(row: PastRow, page: &mut Filling, rows: &mut Vec<PastRow>) -> bool {
    let fits = page.admit(row.weight());
    if fits {
        rows.push(row);
    }
    fits
}
