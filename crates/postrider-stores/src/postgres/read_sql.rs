//! The statements that find rows. Their shapes are what a planner without statistics, and without the parameters, still
//! runs by index; each was measured (`docs/adr`), and each regression has a test. A snapshot is read from its text in a
//! sub-select, once: in a plan without its parameters it would be read anew for every row.

use postrider_core::LaneCount;

/// What stands before a row `o` of a page, where the messages of a key have one order: null when nothing does. It is
/// asked under one more condition.
macro_rules! behind_its_key {
    ($when:expr) => {
        concat!(
            "case when ",
            $when,
            " and o.key is not null and exists (
         select from {outbox} h where h.lane = o.lane and h.key = o.key and h.id < o.id
            and (h.state in (2, 3) or h.next_attempt_at is not null))
       then (
         select array_agg(distinct owed) || case when count(distinct w.id) > 32 then array[''] end
           from (select h.id, h.waiting_for from {outbox} h where h.lane = o.lane and h.key = o.key and h.id < o.id
                    and (h.state in (2, 3) or h.next_attempt_at is not null) order by h.id limit 33) w
           left join lateral unnest(w.waiting_for) owed on true)
       end"
        )
    };
}

/// Each row looks for the head of its key, or there is any exceptional row at all, which is asked once per statement:
/// in a large page without any, that look is most of the work. In a small one it is little, and the one question could
/// cost more, where many dead rows stand in the index under somebody's old snapshot.
///
/// The order is what makes the planner ask the index of these rows; inside an `exists` it would be dropped.
macro_rules! each_or_any {
    ($each:literal) => {
        concat!(
            "(",
            $each,
            " or (select true from {outbox} where state in (2, 3) or next_attempt_at is not null
                        order by lane, key, id limit 1) is true)"
        )
    };
}

/// The exceptional rows of the only lane, and the first of them.
///
/// Two steps, because with one the planner would walk the primary key to have them in order: past every ordinary row.
macro_rules! exceptions_of_all {
    () => {
        "\
with waiting as materialized (
  select id, waiting_for from {outbox} where lane = 0 and (state in (2, 3) or next_attempt_at is not null)),
front as materialized (select id, waiting_for from waiting order by id limit 33)
"
    };
}

/// The same where all messages have one order. What stands before a row is among the first exceptional rows of all: they
/// are found once for a page.
macro_rules! behind_any {
    () => {
        "\
case when exists (select from front h where h.id < o.id)
       then (
         select array_agg(distinct owed) || case when count(distinct w.id) > 32 then array[''] end
           from (select h.id, h.waiting_for from front h where h.id < o.id) w
           left join lateral unnest(w.waiting_for) owed on true)
       end"
    };
}

/// What a row weighs, and never nothing: what of it may be large. Of `jsonb` nothing but its text tells the size that it has
/// in memory; the sum of sixty-four headers may be half a mebibyte.
macro_rules! weight {
    ($row:literal) => {
        concat!(
            "greatest(octet_length(",
            $row,
            ".payload) + coalesce(octet_length(",
            $row,
            ".headers::text), 0) + coalesce(octet_length(",
            $row,
            ".attributes::text), 0), 1)"
        )
    };
}

