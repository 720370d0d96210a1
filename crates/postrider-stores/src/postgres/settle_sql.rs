//! The statements that record outcomes.
//!
//! All begin by locking the lanes that are still ours `for key share`, until the statement ends: the fence. A term in
//! a WHERE clause alone is read from the statement's snapshot and does not stop a relay that was replaced meanwhile.
//! Every change of an owner locks the row `for update`, which waits for this lock, or is waited for. An array, and not
//! a join, decides about the rows: with a join the same statement took 16 times as long. Of delivered rows, which are
//! nearly all, a bit for each lane decides: comparing with each of 64 lanes took a tenth of the statement.
//!
//! A row is known by its number *and* its message: a database that was restored, or whose standby was promoted without the last
//! transactions, draws numbers again, while a settle whose commit was not answered is made again.
//!
//! `$1` is the relay, `$2` and `$3` are the lanes and the terms under which they were read, `$4` the delivered rows and `$5`
//! their messages, an element for each (null: whichever it has). A list of messages to be looked for in, row by row, would cost
//! its length squared: the plan is a generic one, which hashes no list.
//! The answer is one row: the locked lanes and the changed rows, an array each; where only rows were delivered and all of
//! them were changed, null for these. Where rows go on, their keys stand there too, which may be exceptional now.

macro_rules! fence {
    () => {
        "\
with l as materialized (
  select lane from {lane}
   where owner = $1 and (lane, term) in (select * from unnest($2::smallint[], $3::bigint[])) for key share)"
    };
}

/// Whether a row's lane is locked. Beyond the bits there is none, whatever a foreign hand wrote; the `case` sees to it
/// that it is not looked for.
macro_rules! in_a_locked_lane {
    () => {
        "\
state in (0, 2)
     and case when lane between 0 and 4095
           then get_bit((select bit_or(set_bit(repeat('0', 4096)::bit(4096), lane, 1)) from l), lane) = 1 end"
    };
}

/// Of rows that were only delivered, the commit does not wait for the disk: a crash of the server within the next 0.6 s
/// (three times `wal_writer_delay`) brings them back, and they are delivered again, in order. Whatever else is recorded
/// waits, and takes with it what was committed before. It saves a flush per settle, which the application's own commits
/// would wait for: docs/adr/0004.
macro_rules! not_flushed {
    () => {
        ",
       set_config('synchronous_commit', 'off', true)"
    };
}

macro_rules! removed {
    () => {
        concat!(
            ",
d as (
  delete from {outbox} o using unnest($4::bigint[], $5::uuid[]) n (id, message)
   where o.id = n.id and o.message_id = coalesce(n.message, o.message_id) and ",
            in_a_locked_lane!(),
            "
  returning o.id)"
        )
    };
}

macro_rules! moved {
    () => {
        ",
m as (
  delete from {outbox} o using unnest($4::bigint[], $5::uuid[]) n (id, message)
   where o.id = n.id and o.message_id = coalesce(n.message, o.message_id)
     and o.lane = any(array(select lane from l)) and o.state in (0, 2)
  returning o.id, o.message_id, o.lane, o.topic, o.key, o.payload, o.content_type, o.headers, o.attributes, o.created_at),
h as (
  insert into {delivered} (id, message_id, lane, topic, key, payload, content_type, headers, attributes, created_at,
                           attempts)
  select m.*, coalesce(a.attempt, 1) from m left join unnest($4::bigint[], $6::integer[]) a (id, attempt) using (id)
  -- where numbers began anew, the history keeps the message that had this one first
  on conflict (id) do nothing),
d as (select id from m)"
    };
}

