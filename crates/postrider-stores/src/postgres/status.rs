//! The outbox in numbers, without counting the table.

use std::time::Duration;

use postrider_core::{HeldKey, Key, Lane, LaneStatus, Measured, MemberStatus, MessageId, Result, StoreStatus, Term};
use tokio_postgres::types::Type;

use super::decode::get;
use super::link::{Link, Parameter};
use super::operator_sql::{ESTIMATES, EXCEPTIONS, HELD, HELD_BACK, LANES, MEMBERS, PENDING, RECENT, TOPICS, UNROUTED};
use crate::failures::latest;

/// Rows that a count looks at, at most: what it costs is bounded, however many dead ones stand before the others.
const LOOKED_AT: i64 = 200_000;

/// Counts up to `bound` rows of each kind and estimates what is more.
pub(super) async fn status(link: &mut Link, bound: u32) -> Result<StoreStatus> {
    let names = link.options().names.clone();
    let (limit, table) = (i64::from(bound), names.qualified("outbox"));
    let bounded: [Parameter<'_>; 1] = [(&limit, Type::INT8)];
    let looked: [Parameter<'_>; 2] = [(&limit, Type::INT8), (&LOOKED_AT, Type::INT8)];
    let counted = link.query_one("counting the outbox", &names.fill(PENDING), &looked).await?;
    let exceptions = link.query_one("counting exceptions", &names.fill(EXCEPTIONS), &bounded).await?;
    let estimates = link.query_one("reading estimates", ESTIMATES, &[(&table, Type::TEXT)]).await?;
    let estimate = |column: &str| get::<i64>(&estimates, column);
    let measured = |column: &str, estimated: i64| {
        let found: i64 = get(&exceptions, column)?;
        Ok(measure(found, limit, estimated))
    };

    let dead = measured("dead", estimate("dead")?)?;
    let (looked_at, pending): (Option<i64>, i64) = (get(&counted, "looked_at")?, get(&counted, "pending")?);
    let alive = estimate("live")?.saturating_sub(i64::try_from(dead.value()).unwrap_or(i64::MAX));
    let whole = looked_at.is_none_or(|looked_at| looked_at < LOOKED_AT);
    let pending = if whole { measure(pending, limit, alive) } else { Measured::Estimated(number(alive.max(pending))) };
    let held = held(link, limit).await?;
    let sql = names.fill(HELD_BACK);
    let held_back: i64 = get(&link.query_one("counting behind held keys", &sql, &bounded).await?, "held_back")?;
    let recent = link.query("reading recent failures", &names.fill(RECENT), &[]).await?;
    let unrouted = link.query("looking for topics without a route", &names.fill(UNROUTED), &[]).await?;
    Ok(StoreStatus {
        pending,
        retrying: measured("retrying", estimate("exceptional")?)?,
        delayed: measured("delayed", estimate("due")?)?,
        set_aside: measured("set_aside", estimate("exceptional")?)?,
        dead,
        holding: measured("holding", estimate("dead")?)?,
        held_back: measure(held_back, limit, estimate("exceptional")?),
        held,
        oldest_age: get::<Option<i64>>(&counted, "age")?.map(micros),
        recent_errors: recent.iter().filter_map(|row| latest(row.try_get("errors").ok()?)).collect(),
        unrouted: unrouted.iter().map(|row| get(row, "topic")).collect::<Result<_>>()?,
        members: members(link).await?,
        lanes: lanes(link).await?,
    })
}

/// Topics of what is to be delivered.
pub(super) async fn topics(link: &mut Link) -> Result<Vec<String>> {
    let sql = link.options().names.fill(TOPICS);
    link.query("reading topics", &sql, &[]).await?.iter().map(|row| get(row, "topic")).collect()
}

/// The keys that were held first.
async fn held(link: &mut Link, bound: i64) -> Result<Vec<HeldKey>> {
    let sql = link.options().names.fill(HELD);
    let rows = link.query("looking at held keys", &sql, &[(&bound, Type::INT8)]).await?;
    rows.iter()
        .map(|row| {
            let (since, waiting): (Option<i64>, i64) = (get(row, "since")?, get(row, "waiting")?);
            let (key, by) = (Key::unchecked(get::<String>(row, "key")?), MessageId(get(row, "message_id")?));
            Ok(HeldKey { key, by, since: micros(since.unwrap_or(0)), waiting: measure(waiting, bound, waiting) })
        })
        .collect()
}

/// What was counted, or at least one more than the bound.
fn measure(found: i64, bound: i64, estimated: i64) -> Measured {
    if found <= bound { Measured::Exact(number(found)) } else { Measured::Estimated(number(estimated.max(found))) }
}

async fn members(link: &mut Link) -> Result<Vec<MemberStatus>> {
    let sql = link.options().names.fill(MEMBERS);
    let rows = link.query("reading the relays", &sql, &[]).await?;
    rows.iter()
        .map(|row| {
            let left: i64 = get(row, "lease_left")?;
            Ok(MemberStatus { id: get(row, "id")?, name: get(row, "name")?, lease_left: micros(left) })
        })
        .collect()
}

async fn lanes(link: &mut Link) -> Result<Vec<LaneStatus>> {
    let sql = link.options().names.fill(LANES);
    let rows = link.query("reading the lanes", &sql, &[]).await?;
    rows.iter()
        .map(|row| {
            let lane: i16 = get(row, "lane")?;
            let lane = Lane(u16::try_from(lane).unwrap_or(0));
            Ok(LaneStatus { lane, owner: get(row, "owner")?, term: Term(get(row, "term")?) })
        })
        .collect()
}

fn number(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
