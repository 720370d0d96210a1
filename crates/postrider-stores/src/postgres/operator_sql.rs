//! The operator's statements.

macro_rules! view {
    () => {
        "\
o.id, o.lane, o.state, o.message_id, o.topic, o.key, o.payload, o.content_type, o.headers::text, o.attributes::text,
       o.created_at, o.deliver_at, o.expires_at, o.retry::text, o.attempts, o.last_attempt_at, o.next_attempt_at,
       o.waiting_for, o.errors::text, o.dead_at, o.dead_reason"
    };
}

/// What the row `o` weighs when it is archived, beside its errors; see `PastRow::weight`.
macro_rules! weight {
    () => {
        "\
octet_length(o.payload)::bigint + octet_length(o.topic) + coalesce(octet_length(o.key), 0)
         + coalesce(octet_length(o.headers::text), 0) + coalesce(octet_length(o.attributes::text), 0)"
    };
}

/// `$1` ids, `$2` topic, `$3` key, `$4` reason, `$5` least age in microseconds, `$6` state; null for "any".
macro_rules! meant {
    () => {
        "\
o.state in (1, 3) and ($1::uuid[] is null or o.message_id = any($1)) and ($2::text is null or o.topic = $2)
   and ($3::text is null or o.key = $3) and ($4::smallint is null or o.dead_reason = $4)
   and ($5::bigint is null or o.dead_at <= (select clock_timestamp()) - $5 * interval '1 microsecond')
   and ($6::smallint is null or o.state = $6)"
    };
}

/// Removes what was picked. When a row that held its key goes, the first row set aside behind it is made due, so that
/// the due query finds it: nothing else looks at rows that an operator changed. One that a relay is settling at this moment
/// is passed over, so that neither waits for the other: any row of the key does, because the relay then looks at them all.
macro_rules! removing {
    () => {
        "\
d as (delete from {outbox} o using picked where o.id = picked.id returning o.id, o.message_id, o.lane, o.key, o.state),
freed as (
  update {outbox} o set state = 0, next_attempt_at = statement_timestamp()
   where o.id = any(array(
     select f.id from d cross join lateral (
       select w.id from {outbox} w
        where w.lane = d.lane and w.key = d.key and (w.state in (2, 3) or w.next_attempt_at is not null) and w.state = 2
        order by w.id limit 1 for update skip locked) f
      where d.state = 3 and d.key is not null))
     and o.state = 2)"
    };
}

/// Rows to be delivered, up to one more than `$1`, among `$2` rows from the first of them on; how many those are, where
/// that decides; and the age in microseconds of the first that could go now.
///
/// Rows that are gone and that nobody may vacuum, while somebody holds a transaction open, stand before the first: they
/// are passed once, by the primary key, and not a second and a third time by whoever counts and looks for the oldest. In
/// a backlog the counting ends with `$1`.
pub(super) const PENDING: &str = "\
with first as materialized (
  select o.id from {outbox} o where o.state in (0, 2) order by o.id limit 1),
counted as materialized (
  select count(*) as pending from (
    select from (select o.state from {outbox} o where o.id >= (select id from first) order by o.id limit $2) f
     where f.state in (0, 2) limit $1 + 1) p)
select c.pending,
       case when c.pending <= $1 then
         (select count(*) from (
            select from {outbox} o where o.id >= (select id from first) order by o.id limit $2) f) end as looked_at,
       (select (extract(epoch from clock_timestamp() - greatest(o.created_at, o.deliver_at)) * 1000000)::bigint
          from {outbox} o
         where o.id >= (select id from first) and o.state in (0, 2) and isfinite(o.created_at)
           and (o.deliver_at is null or o.deliver_at <= (select clock_timestamp()) and isfinite(o.deliver_at))
         order by o.id limit 1) as age
  from counted c";

/// Each of these walks a partial index of exceptions, and stops above `$1`.
pub(super) const EXCEPTIONS: &str = "\
select (select count(*) from (select from {outbox} where state in (1, 3) limit $1 + 1) o) as dead,
       (select count(*) from (select from {outbox} where state in (1, 3) and state <> 1 limit $1 + 1) o) as holding,
       (select count(*) from (select from {outbox} where state = 2 limit $1 + 1) o) as set_aside,
       (select count(*) from (select from {outbox} where next_attempt_at is not null and state = 0 limit $1 + 1) o) as retrying,
       (select count(*) from (
          select from {outbox}
           where state = 0 and (next_attempt_at is not null or deliver_at is not null) and next_attempt_at is null
             and coalesce(next_attempt_at, deliver_at) > (select clock_timestamp()) limit $1 + 1) o) as delayed";

