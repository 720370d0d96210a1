//! Keys of requests: what an application asks of them in its own transaction, whichever driver sends it.
//!
//! A key is looked at before its row is inserted: an insert that is refused locks the row for reading, and of two of them none
//! could then take it over. Who has the effect holds the row from its answer to its commit, and may hang there: nobody waits
//! for it, so that a row is held before it is taken over. It is held before its answer is sent again, too: a session may read
//! what is not committed, or what a key stood for before it was forgotten. A release looks at whose the key is first, and waits
//! for nobody but for its own transaction, whose rollback a driver may send late.

use postrider_core::Forgotten;

use super::Names;
use crate::dialog::{Turn, Value};
use crate::keys::{self, Answer, Begin, Beginning, ForgetKey, ForgetKeys, Insert, Release, StoredAnswer, Texts};

const INSERT: &str = "\
insert ignore into {idempotency} (caller, operation, `key`, fingerprint, epoch, leased_until)
values (?, ?, ?, ?, ?, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + ?)";

const LOOK: &str = "\
select fingerprint, epoch, leased_until, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now,
       cast(status as signed) as status, headers, body
  from {idempotency} where caller = ? and operation = ? and `key` = ?";

/// Sees the last commit in every isolation.
const LOOK_AGAIN: &str = "\
select fingerprint, epoch, leased_until, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now,
       cast(status as signed) as status, headers, body
  from {idempotency} where caller = ? and operation = ? and `key` = ? lock in share mode";

/// As [`LOOK_AGAIN`], without a wait. For writing, as MySQL and MariaDB have no words in common for reading: of two that are
/// sent the same answer at once, one looks again.
const HOLD: &str = "\
select fingerprint, epoch, leased_until, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now,
       cast(status as signed) as status, headers, body
  from {idempotency} where caller = ? and operation = ? and `key` = ? for update skip locked";

const TAKE_OVER: &str = "\
update {idempotency} set epoch = ?, leased_until = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + ?
 where caller = ? and operation = ? and `key` = ? and epoch = ? - 1 and status is null";

/// In the effect's transaction, by whoever still works on it.
const ANSWER: &str = "\
update {idempotency} set status = ?, headers = ?, body = ?,
       leased_until = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
 where caller = ? and operation = ? and `key` = ? and epoch = ? and status is null";

const RELEASE: &str = "\
update {idempotency} set leased_until = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
 where caller = ? and operation = ? and `key` = ? and epoch = ? and status is null";

const FORGET_KEY: &str =
    "delete from {idempotency} where caller = ? and operation = ? and `key` = ? and status is not null";

const FORGET: &str = "\
delete from {idempotency}
 where leased_until < timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - ? * 1000
 order by leased_until limit <rows>";

/// Whether a request may begin.
pub fn begin(names: &Names, begin: Begin) -> Turn<Beginning> {
    let [insert, first, look] = [INSERT, LOOK, LOOK_AGAIN].map(|sql| names.fill(sql));
    let [hold, take_over] = [HOLD, TAKE_OVER].map(|sql| names.fill(sql));
    let texts = Texts { insert: Insert::Statement(insert), look, hold: Some(hold), take_over };
    keys::look(first, begin, texts)
}

/// Stores an answer where the key is still the caller's.
pub fn answer(names: &Names, answer: impl Into<Answer>) -> Turn<Option<StoredAnswer>> {
    let answer = answer.into();
    Turn::change(names.fill(ANSWER), answer.values(), |rows| Turn::Done(answer.taken_by(rows)))
}

/// Lets the next one begin at once.
pub fn release(names: &Names, release: Release) -> Turn<()> {
    keys::release(names.fill(LOOK), release, names.fill(RELEASE))
}

/// Forgets a key that was answered.
pub fn forget_key(names: &Names, ForgetKey(name): ForgetKey) -> Turn<u64> {
    Turn::change(names.fill(FORGET_KEY), name.values(), Turn::Done)
}

/// Forgets what was answered, or left behind, longer ago than this.
pub fn forget(names: &Names, round: ForgetKeys) -> Turn<Forgotten> {
    let forget = names.fill(FORGET).replace("<rows>", &round.at_most.to_string());
    Turn::change(forget, [Value::Number(round.keep_ms)], move |rows| Turn::Done(round.done(rows)))
}
