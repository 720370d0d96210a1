//! The statements that record outcomes, in one transaction per batch.
//!
//! It begins by locking the lanes that are still ours, in share mode, until the commit: the fence. Every change of an
//! owner locks the row for itself, which waits for this lock, or is waited for. Rows are locked and changed by their primary
//! key and nothing else, which each statement names: a planner that thought a walk through the table cheaper would wait
//! for every row that an application is writing.
//!
//! What holds a list stands as it is sent, with numbers, ids and hexadecimal texts alone in it: as a prepared statement it
//! would be another one each time.

use super::read_sql::now;

/// `<lanes>` that are held by `<me>`, each with its term: locked, and compared by whoever asks.
pub(super) const LOCK_LANES: &str = "\
select lane, term from {lane} force index (primary) where lane in (<lanes>) and owner = '<me>' order by lane lock in share mode";

/// Rows `<ids>` of `<lanes>` with `<messages>` that were delivered. This form of `delete` is the one that can be told its
/// index. A number alone may be another message's by now: a server that was restarted can draw numbers again, while a settle
/// whose commit was not answered is made again.
pub(super) const REMOVE: &str = "\
delete o from {outbox} o force index (primary)
 where o.id in (<ids>) and o.message_id in (<messages>) and o.lane in (<lanes>) and o.state in (0, 2)";

/// Rows `<ids>` of `<lanes>` that are locked. With the numbers alone as its condition MariaDB walks through a small table, and
/// waits for what an application is writing.
pub(super) const REMOVE_LOCKED: &str = "\
delete o from {outbox} o force index (primary) where o.id in (<ids>) and o.lane in (<lanes>) and o.state in (0, 2)";

/// Rows `<ids>` of `<lanes>` that can be settled, locked, each with its message and its failures so far.
pub(super) const LOCK_ROWS: &str = "\
select id, message_id, errors from {outbox} force index (primary)
 where id in (<ids>) and lane in (<lanes>) and state in (0, 2) order by id for update";

/// Rows `<ids>` into the history, after `<attempts>` attempts.
pub(super) const REMEMBER: &str = "\
replace into {delivered}
  (id, message_id, lane, topic, `key`, payload, content_type, headers, attributes, created_at, attempts)
select id, message_id, lane, topic, `key`, payload, content_type, headers, attributes, created_at, <attempts>
  from {outbox} force index (primary) where id in (<ids>)";

/// Rows `<ids>` wait behind their keys' heads: `<owed>` the destinations owed, `<suspicion>`.
pub(super) const SET_ASIDE: &str = "\
update {outbox} o force index (primary) set state = 2, next_attempt_at = null, waiting_for = <owed>, suspicion = <suspicion>
 where o.id in (<ids>)";

/// Rows `<ids>` stay as they are but for their `<suspicion>`.
pub(super) const SUSPECT: &str =
    "update {outbox} o force index (primary) set suspicion = <suspicion> where o.id in (<ids>)";

/// To be tried again: `?` microseconds until then, charged attempts, destinations owed, attempts per destination,
/// failures, the reason (null: as it was), the suspicion, the row.
pub(super) const RETRY: &str = concat!(
    "update {outbox} set state = 0, next_attempt_at = ",
    now!(),
    " + ?, attempts = ?, waiting_for = ?, progress = ?, errors = ?,
       last_attempt_at = ",
    now!(),
    ", dead_reason = coalesce(?, dead_reason), suspicion = ?
 where id = ?"
);

/// Given up: `?` the state, charged attempts, destinations owed, failures, whether an attempt was made, the reason, the
/// row.
pub(super) const DEAD: &str = concat!(
    "update {outbox} set state = ?, next_attempt_at = null, attempts = ?, waiting_for = ?, errors = ?,
       last_attempt_at = case when ? then ",
    now!(),
    " else last_attempt_at end, dead_at = ",
    now!(),
    ", dead_reason = ?, suspicion = 0
 where id = ?"
);

/// The database's clock.
pub(super) const NOW: &str = concat!("select ", now!());