/// A page of the rows that the inner statement finds: bounded by bytes, with what stands before each row.
///
/// The inner statement ends in a LIMIT, so that the probe runs for the page only. Sizes come from `octet_length`, which
/// does not fetch an external payload: only the rows that fit are fetched whole. `fetched` tells how many the inner
/// statement found. The inner parameters begin at `$2`; `$1` is the room in bytes.
///
/// The probe returns what the earlier exceptional rows still owe: null when there are none, a null element for "every
/// destination". It looks at 33 of them, and says by an empty name that it has not looked at all.
///
/// The columns stand as `decode` looks for them: those of a light page first.
///
/// The last parameter, whose number is given, are the lanes of which heads are wanted: `head` is the weight of what
/// stays behind there, and null elsewhere.
macro_rules! page {
    ($before:expr, $behind:expr, $inner:expr, $order:expr, $careful:expr) => {
        concat!(
            $before,
            "\
select o.id, o.lane, o.message_id, o.topic, o.key, o.created_at, o.deliver_at, o.expires_at, o.attempts, o.waiting_for,
       o.progress::text, o.dead_reason, case when o.dead_reason is not null then o.errors::text end as errors,
       (select clock_timestamp()) as read_at,
       case when o.lane <> all(",
            $careful,
            ") then o.payload end as payload,
       case when o.lane <> all(",
            $careful,
            ") then o.content_type end as content_type,
       case when o.lane <> all(",
            $careful,
            ") then o.headers::text end as headers,
       case when o.lane <> all(",
            $careful,
            ") then o.attributes::text end as attributes,
       case when o.lane <> all(",
            $careful,
            ") then o.retry::text end as retry,
       ",
            $behind,
            " as closed, o.state, o.next_attempt_at, o.suspicion, o.fetched, o.retry is not null as has_retry,
       case when o.lane = any(",
            $careful,
            ") then ",
            weight!("o"),
            " end as head
  from (
    select l.*, count(*) over () as fetched,
           sum(",
            weight!("l"),
            ") over (order by ",
            $order,
            " rows unbounded preceding) as running
      from (",
            $inner,
            ") l
  ) o
 where o.running <= $1 or o.running = ",
            weight!("o"),
            "
 order by ",
            $order
        )
    };
}

/// A statement of pages, whole, for each kind of outbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages {
    /// The messages of a key have one order.
    pub(super) of_keys: &'static str,
    /// All messages have one order: the outbox has one lane.
    pub(super) of_all: &'static str,
}

impl Pages {
    pub(super) fn of(self, lanes: LaneCount) -> &'static str {
        if lanes == LaneCount::ONE { self.of_all } else { self.of_keys }
    }
}

macro_rules! pages {
    ($inner:expr, $order:expr, $careful:expr) => {
        Pages {
            of_keys: page!("", behind_its_key!("true"), $inner, $order, $careful),
            of_all: page!(exceptions_of_all!(), behind_any!(), $inner, $order, $careful),
        }
    };
}

/// The rows by ascending id, where none is expected to be heavy: `$1` is the most bytes of each, and the payload of a heavier
/// one comes as null, which ends the page before it. Its headers count as they are stored: reading them whole would cost more.
///
/// The sums of the exact page cost more than everything else of it. Nearly all of what is left is sending columns that
/// are not null: those that say nothing here are left out, and of a row that was never tried the attempts are null. How it
/// is asked what stands before a row is given.
macro_rules! light_page {
    ($found:expr, $closed:expr) => {
        concat!(
            "\
select o.id, o.lane, o.message_id, o.topic, o.key, o.created_at, o.deliver_at, o.expires_at,
       nullif(o.attempts, 0) as attempts, o.waiting_for, o.progress::text, o.dead_reason,
       case when o.dead_reason is not null then o.errors::text end as errors, (select clock_timestamp()) as read_at,
       case when octet_length(o.payload) + coalesce(pg_column_size(o.headers), 0) <= $1 then o.payload end as payload,
       o.content_type, o.headers::text,
       o.attributes::text, o.retry::text,
       ",
            $closed,
            " as closed ",
            $found
        )
    };
}

/// The lanes of a hot statement, a bit for each in `$2`: looking for one in a list took a sixth of a page.
///
/// Beyond the bits there is none, whatever a foreign hand wrote; the `case` sees to it that it is not looked for.
macro_rules! of_the_lanes {
    () => {
        "case when lane between 0 and 4095 then get_bit($2, lane) = 1 end"
    };
}

/// A statement of the hot path in its three forms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hot {
    /// Bounded by bytes, whatever the rows weigh; the last parameter are the lanes of which heads are wanted.
    pub(super) exact: Pages,
    /// For rows of which none is heavy, no lane of which heads are wanted, and an order per key; the last parameter is
    /// whether each row looks for the head of its key, however many rows there are.
    pub(super) light: &'static str,
    /// The same where it is known without the rows which keys may have a head, without the last parameter.
    pub(super) bare: &'static str,
}

/// A statement of the hot path that ends like this, in ascending order; the last parameter, whose number is given, is
/// that of each form.
macro_rules! hot {
    ($found:expr, $last:literal) => {
        Hot {
            exact: pages!(concat!("select * ", $found), "id", $last),
            light: light_page!($found, behind_its_key!(each_or_any!($last))),
            bare: light_page!($found, "null::text[]"),
        }
    };
}

/// What stands before the rows `$1`, whose keys may have a head.
pub(super) const CLOSED: &str =
    concat!("select o.id, ", behind_its_key!("true"), " as closed from {outbox} o where o.id = any($1)");

/// The present: its snapshot, and what tells this server's life from another.
///
/// Fails on a replica, as it should. `pg_control_system` reads a file; it is what a restored copy cannot share.
pub(super) const OBSERVE: &str = "\
select pg_current_snapshot()::text as snapshot, (select boot::text from {boot}) as boot,
       (select system_identifier from pg_control_system()) || ':' ||
       left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline";

/// Marks a server that has lost its boot id: crash recovery and promotion empty the table.
pub(super) const MARK_BOOT: &str = "insert into {boot} default values on conflict do nothing";

/// Gives rows from the future, restored from another cluster, a transaction id of this one; until no row is changed.
pub(super) const RESTAMP: &str = "\
update {outbox} set xid = pg_current_xact_id()
 where id in (select id from {outbox} where xid >= pg_snapshot_xmax(pg_current_snapshot()) limit 10000)";

/// A. The steady difference of two snapshots: `$2` lanes, `$3` P, then C and the limit, which are given.
///
/// `= any (array (...))` and not a join: a join may scan the whole outbox on every poll. The limit stands inside, so that
/// what is sorted are the rows as they stand in the table, and the probe runs for the page only.
macro_rules! difference {
    ($now:literal, $limit:literal) => {
        concat!(
            "from (
        select * from {outbox}
         where ",
            of_the_lanes!(),
            " and xid >= pg_snapshot_xmax((select $3::text::pg_snapshot))
           and xid < pg_snapshot_xmax((select ",
            $now,
            "))
           and pg_visible_in_snapshot(xid, (select ",
            $now,
            "))
           and state = 0 and next_attempt_at is null
        union all
        select * from {outbox}
         where ",
            of_the_lanes!(),
            "
           and xid = any(array(select x from pg_snapshot_xip((select $3::text::pg_snapshot)) x
                                where pg_visible_in_snapshot(x, (select ",
            $now,
            "))))
           and state = 0 and next_attempt_at is null
         order by id limit ",
            $limit,
            ") o
 order by id"
        )
    };
}

pub(super) const DIFFERENCE: Hot = hot!(difference!("$4::text::pg_snapshot", "$5"), "$6");

/// The same up to now, in the light form, with the present behind each row; where there is no row it stands alone. One
/// statement instead of two, because a relay that looks hundreds of times a second is felt by the application: `$1` the
/// most bytes of each, `$2` lanes, `$3` P, `$4` the limit, `$5` whether each row looks for the head of its key.
///
/// The columns of an exact page are null, so that all have their places.
pub(super) const GLANCE: &str = concat!(
    "\
select p.*, null::smallint as state, null::timestamptz as next_attempt_at, null::smallint as suspicion,
       null::bigint as fetched, null::boolean as has_retry, null::integer as head,
       (select pg_current_snapshot()::text) as snapshot
  from (select 1) present
  left join (
",
    light_page!(difference!("pg_current_snapshot()", "$4"), behind_its_key!(each_or_any!("$5"))),
    ") p on true"
);

/// B. A difference that did not fit one page goes on by primary key: `$2` lanes, `$3` P, `$4` C, `$5` the limit, `$6`
/// the last id, `$7` the end of the span.
///
/// A with a larger LIMIT would be quadratic.
macro_rules! walk {
    () => {
        concat!(
            "from {outbox} o
 where ",
            of_the_lanes!(),
            " and id > $6 and id <= $7 and pg_visible_in_snapshot(xid, (select $4::text::pg_snapshot))
   and not pg_visible_in_snapshot(xid, (select $3::text::pg_snapshot))
   and state = 0 and next_attempt_at is null
 order by id limit $5"
        )
    };
}

pub(super) const WALK: Hot = hot!(walk!(), "$8");

/// B. The backlog of lanes that are new to this relay: `$2` lanes, `$3` C, `$4` the limit, `$5` the last id, `$6` the
/// end of the span. Only rows that can go; the due query and the walk of the exceptional keys find the others.
macro_rules! backlog {
    () => {
        concat!(
            "from {outbox} o
 where ",
            of_the_lanes!(),
            " and id > $5 and id <= $6 and pg_visible_in_snapshot(xid, (select $3::text::pg_snapshot))
   and state = 0 and next_attempt_at is null
   and (deliver_at is null or deliver_at <= (select clock_timestamp()))
 order by id limit $4"
        )
    };
}

pub(super) const BACKLOG: Hot = hot!(backlog!(), "$7");

/// The last id of the table, by the primary key's end: where a sweep ends, and a walk in spans.
pub(super) const LAST_ID: &str = "select coalesce(max(id), 0) from {outbox}";

/// The number before the first row behind `$1`; `$2` where there is none.
pub(super) const NOTHING_UNTIL: &str = "select coalesce(min(id) - 1, $2) as number from {outbox} where id > $1";

/// Rows whose time has come: `$2` lanes, `$3` the limit, `$4` the ids in the window, which the sub-select makes the
/// database hash.
///
/// The clock is wrapped in a sub-select because an index cannot be compared with a volatile function.
pub(super) const DUE: Pages = pages!(
    "
        select * from {outbox}
         where lane = any($2) and state = 0 and (next_attempt_at is not null or deliver_at is not null)
           and coalesce(next_attempt_at, deliver_at) <= (select clock_timestamp())
           and id not in (select unnest($4::bigint[]))
         order by coalesce(next_attempt_at, deliver_at), id limit $3
      ",
    "coalesce(next_attempt_at, deliver_at), id",
    "$5"
);

/// The exceptional rows of one key, or of all: `$2` lane, `$3` key, `$4` the limit. What stands before a row of the page
/// is in the page.
pub(super) const KEY: Pages = Pages {
    of_keys: page!(
        "",
        "null::text[]",
        "
        select * from {outbox}
         where lane = $2 and key = $3 and (state in (2, 3) or next_attempt_at is not null)
         order by id limit $4
      ",
        "id",
        "$5"
    ),
    of_all: page!(
        exceptions_of_all!(),
        "null::text[]",
        "
        select * from {outbox}
         where lane = $2 and $3 = '' and id = any(array(select w.id from waiting w order by w.id limit $4))
         order by id limit $4
      ",
        "id",
        "$5"
    ),
};

/// Ordinary rows that were visible long ago: `$2` lanes, a bit for each, `$3` P, `$4` the limit, `$5` the last id, `$6`
/// the end of the span.
pub(super) const SWEEP: Pages = pages!(
    concat!(
        "
        select * from {outbox}
         where ",
        of_the_lanes!(),
        "
           and id > $5 and id <= $6 and state = 0 and next_attempt_at is null and deliver_at is null
           and pg_visible_in_snapshot(xid, (select $3::text::pg_snapshot))
         order by id limit $4
      "
    ),
    "id",
    "$7"
);

/// Rows by their ids, whole: `$2` ids, `$3` the limit; `$4` no lane.
pub(super) const LOAD: Pages = pages!(
    "
        select * from {outbox}
         where id = any($2) and state in (0, 2)
         order by id limit $3
      ",
    "id",
    "$4"
);

/// The keys of one lane that have exceptional rows, after `$2`: one index descent per key, however many rows it has.
pub(super) const EXCEPTIONAL_KEYS: &str = "\
with recursive k as (
  (select key from {outbox}
    where lane = $1 and key > $2 and (state in (2, 3) or next_attempt_at is not null) order by key limit 1)
  union all
  select (select o.key from {outbox} o
           where o.lane = $1 and o.key > k.key and (o.state in (2, 3) or o.next_attempt_at is not null)
           order by o.key limit 1)
    from k where k.key is not null)
select key from k where key is not null limit $3";

/// The keys of the exceptional rows in the lanes `$1`, behind the key `$3` of lane number `$2` of these: at most `$4` rows, by
/// lane and key.
///
/// From the last key of an answer on the next one begins behind its rows, however many there are. Lanes and keys are not
/// compared as pairs, because behind the last key of a lane stand its rows without a key that are to be tried again, which
/// may be many too. One index descent per key took ten times as long as one per lane.
pub(super) const EXCEPTIONAL_PLACES: &str = "\
select l.place, k.key
  from unnest($1::smallint[]) with ordinality l (lane, place)
 cross join lateral (
   select o.key from {outbox} o
    where o.lane = l.lane and o.key > case when l.place = $2 then $3 else '' end
      and (o.state in (2, 3) or o.next_attempt_at is not null)
    order by o.key limit $4) k
 where l.place >= $2 limit $4";

/// Whether the only lane has exceptional rows, which stand together for all messages: `$1` lane, `$2` the empty key, `$3`
/// the limit.
pub(super) const ANY_EXCEPTION: &str = "\
select '' as key
 where $2 = '' and exists (
   select from {outbox} where lane = $1 and (state in (2, 3) or next_attempt_at is not null))
 limit $3";
