//! The operator's statements. Dead letters are found by the index of states, looked at without a lock, and then locked and
//! changed by their primary key: what is not among them is never waited for.

use super::read_sql::now;

/// A row as people look at it, in the places that [`view`](super::dead::view) knows.
macro_rules! view {
    () => {
        "\
o.id, o.lane, o.state, o.message_id, o.topic, o.`key`, o.payload, o.content_type, o.headers, o.attributes, o.created_at,
       o.deliver_at, o.expires_at, o.retry, o.attempts, o.last_attempt_at, o.next_attempt_at, o.waiting_for, o.errors, o.dead_at,
       o.dead_reason"
    };
}

/// The condition of a filter for one row: `<ids>` stands for the ids, the others are named; null for "any". Texts are
/// compared by their bytes.
macro_rules! meant {
    () => {
        concat!(
            "\
o.state in (1, 3) and <ids>
   and (:topic is null or cast(o.topic as binary) = cast(:topic as binary))
   and (:key is null or cast(o.`key` as binary) = cast(:key as binary))
   and (:reason is null or o.dead_reason = :reason) and (:state is null or o.state = :state)
   and (:age is null or o.dead_at <= ",
            now!(),
            " - :age)"
        )
    };
}

/// The numbers of dead letters: `:after` which row, `:limit`.
pub(super) const DEAD: &str = concat!(
    "select o.id from {outbox} o force index (due)\n where ",
    meant!(),
    " and o.id > :after order by o.id limit :limit"
);

/// Rows `<ids>` to look at.
pub(super) const VIEW: &str =
    concat!("select ", view!(), "\n  from {outbox} o force index (primary) where o.id in (<ids>) order by o.id");

pub(super) const DEAD_GROUPS: &str = concat!(
    "select o.topic, o.dead_reason, count(*), coalesce(",
    now!(),
    " - min(o.dead_at), 0)\n  from {outbox} o force index (due) where ",
    meant!(),
    " group by o.topic, o.dead_reason order by o.topic, o.dead_reason"
);

/// Dead letters `<ids>`, locked; those that another operator has locked are his.
pub(super) const LOCK: &str = "\
select id, message_id, lane, state, coalesce(waits, ''), `key` is not null from {outbox} force index (primary)
 where id in (<ids>) and state in (1, 3) order by id for update skip locked";

/// The same of those that are `<age>` microseconds old.
pub(super) const LOCK_PAST: &str = concat!(
    "\
select id, message_id, lane, state, coalesce(waits, ''), `key` is not null from {outbox} force index (primary)
 where id in (<ids>) and state in (1, 3) and dead_at <= ",
    now!(),
    " - <age> order by id for update skip locked"
);

/// Locked dead letters `<ids>` are pending again and due now. What an operator sends again does not expire: the largest
/// number is never.
pub(super) const REPLAY: &str = concat!(
    "update {outbox} o force index (primary)
   set state = 0, attempts = 0, next_attempt_at = ",
    now!(),
    ", dead_at = null, dead_reason = null, progress = null, suspicion = 0, expires_at = 9223372036854775807
 where o.id in (<ids>)"
);

/// Locked dead letters `<ids>` go.
pub(super) const DISCARD: &str = "delete o from {outbox} o force index (primary) where o.id in (<ids>)";

/// The first row set aside of the key of a head that goes: `?` its lane, the bytes of its key. It may stand before the head,
/// when its own moment came later. Nothing else looks at rows that an operator changed. One that a relay is settling at
/// this moment is passed over, so that neither waits for the other: any row of the key does, because the relay then looks
/// at them all.
pub(super) const FIRST_ASIDE: &str = "\
select id from {outbox} force index (waiting)
 where lane = ? and waits = ? and state = 2 order by id limit 1 for update skip locked";

/// Row `?`, locked, is due now.
pub(super) const FREE: &str =
    concat!("update {outbox} set state = 0, next_attempt_at = ", now!(), " where id = ? and state = 2");

/// The numbers of dead letters that are `?` microseconds old, `?` of them.
pub(super) const PAST_DEAD: &str = concat!(
    "select id from {outbox} force index (due) where state in (1, 3) and dead_at <= ",
    now!(),
    " - ? order by id limit ?"
);

/// The numbers of dead letters that are `?` microseconds old, `?` of them, and what they weigh when they are archived; see
/// `PastRow::weight`.
pub(super) const PAST_DEAD_WEIGHED: &str = concat!(
    "\
select id, weight + coalesce(octet_length(errors), 0) from {outbox} force index (due)
 where state in (1, 3) and dead_at <= ",
    now!(),
    " - ? order by id limit ?"
);

/// The same of the history.
pub(super) const PAST_DELIVERED_WEIGHED: &str = concat!(
    "\
select id, octet_length(payload) + octet_length(topic) + coalesce(octet_length(`key`), 0)
       + coalesce(octet_length(headers), 0) + coalesce(octet_length(attributes), 0)
  from {delivered} where settled_at <= ",
    now!(),
    " - ? order by settled_at, id limit ?"
);

/// Rows `<ids>` of the history.
pub(super) const VIEW_DELIVERED: &str = "\
select id, message_id, topic, `key`, payload, content_type, headers, attributes, created_at, attempts, settled_at
  from {delivered} where id in (<ids>) order by settled_at, id";

/// Rows `<ids>` of the history, where they are `<age>` microseconds old.
pub(super) const REMOVE_DELIVERED: &str =
    concat!("delete from {delivered} where id in (<ids>) and settled_at <= ", now!(), " - <age>");

/// History that is `?` microseconds old, `?` rows of it.
pub(super) const PRUNE_DELIVERED: &str =
    concat!("delete from {delivered} where settled_at <= ", now!(), " - ? order by settled_at limit ?");

pub(super) const PRUNABLE_DEAD: &str =
    concat!("select count(*) from {outbox} force index (due) where state in (1, 3) and dead_at <= ", now!(), " - ?");

pub(super) const PRUNABLE_DELIVERED: &str =
    concat!("select count(*) from {delivered} where settled_at <= ", now!(), " - ?");

/// A scan, which the caller limits in time. `:id`, `:key`: one of them is null.
pub(super) const EXPLAIN: &str = concat!(
    "select ",
    view!(),
    ",\n       ",
    now!(),
    ", o.waits is not null, r.id, r.name, greatest(r.expires_at - ",
    now!(),
    ", 0)
  from {outbox} o left join {lane} l on l.lane = o.lane left join {relay} r on r.id = l.owner
 where lower(o.message_id) = :id or cast(o.`key` as binary) = cast(:key as binary)
 order by o.id limit 100"
);

/// The first exceptional row of a key before another one: `?` the lane, the bytes of the key, the row.
pub(super) const IN_FRONT: &str = "\
select id, message_id, state from {outbox} force index (waiting)
 where lane = ? and waits = ? and id < ? order by id limit 1";

/// The same where all messages have one order: `?` the row.
pub(super) const IN_FRONT_OF_ALL: &str = "\
select id, message_id, state from {outbox} force index (primary)
 where id = (select min(id) from {outbox} force index (waiting) where lane = 0 and waits is not null and id < ?)";

/// The history of a message or a key: `:id`, `:key`, `:limit`.
pub(super) const EXPLAIN_DELIVERED: &str = concat!(
    "select id, message_id, `key`, topic, settled_at, ",
    now!(),
    "\n  from {delivered} where lower(message_id) = :id or cast(`key` as binary) = cast(:key as binary) order by id limit :limit"
);
