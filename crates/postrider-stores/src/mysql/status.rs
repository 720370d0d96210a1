//! The outbox in numbers, without counting the table.

use std::time::Duration;

use mysql_async::Row;
use postrider_core::{HeldKey, Key, LaneStatus, Measured, MemberStatus, Result, StoreStatus, Term};
use uuid::Uuid;

use super::columns::Columns;
use super::decode::lane;
use super::explain::message_id;
use super::link::Link;
use super::read_sql::now;
use crate::failures::latest;

const PENDING: &str = "select count(*) from (select 1 from {outbox} force index (due) where state in (0, 2) limit ?) n";

/// The server's own estimate of the rows of a table.
const ESTIMATE: &str = "\
select coalesce((select table_rows from information_schema.tables
                  where table_schema = database() and table_name = ?), 0)";

/// Each of these walks a range of the index of states, and stops at `?`.
const EXCEPTIONS: &str = concat!(
    "\
select (select count(*) from (select 1 from {outbox} force index (due) where state in (1, 3) limit ?) n),
       (select count(*) from (select 1 from {outbox} force index (due) where state = 3 limit ?) n),
       (select count(*) from (select 1 from {outbox} force index (due) where state = 2 limit ?) n),
       (select count(*) from (select 1 from {outbox} force index (due)
                               where state = 0 and due_at is not null and next_attempt_at is not null limit ?) n),
       (select count(*) from (select 1 from {outbox} force index (due)
                               where state = 0 and due_at > ",
    now!(),
    " and next_attempt_at is null limit ?) n)"
);

/// The first head of each key that is held.
macro_rules! heads {
    () => {
        "\
h.state = 3 and h.`key` is not null and not exists (
   select 1 from {outbox} p force index (waiting)
    where p.lane = h.lane and p.waits = h.waits and p.id < h.id and p.state = 3)"
    };
}

/// The keys that were held first.
const HELD: &str = concat!(
    "select h.id, h.lane, h.waits, h.`key`, h.message_id, greatest(",
    now!(),
    " - coalesce(h.dead_at, ",
    now!(),
    "), 0)\n  from {outbox} h force index (due) where ",
    heads!(),
    " order by h.id limit 5"
);

/// What waits behind one of them: `?` its lane, the bytes of its key, its row, the limit.
const BEHIND: &str = "\
select count(*) from (
  select 1 from {outbox} force index (waiting) where lane = ? and waits = ? and id > ? and state = 2 limit ?) n";

/// What waits behind all of them, up to `?`.
const HELD_BACK: &str = concat!(
    "\
select count(*) from (
  select 1 from {outbox} h force index (due)
    straight_join {outbox} a force index (waiting) on a.lane = h.lane and a.waits = h.waits and a.id > h.id and a.state = 2
   where ",
    heads!(),
    " limit ?) n"
);

/// The ages of what was written first: of what can go, of what is set aside, and of what is due again. Those of each are
/// looked at in the order of the index; of very many that are due again some are.
const OLDEST: &str = concat!(
    "\
select greatest(0, (select ",
    now!(),
    " - min(created) from (
  (select created_at as created from {outbox} force index (due) where state = 0 and due_at is null order by id limit 1)
  union all
  (select greatest(created_at, coalesce(deliver_at, created_at)) from {outbox} force index (due)
    where state = 2 order by due_at, id limit 1)
  union all
  (select greatest(created_at, coalesce(deliver_at, created_at)) from {outbox} force index (due)
    where state = 0 and due_at is not null and (deliver_at is null or deliver_at <= ",
    now!(),
    ") order by due_at, id limit 1000)) o))"
);

const RECENT: &str = "\
select errors from (
  select errors, last_attempt_at from {outbox} force index (due)
   where state = 0 and due_at is not null and next_attempt_at is not null and errors is not null limit ?) o
 order by last_attempt_at desc limit 5";

/// A failure at no destination is one for want of a route, unless the row is given up and on its way as a dead letter.
const UNROUTED: &str = "\
select distinct topic from (
  select topic, errors from {outbox} force index (due)
   where state = 0 and due_at is not null and next_attempt_at is not null and errors is not null and dead_reason is null
   limit 10000) o
 where case when json_valid(errors)
         then json_unquote(json_extract(errors, concat('$[', json_length(errors) - 1, '].destination'))) = '' end
 order by topic limit 5";

/// Topics of what is to be delivered, among the rows that were written last.
const TOPICS: &str = "\
select distinct topic from (select topic, state from {outbox} order by id desc limit 10000) o
 where state in (0, 2) order by topic limit 100";

const MEMBERS: &str = concat!("select id, name, greatest(expires_at - ", now!(), ", 0) from {relay} order by name, id");

