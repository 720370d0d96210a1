//! Dead letters and retention.

use std::time::Duration;

use mysql_async::{Params, Value};
use postrider_core::{
    DeadFilter, DeadGroup, DeadReason, Key, Lane, MessageId, Position, Pruned, Result, Retention, RowState, RowView,
};
use uuid::Uuid;

use super::columns::Columns;
use super::decode::{lane, small};
use super::explain::view;
use super::found::numbers;
use super::link::{Link, Work};
use super::operator_sql::{
    DEAD, DEAD_GROUPS, DISCARD, FIRST_ASIDE, FREE, LOCK, LOCK_PAST, PAST_DEAD, PRUNABLE_DEAD, PRUNABLE_DELIVERED,
    PRUNE_DELIVERED, REPLAY, VIEW,
};
use crate::failures::micros;

/// Rows of one transaction.
const MANY: usize = 200;

/// What becomes of dead letters that an operator names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Pending again, due now.
    Replay,
    /// Gone.
    Discard,
}

/// A statement with the ids of a filter in place.
fn meant(link: &Link, sql: &str, filter: &DeadFilter) -> String {
    let ids: Vec<String> = filter.ids.iter().map(|id| format!("'{id}'")).collect();
    let ids = if ids.is_empty() { "1 = 1".to_owned() } else { format!("lower(o.message_id) in ({})", ids.join(", ")) };
    link.options().names.fill(sql).replace("<ids>", &ids)
}

/// The other conditions of a filter, and where a list begins and how long it is.
fn values(filter: &DeadFilter, position: Option<(i64, u32)>) -> Params {
    let mut values: Vec<(String, Value)> = vec![
        ("topic".to_owned(), filter.topic.clone().into()),
        ("key".to_owned(), filter.key.as_ref().map(Key::as_str).into()),
        ("reason".to_owned(), filter.reason.map(DeadReason::code).into()),
        ("state".to_owned(), filter.state.map(RowState::code).into()),
        ("age".to_owned(), filter.older_than.map(age).into()),
    ];
    if let Some((after, limit)) = position {
        values.push(("after".to_owned(), after.into()));
        values.push(("limit".to_owned(), limit.into()));
    }
    Params::from(values)
}

/// An age in microseconds that the database can subtract: at most a thousand years.
pub(super) fn age(duration: Duration) -> i64 {
    micros(duration).min(31_557_600_000_000_000)
}

async fn picked(link: &mut Link, filter: &DeadFilter, after: i64, limit: u32) -> Result<Vec<i64>> {
    let sql = meant(link, DEAD, filter);
    let rows = link.query("looking for dead letters", &sql, values(filter, Some((after, limit)))).await?;
    Ok(rows.into_iter().filter_map(|row| Columns::new(row).integer(0)).collect())
}

/// Dead letters by ascending row.
pub(super) async fn list(link: &mut Link, filter: &DeadFilter, position: Position) -> Result<Vec<RowView>> {
    let picked = picked(link, filter, position.after.0, position.limit).await?;
    let sql = link.options().names.fill(VIEW);
    let mut views = Vec::with_capacity(picked.len());
    for some in picked.chunks(MANY) {
        let sql = sql.replace("<ids>", &numbers(some.iter().copied()));
        let rows = link.text("listing dead letters", &sql).await?;
        views.extend(rows.into_iter().map(|row| view(&mut Columns::new(row))));
    }
    Ok(views)
}

/// Dead letters by topic and reason.
pub(super) async fn groups(link: &mut Link, filter: &DeadFilter) -> Result<Vec<DeadGroup>> {
    let sql = meant(link, DEAD_GROUPS, filter);
    let rows = link.query("grouping dead letters", &sql, values(filter, None)).await?;
    let group = |row: Columns| DeadGroup {
        topic: row.text(0).unwrap_or_default().to_owned(),
        reason: small(&row, 1).and_then(DeadReason::from_code),
        count: row.integer(2).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        oldest: Duration::from_micros(row.integer(3).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)),
    };
    Ok(rows.into_iter().map(|row| group(Columns::new(row))).collect())
}

/// Replays or discards up to `limit` dead letters, oldest row first, in short transactions.
pub(super) async fn decide(
    link: &mut Link,
    filter: &DeadFilter,
    limit: u32,
    verdict: Verdict,
) -> Result<Vec<MessageId>> {
    let (mut ids, mut after) = (Vec::new(), i64::MIN);
    loop {
        let left = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(ids.len()).min(MANY);
        let some = picked(link, filter, after, u32::try_from(left).unwrap_or(u32::MAX)).await?;
        let Some(last) = some.last().copied().filter(|_| left > 0) else { return Ok(ids) };
        ids.extend(change(link, &some, verdict).await?);
        after = last;
        if some.len() < left {
            return Ok(ids);
        }
    }
}

