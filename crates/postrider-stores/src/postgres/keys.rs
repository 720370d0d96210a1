//! Keys of requests: what an application asks of them in its own transaction, whichever driver sends it.
//!
//! A repeat ends no transaction, and waits for none that has the effect, which holds the row from its answer to its commit: a
//! key is looked at before its row is inserted, because an insert waits (5 s at most), and what is held is not taken over. A
//! release waits for its own transaction alone.

use postrider_core::Forgotten;

use super::Names;
use crate::dialog::{Turn, Value};
use crate::keys::{self, Answer, Begin, Beginning, ForgetKey, ForgetKeys, Insert, Release, StoredAnswer, Texts};

const INSERT: &str = "\
select {begin_key}($1::text, $2::text, $3::text, $4::bytea, $5::bigint,
                   $6::bigint * interval '1 microsecond')::integer::bigint as answer";

const LOOK: &str = "\
select fingerprint, epoch, (extract(epoch from leased_until) * 1000000)::bigint as leased_until,
       (extract(epoch from clock_timestamp()) * 1000000)::bigint as now, status::bigint as status, headers, body
  from {idempotency} where caller = $1::text and operation = $2::text and key = $3::text";

const TAKE_OVER: &str = "\
update {idempotency} set epoch = $1::bigint, leased_until = clock_timestamp() + $2::bigint * interval '1 microsecond'
 where (caller, operation, key) in (
       select caller, operation, key from {idempotency}
        where caller = $3::text and operation = $4::text and key = $5::text and epoch = $6::bigint - 1 and status is null
          for update skip locked)";

/// In the effect's transaction, by whoever still works on it.
const ANSWER: &str = "\
update {idempotency} set status = $1::bigint::smallint, headers = $2::text, body = $3::bytea, leased_until = clock_timestamp()
 where caller = $4::text and operation = $5::text and key = $6::text and epoch = $7::bigint and status is null";

const RELEASE: &str = "select {release_key}($1::text, $2::text, $3::text, $4::bigint)::integer::bigint as answer";

const FORGET_KEY: &str = "\
delete from {idempotency} where caller = $1::text and operation = $2::text and key = $3::text and status is not null";

const FORGET: &str = "\
with old as (
  select caller, operation, key from {idempotency}
   where leased_until < clock_timestamp() - $1::bigint * interval '1 millisecond'
   order by leased_until limit $2::bigint for update skip locked)
delete from {idempotency} k using old
 where k.caller = old.caller and k.operation = old.operation and k.key = old.key";

/// Whether a request may begin.
pub fn begin(names: &Names, begin: Begin) -> Turn<Beginning> {
    let [insert, look, take_over] = [INSERT, LOOK, TAKE_OVER].map(|sql| names.fill(sql));
    keys::look(look.clone(), begin, Texts { insert: Insert::Function(insert), look, hold: None, take_over })
}

/// Stores an answer where the key is still the caller's.
pub fn answer(names: &Names, answer: impl Into<Answer>) -> Turn<Option<StoredAnswer>> {
    let answer = answer.into();
    Turn::change(names.fill(ANSWER), answer.values(), |rows| Turn::Done(answer.taken_by(rows)))
}

/// Lets the next one begin at once.
pub fn release(names: &Names, release: Release) -> Turn<()> {
    Turn::number(names.fill(RELEASE), release.values(), |_| Turn::Done(()))
}

/// Forgets a key that was answered.
pub fn forget_key(names: &Names, ForgetKey(name): ForgetKey) -> Turn<u64> {
    Turn::change(names.fill(FORGET_KEY), name.values(), Turn::Done)
}

/// Forgets what was answered, or left behind, longer ago than this.
pub fn forget(names: &Names, round: ForgetKeys) -> Turn<Forgotten> {
    let values = [Value::Number(round.keep_ms), Value::Number(round.at_most.into())];
    Turn::change(names.fill(FORGET), values, move |rows| Turn::Done(round.done(rows)))
}