const LANES: &str = "select lane, owner, term from {lane} order by lane";

/// Counts up to `bound` rows of each kind and estimates what is more.
pub(super) async fn status(link: &mut Link, bound: u32) -> Result<StoreStatus> {
    let names = link.options().names.clone();
    let (fill, limit) = (|sql: &str| names.fill(sql), i64::from(bound) + 1);
    let pending = link.query_one("counting the outbox", &fill(PENDING), (limit,)).await?;
    let exceptions = (limit, limit, limit, limit, limit);
    let exceptions = link.query_one("counting exceptions", &fill(EXCEPTIONS), exceptions).await?;
    let estimate = link.query_one("reading estimates", ESTIMATE, (names.bare("outbox"),)).await?;
    let of = |row: &Columns, place| row.integer(place).unwrap_or(0);
    let measured = |place, estimated| measure(of(&exceptions, place), bound, estimated);
    let dead = measured(0, 0);
    let alive = of(&estimate, 0).saturating_sub(i64::try_from(dead.value()).unwrap_or(i64::MAX));
    let held = held(link, &fill(HELD), &fill(BEHIND), bound).await?;
    let held_back = link.query_one("counting behind held keys", &fill(HELD_BACK), (limit,)).await?;
    let oldest = link.query_one("looking for the oldest message", &fill(OLDEST), ()).await?;
    let recent = link.query("reading recent failures", &fill(RECENT), (limit,)).await?;
    let unrouted = link.query("looking for topics without a route", &fill(UNROUTED), ()).await?;
    let members = link.query("reading the relays", &fill(MEMBERS), ()).await?;
    let lanes = link.query("reading the lanes", &fill(LANES), ()).await?;
    let text = |row: Row| Columns::new(row).text(0).map(str::to_owned);
    Ok(StoreStatus {
        pending: measure(of(&pending, 0), bound, alive),
        retrying: measured(3, 0),
        delayed: measured(4, 0),
        set_aside: measured(2, 0),
        dead,
        holding: measured(1, 0),
        held_back: measure(of(&held_back, 0), bound, 0),
        held,
        oldest_age: oldest.integer(0).map(micros),
        recent_errors: recent.into_iter().filter_map(text).filter_map(|errors| latest(&errors)).collect(),
        unrouted: unrouted.into_iter().filter_map(text).collect(),
        members: members.into_iter().map(|row| member(&Columns::new(row))).collect(),
        lanes: lanes.into_iter().map(|row| lane_status(&Columns::new(row))).collect(),
    })
}

/// Topics of what is to be delivered.
pub(super) async fn topics(link: &mut Link) -> Result<Vec<String>> {
    let sql = link.options().names.clone().fill(TOPICS);
    let rows = link.query("reading topics", &sql, ()).await?;
    Ok(rows.into_iter().filter_map(|row| Columns::new(row).text(0).map(str::to_owned)).collect())
}

/// The keys that were held first.
async fn held(link: &mut Link, heads: &str, behind: &str, bound: u32) -> Result<Vec<HeldKey>> {
    let rows = link.query("looking at held keys", heads, ()).await?;
    let mut held = Vec::with_capacity(rows.len());
    for row in rows {
        let row = Columns::new(row);
        let params = (lane(&row, 1).0, row.bytes(2).unwrap_or_default().to_vec(), row.integer(0), i64::from(bound) + 1);
        let waiting = link.query_one("counting behind a held key", behind, params).await?;
        held.push(HeldKey {
            key: Key::unchecked(row.text(3).unwrap_or_default()),
            by: message_id(&row, 4),
            since: micros(row.integer(5).unwrap_or(0)),
            waiting: measure(waiting.integer(0).unwrap_or(0), bound, 0),
        });
    }
    Ok(held)
}

/// What was counted, or at least one more than the bound.
fn measure(found: i64, bound: u32, estimated: i64) -> Measured {
    let number = |n: i64| u64::try_from(n).unwrap_or(0);
    if found <= i64::from(bound) {
        Measured::Exact(number(found))
    } else {
        Measured::Estimated(number(estimated.max(found)))
    }
}

fn member(row: &Columns) -> MemberStatus {
    let id = row.text(0).and_then(|text| Uuid::parse_str(text).ok()).unwrap_or_default();
    let name = row.text(1).unwrap_or_default().to_owned();
    MemberStatus { id, name, lease_left: micros(row.integer(2).unwrap_or(0)) }
}

fn lane_status(row: &Columns) -> LaneStatus {
    let owner = row.text(1).and_then(|text| Uuid::parse_str(text).ok());
    LaneStatus { lane: lane(row, 0), owner, term: Term(row.integer(2).unwrap_or(0)) }
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