/// The first head of each key that is held. `state <> 1` keeps the planner on the index of dead letters: that of
/// exceptions may hold millions of rows behind one head.
macro_rules! heads {
    () => {
        "\
select o.id, o.lane, o.key, o.message_id, o.dead_at from {outbox} o
 where o.state in (1, 3) and o.state <> 1 and o.key is not null
   and not exists (
     select from {outbox} p where p.lane = o.lane and p.key = o.key and p.id < o.id
        and (p.state in (2, 3) or p.next_attempt_at is not null) and p.state = 3)"
    };
}

/// What waits behind the head `h`.
macro_rules! behind {
    () => {
        "\
select from {outbox} a where a.lane = h.lane and a.key = h.key and a.id > h.id
   and (a.state in (2, 3) or a.next_attempt_at is not null) and a.state = 2"
    };
}

/// The keys that were held first, at most five, each with how many rows wait, counted up to one more than `$1`.
pub(super) const HELD: &str = concat!(
    "\
select h.key, h.message_id, (select count(*) from (",
    behind!(),
    " limit $1 + 1) n) as waiting,
       case when isfinite(h.dead_at) then (extract(epoch from clock_timestamp() - h.dead_at) * 1000000)::bigint end as since
  from (",
    heads!(),
    " order by o.id limit 5) h order by h.id"
);

/// How many rows wait behind all of them, counted up to one more than `$1`.
pub(super) const HELD_BACK: &str = concat!(
    "select count(*) as held_back from (select from (",
    heads!(),
    ") h cross join lateral (",
    behind!(),
    ") b limit $1 + 1) n"
);

/// The database's own estimates: rows of the table, and entries of the indexes of exceptions, where they are known.
pub(super) const ESTIMATES: &str = "\
select greatest(pg_stat_get_live_tuples($1::text::regclass), 0) as live,
       coalesce((select max(c.reltuples)::bigint from pg_index i join pg_class c on c.oid = i.indexrelid
                  where i.indrelid = $1::text::regclass and c.relname like '%outbox_dead'), 0) as dead,
       coalesce((select max(c.reltuples)::bigint from pg_index i join pg_class c on c.oid = i.indexrelid
                  where i.indrelid = $1::text::regclass and c.relname like '%outbox_exceptional'), 0) as exceptional,
       coalesce((select max(c.reltuples)::bigint from pg_index i join pg_class c on c.oid = i.indexrelid
                  where i.indrelid = $1::text::regclass and c.relname like '%outbox_due'), 0) as due";

pub(super) const RECENT: &str = "\
select o.errors::text as errors from {outbox} o
 where o.state = 0 and o.next_attempt_at is not null and o.errors is not null
 order by o.last_attempt_at desc nulls last limit 5";

/// A failure at no destination is one for want of a route, unless the row is given up and on its way as a dead letter.
pub(super) const UNROUTED: &str = "\
select distinct r.topic from (
  select o.topic, o.errors from {outbox} o
   where o.state = 0 and o.next_attempt_at is not null and o.errors is not null and o.dead_reason is null
   limit 10000) r
 where case when json_typeof(r.errors) = 'array' then r.errors -> -1 ->> 'destination' = '' end order by r.topic limit 5";

/// Topics of what is to be delivered, among the rows that were written last.
pub(super) const TOPICS: &str = "\
select distinct r.topic from (select o.topic, o.state from {outbox} o order by o.id desc limit 10000) r
 where r.state in (0, 2) order by r.topic limit 100";

pub(super) const MEMBERS: &str = "\
select id, name, greatest((extract(epoch from expires_at - clock_timestamp()) * 1000000)::bigint, 0) as lease_left
  from {relay} where isfinite(expires_at) order by name, id";

pub(super) const LANES: &str = "select lane, owner, term from {lane} order by lane";

/// A scan, which the caller limits in time: `$1` message id, `$2` key; one of them is null. `$3` whether all messages have
/// one order.
pub(super) const EXPLAIN: &str = concat!(
    "select ",
    view!(),
    ",
       h.id as behind, h.message_id as behind_id, h.state as behind_state, r.id as owner, r.name as owner_name, clock_timestamp() as now,
       greatest((extract(epoch from r.expires_at - clock_timestamp()) * 1000000)::bigint, 0) as lease_left
  from {outbox} o
  left join {lane} l on l.lane = o.lane
  left join {relay} r on r.id = l.owner and isfinite(r.expires_at)
  left join lateral (
    select h.id, h.message_id, h.state from {outbox} h
     where o.state in (0, 2) and h.lane = o.lane and ($3 or h.key = o.key) and h.id < o.id
       and (h.state in (2, 3) or h.next_attempt_at is not null)
     order by h.id limit 1) h on true
 where o.message_id = $1 or o.key = $2
 order by o.id limit 100"
);

/// The same of the history.
pub(super) const EXPLAIN_DELIVERED: &str = "\
select id, message_id, key, topic, settled_at, clock_timestamp() as now
  from {delivered} where message_id = $1 or key = $2 order by id limit $3";

