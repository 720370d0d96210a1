//! The inbox: what an application asks in its own transaction, whichever driver sends it.
//!
//! A claim inserts first, and asks why only where nothing was inserted. SQLite has one writer: whoever inserted sees
//! everything that was committed, and nobody else can change it before the end of the transaction. An id that is older than what
//! is remembered and recorded all the same is a repeat: it was handled late, and is kept by when that was.

use postrider_core::receiving::{Advance, Numbering, made_at};

use crate::dialog::{Turn, Value};
use crate::received::{Advanced, Claim, Claimed, Forget, Forgotten, Place, Refused, Round};

const FIRST_SEEN: &str = r#"insert into "{p}inbox" (message_id, consumer)
select ?1, ?2 from "{p}inbox_span" where oldest <= ?1
on conflict do nothing"#;

const TOO_OLD: &str = r#"select oldest > ?1 as answer from "{p}inbox_span""#;

/// Ids without a time.
const FIRST_SEEN_FOREIGN: &str =
    r#"insert into "{p}inbox_foreign" (message_id, consumer) values (?1, ?2) on conflict do nothing"#;

/// Asked of what is too old only.
const IS_RECORDED: &str = r#"select count(*) as answer from "{p}inbox" where message_id = ?1 and consumer = ?2"#;

/// Goes on where the last message is the one before; a gap and a repeat change nothing.
const ADVANCE_GAPLESS: &str = r#"update "{p}inbox_cursor" set sequence = ?4
 where consumer = ?1 and source = ?2 and part = ?3 and sequence = ?4 - 1"#;

/// Goes on where the last message is an earlier one; a repeat changes nothing.
const ADVANCE_RISING: &str = r#"update "{p}inbox_cursor" set sequence = ?4
 where consumer = ?1 and source = ?2 and part = ?3 and sequence < ?4"#;

const LAST: &str =
    r#"select sequence as answer from "{p}inbox_cursor" where consumer = ?1 and source = ?2 and part = ?3"#;

const BEGIN: &str = r#"insert into "{p}inbox_cursor" (consumer, source, part, sequence) values (?1, ?2, ?3, ?4) on conflict do nothing"#;

/// Keeps a refused message; one that was refused before is counted.
const REFUSE: &str = r#"insert into "{p}inbox_refused" (message_id, consumer, reason, topic, key, content_type, headers, payload)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict do update set times = times + 1"#;

/// The first id of the moment that lies so many milliseconds back, or of the year 1970: no id is older. What it was is never
/// lowered: what is gone is gone.
const RAISE: &str = r#"update "{p}inbox_span" set oldest = max(oldest, (
  select printf('%08x-%04x-0000-0000-000000000000', m.at >> 16, m.at & 65535)
    from (select max(cast(round((julianday('now') - 2440587.5) * 86400000) as integer) - ?1, 0) as at) m))"#;

/// By the primary key, from its beginning. It passes over what was handled late, and counts what it deletes: a batch that is not
/// full was the last one.
const FORGET: &str = r#"delete from "{p}inbox" where (message_id, consumer) in (
  select message_id, consumer from "{p}inbox"
   where message_id < (select oldest from "{p}inbox_span")
     and seen_at < (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) - ?1) * 1000
   order by message_id, consumer limit ?2)"#;

const FORGET_FOREIGN: &str = r#"delete from "{p}inbox_foreign" where (message_id, consumer) in (
  select message_id, consumer from "{p}inbox_foreign"
   where seen_at < (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) - ?1) * 1000
   order by seen_at limit ?2)"#;

fn named(sql: &str, prefix: &str) -> String {
    super::upgrade::named(sql, prefix)
}

/// Records that a consumer handles a message.
pub fn first_seen(prefix: &str, claim: Claim) -> Turn<Claimed> {
    if made_at(claim.message).is_none() {
        return Turn::change(named(FIRST_SEEN_FOREIGN, prefix), claim.values(), |inserted| match inserted {
            0 => Turn::Done(Claimed::Repeat),
            _ => Turn::Done(Claimed::First),
        });
    }
    let [too_old, is_recorded] = [TOO_OLD, IS_RECORDED].map(|sql| named(sql, prefix));
    Turn::change(named(FIRST_SEEN, prefix), claim.values(), move |inserted| match inserted {
        0 => Turn::number(too_old, [claim.id()], move |too_old| match too_old {
            Some(0) => Turn::Done(Claimed::Repeat),
            _ => Turn::number(is_recorded, claim.values(), |found| match found {
                Some(1) => Turn::Done(Claimed::Repeat),
                _ => Turn::Done(Claimed::TooOld),
            }),
        }),
        _ => Turn::Done(Claimed::First),
    })
}

/// Records how far a consumer came in a source that delivers in order.
pub fn advance(prefix: &str, place: Place) -> Turn<Advanced> {
    let update = match place.numbering {
        Numbering::Gapless => ADVANCE_GAPLESS,
        Numbering::Rising => ADVANCE_RISING,
    };
    let (last, begin) = (named(LAST, prefix), named(BEGIN, prefix));
    Turn::change(named(update, prefix), place.values(), move |changed| match changed {
        0 => Turn::number(last, place.key(), move |last| match (last, place.after(last)) {
            (Some(_), how) => Turn::Done(Advanced::By(how)),
            (None, _) => Turn::change(begin, place.values(), |inserted| match inserted {
                0 => Turn::Done(Advanced::Contended),
                _ => Turn::Done(Advanced::By(Advance::Next)),
            }),
        }),
        _ => Turn::Done(Advanced::By(Advance::Next)),
    })
}

/// Keeps a message that was refused.
pub fn refuse(prefix: &str, refused: Refused) -> Turn<()> {
    Turn::change(named(REFUSE, prefix), refused.values(), |_| Turn::Done(()))
}

/// Forgets what was handled longer ago than this, at most so many records of either kind at once.
pub fn forget(prefix: &str, round: Forget) -> Turn<Round> {
    let (forget, foreign) = (named(FORGET, prefix), named(FORGET_FOREIGN, prefix));
    let (keep, rows) = (Value::Number(round.keep_ms), Value::Number(round.at_most.into()));
    Turn::change(named(RAISE, prefix), [keep.clone()], move |_| {
        Turn::change(forget, [keep.clone(), rows.clone()], move |with_time| {
            Turn::change(foreign, [keep, rows], move |without| {
                let more = with_time.max(without) >= u64::from(round.at_most);
                Turn::Done(Round::Over(Forgotten { records: with_time + without, partitions: 0, more }))
            })
        })
    })
}