/// Removes those of these rows that are still dead letters of this age in microseconds, and nobody else's; how many went.
pub(super) async fn remove_past(link: &mut Link, rows: &[i64], kept: i64) -> Result<u64> {
    let mut removed = 0;
    for some in rows.chunks(MANY) {
        removed += change_of(link, some, Verdict::Discard, Some(kept)).await?.len();
    }
    Ok(u64::try_from(removed).unwrap_or(0))
}

/// Carries out a verdict on those of these rows that are still dead letters and nobody else's.
async fn change(link: &mut Link, rows: &[i64], verdict: Verdict) -> Result<Vec<MessageId>> {
    change_of(link, rows, verdict, None).await
}

/// The same, where an age is given of those of them that have it.
async fn change_of(link: &mut Link, rows: &[i64], verdict: Verdict, kept: Option<i64>) -> Result<Vec<MessageId>> {
    let names = link.options().names.clone();
    let mut work = link.begin("changing dead letters").await?;
    let named = |sql: &str| names.fill(sql).replace("<ids>", &numbers(rows.iter().copied()));
    let lock = match kept {
        Some(kept) => named(LOCK_PAST).replace("<age>", &kept.to_string()),
        None => named(LOCK),
    };
    let locked = work.text(&lock).await?;
    let locked: Vec<Locked> = locked.into_iter().map(|row| Locked::read(&Columns::new(row))).collect();
    if locked.is_empty() {
        work.undo().await?;
        return Ok(Vec::new());
    }
    let sql = match verdict {
        Verdict::Replay => REPLAY,
        Verdict::Discard => DISCARD,
    };
    if verdict == Verdict::Discard {
        for head in locked.iter().filter(|row| row.holds) {
            open(&mut work, &names, head).await?;
        }
    }
    let sql = names.fill(sql).replace("<ids>", &numbers(locked.iter().map(|row| row.id)));
    work.execute_text(&sql).await?;
    work.commit().await?;
    Ok(locked.into_iter().map(|row| row.message_id).collect())
}

/// Makes the first row due that was set aside for a head.
async fn open(work: &mut Work<'_>, names: &super::Names, head: &Locked) -> Result<()> {
    let aside = work.query(&names.fill(FIRST_ASIDE), (head.lane.0, head.waits.clone())).await?;
    if let Some(row) = aside.into_iter().next().and_then(|row| Columns::new(row).integer(0)) {
        work.execute(&names.fill(FREE), (row,)).await?;
    }
    Ok(())
}

struct Locked {
    id: i64,
    message_id: MessageId,
    lane: Lane,
    waits: Vec<u8>,
    /// Whether it holds a key.
    holds: bool,
}

impl Locked {
    fn read(row: &Columns) -> Self {
        let id = row.text(1).and_then(|text| Uuid::parse_str(text).ok()).unwrap_or_default();
        let holding = small(row, 3).and_then(RowState::from_code) == Some(RowState::Holding);
        Self {
            id: row.integer(0).unwrap_or(0),
            message_id: MessageId(id),
            lane: lane(row, 2),
            waits: row.bytes(4).unwrap_or_default().to_vec(),
            holds: holding && row.is_true(5),
        }
    }
}

/// Removes what is past its retention, up to `limit` rows of each kind.
pub(super) async fn prune(link: &mut Link, retention: &Retention, limit: u32) -> Result<Pruned> {
    let names = link.options().names.clone();
    let mut pruned = Pruned::default();
    if let Some(kept) = retention.delivered.map(age) {
        pruned.delivered = link.execute("removing old history", &names.fill(PRUNE_DELIVERED), (kept, limit)).await?;
    }
    if let Some(kept) = retention.dead.map(age) {
        let doing = "looking for old dead letters";
        let rows = link.query(doing, &names.fill(PAST_DEAD), (kept, limit)).await?;
        let rows: Vec<i64> = rows.into_iter().filter_map(|row| Columns::new(row).integer(0)).collect();
        for some in rows.chunks(MANY) {
            let gone = change(link, some, Verdict::Discard).await?.len();
            pruned.dead += u64::try_from(gone).unwrap_or(0);
        }
    }
    Ok(pruned)
}

/// What [`prune`] would remove in all.
pub(super) async fn prunable(link: &mut Link, retention: &Retention) -> Result<Pruned> {
    let names = link.options().names.clone();
    let mut count = async |sql: &str, kept: Option<Duration>| -> Result<u64> {
        let Some(kept) = kept.map(age) else { return Ok(0) };
        let row = link.query_one("counting what is past its retention", &names.fill(sql), (kept,)).await?;
        Ok(row.integer(0).and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
    };
    Ok(Pruned {
        delivered: count(PRUNABLE_DELIVERED, retention.delivered).await?,
        dead: count(PRUNABLE_DEAD, retention.dead).await?,
    })
}