/// `$7` the row after which, `$8` the limit.
pub(super) const DEAD: &str =
    concat!("select ", view!(), "\n  from {outbox} o\n where ", meant!(), " and o.id > $7 order by o.id limit $8");

pub(super) const DEAD_GROUPS: &str = concat!(
    "\
select o.topic, o.dead_reason, count(*) as number,
       coalesce((extract(epoch from clock_timestamp() - min(o.dead_at) filter (where isfinite(o.dead_at))) * 1000000)::bigint, 0)
         as oldest
  from {outbox} o\n where ",
    meant!(),
    " group by o.topic, o.dead_reason order by o.topic, o.dead_reason"
);

/// `$7` the limit. Equal instants for all rows of the statement, so that the id decides among those of a key; rows that
/// another operator has locked are his. What an operator sends again does not expire.
pub(super) const REPLAY: &str = concat!(
    "with picked as materialized (\n  select o.id from {outbox} o where ",
    meant!(),
    "\n order by o.id limit $7 for update skip locked),
u as (
  update {outbox} o
     set state = 0, attempts = 0, next_attempt_at = statement_timestamp(), dead_at = null, dead_reason = null,
         progress = null, expires_at = 'infinity'
    from picked where o.id = picked.id returning o.id, o.message_id)
select message_id from u order by id"
);

/// `$7` the limit.
pub(super) const DISCARD: &str = concat!(
    "with picked as materialized (\n  select o.id from {outbox} o where ",
    meant!(),
    "\n order by o.id limit $7 for update skip locked),\n",
    removing!(),
    "\nselect message_id from d order by id"
);

/// `$1` the age in microseconds, `$2` the limit.
pub(super) const PRUNE_DEAD: &str = concat!(
    "\
with picked as materialized (
  select o.id from {outbox} o
   where o.state in (1, 3) and o.dead_at <= (select clock_timestamp()) - $1 * interval '1 microsecond'
   order by o.id limit $2 for update skip locked),\n",
    removing!(),
    "\nselect count(*) as number from d"
);

pub(super) const PRUNE_DELIVERED: &str = "\
delete from {delivered} where id = any(array(
  select id from {delivered} where settled_at <= (select clock_timestamp()) - $1 * interval '1 microsecond'
   order by settled_at limit $2))";

/// Dead letters that are `$1` microseconds old, whole: the first `$2` of them, as far as `$3` bytes reach, and the first
/// whatever it weighs.
pub(super) const PAST_DEAD: &str = concat!(
    "\
with near as materialized (
  select o.id, ",
    weight!(),
    " + coalesce(octet_length(o.errors::text), 0) as weight
    from {outbox} o
   where o.state in (1, 3) and o.dead_at <= (select clock_timestamp()) - $1 * interval '1 microsecond'
   order by o.id limit $2),
picked as materialized (
  select id, sum(weight) over (order by id) as upto, row_number() over (order by id) as place from near)
select ",
    view!(),
    "\n  from picked p join {outbox} o on o.id = p.id where p.place = 1 or p.upto <= $3 order by o.id"
);

/// The same of the history.
pub(super) const PAST_DELIVERED: &str = concat!(
    "\
with near as materialized (
  select o.id, o.settled_at, ",
    weight!(),
    " as weight
    from {delivered} o
   where o.settled_at <= (select clock_timestamp()) - $1 * interval '1 microsecond'
   order by o.settled_at limit $2),
picked as materialized (
  select id, sum(weight) over (order by settled_at, id) as upto, row_number() over (order by settled_at, id) as place
    from near)
select o.id, o.message_id, o.topic, o.key, o.payload, o.content_type, o.headers::text, o.attributes::text, o.created_at,
       o.attempts, o.settled_at
  from picked p join {delivered} o on o.id = p.id where p.place = 1 or p.upto <= $3 order by p.place"
);

/// Those of the dead letters `$1` that are `$2` microseconds old.
pub(super) const REMOVE_DEAD: &str = concat!(
    "\
with picked as materialized (
  select o.id from {outbox} o
   where o.id = any($1) and o.state in (1, 3)
     and o.dead_at <= (select clock_timestamp()) - $2 * interval '1 microsecond'
   order by o.id for update skip locked),\n",
    removing!(),
    "\nselect count(*) as number from d"
);

/// The same of the history.
pub(super) const REMOVE_DELIVERED: &str = "\
delete from {delivered}
 where id = any($1) and settled_at <= (select clock_timestamp()) - $2 * interval '1 microsecond'";

/// `$1` and `$2` the ages of delivered and of dead rows in microseconds; null for "for ever".
pub(super) const PRUNABLE: &str = "\
select (select count(*) from {delivered}
         where settled_at <= (select clock_timestamp()) - $1::bigint * interval '1 microsecond') as delivered,
       (select count(*) from {outbox}
         where state in (1, 3) and dead_at <= (select clock_timestamp()) - $2::bigint * interval '1 microsecond') as dead";
