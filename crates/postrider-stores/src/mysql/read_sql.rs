//! The statements that find rows. Each is told its index: the planner would walk the whole table where a list is long or
//! statistics are old, and pass every row that somebody is writing.
//!
//! A read first finds numbers and weights, and then fetches the rows that fit: a payload is never read to be measured.

/// The moment at which a statement began, in microseconds since 1970 UTC, whatever the session's time zone.
macro_rules! now {
    () => {
        "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))"
    };
}
pub(super) use now;

/// What is known of a row before it is fetched, in the places that [`Found`](super::found::Found) knows.
///
/// The last of them is whether it can go: it is neither to be tried again nor delayed any more.
macro_rules! found {
    () => {
        concat!(
            "id, lane, weight, state = 0 and next_attempt_at is null and (deliver_at is null or deliver_at <= ",
            now!(),
            ")"
        )
    };
}

/// Whatever stands behind a row: `?` the row, `?` the last one that is wanted, `?` the limit. Rows of all lanes and states,
/// because a number that was seen is no gap.
pub(super) const NEXT: &str =
    concat!("select ", found!(), " from {outbox} force index (primary) where id > ? and id <= ? order by id limit ?");

/// Rows in ranges of numbers: `<ranges>`, and `<limit>` of them.
pub(super) const IN_RANGES: &str =
    concat!("select ", found!(), " from {outbox} force index (primary) where <ranges> order by id limit <limit>");

/// The numbers of rows that are physically there, when nothing has to be committed.
pub(super) const PRESENT: &str =
    "select id from {outbox} force index (primary) where <ranges> order by id limit <limit>";

/// Rows by their numbers, `<ids>`, that can still be settled.
pub(super) const BY_ID: &str = concat!(
    "select ",
    found!(),
    " from {outbox} force index (primary) where id in (<ids>) and state in (0, 2) order by id"
);

/// Rows whose time has come, behind a place in their order: `?` the due time and the row.
pub(super) const DUE: &str = concat!(
    "select ",
    found!(),
    ", due_at from {outbox} force index (due)
 where state = 0 and due_at <= ",
    now!(),
    " and due_at >= ? and (due_at > ? or id > ?)
 order by due_at, id limit ?"
);

/// The exceptional rows of one key: `?` the lane, the bytes of the key, the limit.
pub(super) const OF_KEY: &str = concat!(
    "select ",
    found!(),
    " from {outbox} force index (waiting) where lane = ? and waits = ? order by id limit ?"
);

/// The same of all keys and of none, where all messages have one order: `?` the limit.
///
/// Two steps: in one the planner would walk the primary key to have them in order, past every ordinary row.
pub(super) const OF_ALL: &str = concat!(
    "select ",
    found!(),
    " from {outbox} force index (primary)
 where id in (select id from (
   select id from {outbox} force index (waiting) where lane = 0 and waits is not null order by id limit ?) w)
 order by id"
);

/// The first key of a lane behind another one that has exceptional rows: one descent of the index, however many rows it
/// has.
pub(super) const NEXT_KEY: &str =
    "select waits from {outbox} force index (waiting) where lane = ? and waits > ? order by waits limit 1";

/// Whether there is any exceptional row in lanes, `<lanes>`.
pub(super) const ANY_EXCEPTION: &str =
    "select 1 from {outbox} force index (waiting) where lane in (<lanes>) and waits is not null limit 1";

/// What stands before row `<id>` of the key at place `<place>` of a list: its lane and bytes are given.
pub(super) const BEFORE_KEY: &str = "(select <place>, id, waiting_for from {outbox} force index (waiting)
  where lane = <lane> and waits = x'<key>' and id < <id> order by id limit <limit>)";

/// What stands before row `?` where all messages have one order; `?` the limit.
pub(super) const BEFORE_ALL: &str = "\
select id, waiting_for from {outbox} force index (primary)
 where id in (select id from (
   select id from {outbox} force index (waiting) where lane = 0 and waits is not null and id < ? order by id limit ?) w)
 order by id";

/// Whole rows, `<ids>`, in the places that [`decode`](super::decode) knows.
pub(super) const LOAD: &str = concat!(
    "\
select id, lane, message_id, topic, `key`, content_type, headers, attributes, created_at, deliver_at, expires_at, retry,
       state, attempts, next_attempt_at, waiting_for, progress, dead_reason,
       case when dead_reason is not null then errors end, weight, ",
    now!(),
    ", suspicion, retry is not null, payload
  from {outbox} force index (primary) where id in (<ids>) and state in (<states>) order by id"
);

/// The same without what a payload or a long text needs.
pub(super) const LOAD_HEAD: &str = concat!(
    "\
select id, lane, message_id, topic, `key`, null, null, null, created_at, deliver_at, expires_at, null,
       state, attempts, next_attempt_at, waiting_for, progress, dead_reason,
       case when dead_reason is not null then errors end, weight, ",
    now!(),
    ", suspicion, retry is not null, null
  from {outbox} force index (primary) where id in (<ids>) and state in (<states>) order by id"
);

/// Ordinary rows between two numbers, behind the first: a piece of a sweep.
pub(super) const SWEEP: &str = concat!(
    "select ",
    found!(),
    " from {outbox} force index (primary)
 where id > ? and id <= ? and state = 0 and due_at is null and next_attempt_at is null and lane in (<lanes>)
 order by id limit ?"
);

/// The number before the first row behind `?`.
pub(super) const NOTHING_UNTIL: &str = "select min(id) - 1 from {outbox} force index (primary) where id > ?";

/// The last row that is committed.
pub(super) const LAST_ID: &str = "select max(id) from {outbox}";