/// Rows that go on: `$7` ids, `$8` states, `$9` microseconds until the next attempt (null: none is scheduled), `$10`
/// charged attempts (null: as they were, and no attempt was made), `$11` destinations owed as a JSON array (null: every
/// one), `$12` attempts per destination as a JSON object (null: as they were), `$13` failures as a JSON array of
/// unfinished objects, which get the database's time and their closing brace here (a death without any was none by an
/// attempt), `$14` reasons of death (null: as it was), `$15` suspicions, `$16` their messages (null: whichever).
///
/// `errors` keeps the last ten; one that stands there already is not added again. What a foreign hand wrote there is
/// never taken apart further than its elements, because a NUL in it would fail the statement.
macro_rules! changed {
    () => {
        ",
u as (
  update {outbox} o
     set state = n.state,
         attempts = coalesce(n.attempts, o.attempts),
         last_attempt_at = case when n.attempts is null or (n.reason is not null and n.failures is null)
           then o.last_attempt_at else clock_timestamp() end,
         next_attempt_at = clock_timestamp() + n.after * interval '1 microsecond',
         waiting_for = case when n.waiting_for is not null then
           array(select json_array_elements_text(n.waiting_for::json)) end,
         progress = coalesce(n.progress::json, o.progress),
         errors = case when n.failures is null then o.errors else (
           select json_agg(k.entry order by k.place) from (
             select e.entry, e.place from (
               select x.value as entry, x.place
                 from json_array_elements(case when json_typeof(o.errors) = 'array' then o.errors else '[]' end)
                      with ordinality x (value, place)
               union all
               select (f.value || ', \"at\": \"' ||
                        to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') || '\"}')::json,
                      1000000 + f.place
                 from json_array_elements_text(n.failures::json) with ordinality f (value, place)
                where not exists (
                  select from json_array_elements(case when json_typeof(o.errors) = 'array' then o.errors else '[]' end) y
                   where starts_with(y::text, f.value))
             ) e order by e.place desc limit 10
           ) k) end,
         dead_at = case when n.state in (1, 3) then clock_timestamp() end,
         dead_reason = coalesce(n.reason, o.dead_reason),
         suspicion = n.suspicion
    from unnest($7::bigint[], $8::smallint[], $9::bigint[], $10::integer[], $11::text[], $12::text[], $13::text[],
                $14::smallint[], $15::smallint[], $16::uuid[])
         n (id, state, after, attempts, waiting_for, progress, failures, reason, suspicion, message)
   where o.id = n.id and o.message_id = coalesce(n.message, o.message_id) and o.lane = any(array(select lane from l)) and o.state in (0, 2)
  returning o.id)"
    };
}

/// The keys of the rows that were to go on, whether this statement changed them or one before it whose answer was lost.
macro_rules! keys {
    () => {
        ",
       array(select key from {outbox} where id = any($7) and key is not null) as keys"
    };
}

/// Rows that stay as they are but for their suspicion: `$4` ids, `$5` suspicions, `$6` messages (null: whichever).
pub(super) const SUSPECT: &str = concat!(
    fence!(),
    ",
u as (
  update {outbox} o set suspicion = n.suspicion from unnest($4::bigint[], $5::smallint[], $6::uuid[]) n (id, suspicion, message)
   where o.id = n.id and o.message_id = coalesce(n.message, o.message_id) and o.lane = any(array(select lane from l)) and o.state in (0, 2)
  returning o.id)
select array(select lane from l) as lanes, array(select id from u) as ids"
);

/// Delivered rows only.
pub(super) const REMOVE: &str = concat!(
    fence!(),
    removed!(),
    "
select array(select lane from l) as lanes,
       case when (select count(*) from d) < cardinality($4) then array(select id from d) end as ids",
    not_flushed!()
);

/// Delivered rows only, which stand close together: `$4` the first id, `$5` the last one, `$6` a bit for each from there
/// to here, `$7` how many are set, `$8` their messages, each at its place from the first id on.
///
/// One way along the index instead of one down it for each row: a third less work, measured on PostgreSQL 15 with 1,024
/// rows of a batch. The `case` holds in whatever order the conditions are looked at.
pub(super) const REMOVE_SPAN: &str = concat!(
    fence!(),
    ",
d as (
  delete from {outbox}
   where id between $4 and $5
     and case when id between $4 and $5 then get_bit($6, id - $4) = 1 and message_id = ($8::uuid[])[(id - $4 + 1)::integer] end
     and ",
    in_a_locked_lane!(),
    "
  returning id)
select array(select lane from l) as lanes,
       case when (select count(*) from d) < $7 then array(select id from d) end as ids",
    not_flushed!()
);

/// Delivered rows only, kept as history: `$6` the attempts of `$4`.
pub(super) const MOVE: &str = concat!(
    fence!(),
    moved!(),
    "
select array(select lane from l) as lanes, array(select id from d) as ids",
    not_flushed!()
);

/// All outcomes; `$6` is not used.
pub(super) const REMOVE_AND_CHANGE: &str = concat!(
    fence!(),
    removed!(),
    changed!(),
    "
select array(select lane from l) as lanes, array(select id from d union all select id from u) as ids",
    keys!()
);

/// All outcomes, delivered rows kept as history.
pub(super) const MOVE_AND_CHANGE: &str = concat!(
    fence!(),
    moved!(),
    changed!(),
    "
select array(select lane from l) as lanes, array(select id from d union all select id from u) as ids",
    keys!()
);
