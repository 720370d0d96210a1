//! Keys of requests: what an application asks of them in its own transaction, whichever driver sends it.
//!
//! A row is inserted first, so that a transaction that began as a reader waits for the writer instead of being refused.

use postrider_core::Forgotten;

use super::upgrade::named;
use crate::dialog::{Turn, Value};
use crate::keys::{self, Answer, Begin, Beginning, ForgetKey, ForgetKeys, Insert, Release, StoredAnswer, Texts};

const INSERT: &str = r#"insert into "{p}idempotency" (caller, operation, key, fingerprint, epoch, leased_until)
values (?1, ?2, ?3, ?4, ?5, cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000 + ?6)
on conflict do nothing"#;

const LOOK: &str = r#"select fingerprint, epoch, leased_until,
       cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000 as now, status, headers, body
  from "{p}idempotency" where caller = ?1 and operation = ?2 and key = ?3"#;

const TAKE_OVER: &str = r#"update "{p}idempotency"
   set epoch = ?1, leased_until = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000 + ?2
 where caller = ?3 and operation = ?4 and key = ?5 and epoch = ?6 - 1 and status is null"#;

/// In the effect's transaction, by whoever still works on it.
const ANSWER: &str = r#"update "{p}idempotency"
   set status = ?1, headers = ?2, body = ?3,
       leased_until = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000
 where caller = ?4 and operation = ?5 and key = ?6 and epoch = ?7 and status is null"#;

const RELEASE: &str = r#"update "{p}idempotency"
   set leased_until = cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000
 where caller = ?1 and operation = ?2 and key = ?3 and epoch = ?4 and status is null"#;

const FORGET_KEY: &str =
    r#"delete from "{p}idempotency" where caller = ?1 and operation = ?2 and key = ?3 and status is not null"#;

const FORGET: &str = r#"delete from "{p}idempotency" where (caller, operation, key) in (
  select caller, operation, key from "{p}idempotency"
   where leased_until < (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) - ?1) * 1000
   order by leased_until limit ?2)"#;

/// Whether a request may begin.
pub fn begin(prefix: &str, begin: Begin) -> Turn<Beginning> {
    let [insert, look, take_over] = [INSERT, LOOK, TAKE_OVER].map(|sql| named(sql, prefix));
    keys::insert(begin, Texts { insert: Insert::Statement(insert), look, hold: None, take_over })
}

/// Stores an answer where the key is still the caller's.
pub fn answer(prefix: &str, answer: impl Into<Answer>) -> Turn<Option<StoredAnswer>> {
    let answer = answer.into();
    Turn::change(named(ANSWER, prefix), answer.values(), |rows| Turn::Done(answer.taken_by(rows)))
}

/// Lets the next one begin at once.
pub fn release(prefix: &str, release: Release) -> Turn<()> {
    Turn::change(named(RELEASE, prefix), release.values(), |_| Turn::Done(()))
}

/// Forgets a key that was answered.
pub fn forget_key(prefix: &str, ForgetKey(name): ForgetKey) -> Turn<u64> {
    Turn::change(named(FORGET_KEY, prefix), name.values(), Turn::Done)
}

/// Forgets what was answered, or left behind, longer ago than this.
pub fn forget(prefix: &str, round: ForgetKeys) -> Turn<Forgotten> {
    let values = [Value::Number(round.keep_ms), Value::Number(round.at_most.into())];
    Turn::change(named(FORGET, prefix), values, move |rows| Turn::Done(round.done(rows)))
}
