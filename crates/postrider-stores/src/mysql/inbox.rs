//! The inbox: what an application asks in its own transaction, whichever driver sends it.
//!
//! A claim inserts first, and asks why only where nothing was inserted: no transaction is ended by a repeat. `insert ignore`
//! answers with the rows that it inserted whether or not a driver asks for found rows, which `on duplicate key update` does
//! not. It may leave out what breaks a rule of the table, so values are checked before.
//!
//! The row of the span is locked for reading, so that a claim in an old snapshot sees how much is forgotten, and nothing is
//! forgotten between its look and its commit. An id from before that which is recorded all the same is a repeat: it was handled
//! late, and is kept by when that was.

use postrider_core::receiving::{Advance, Numbering, made_at};

use super::Names;
use crate::dialog::{Turn, Value};
use crate::received::{Advanced, Claim, Claimed, Forget, Forgotten, Place, Refused, Round};

const FIRST_SEEN: &str = "\
insert ignore into {inbox} (message_id, consumer)
select ?, ? from {inbox_span} where one = 1 and oldest <= ? lock in share mode";

const TOO_OLD: &str = "select cast(oldest > ? as signed) as answer from {inbox_span} where one = 1 lock in share mode";

/// Ids without a time.
const FIRST_SEEN_FOREIGN: &str = "insert ignore into {inbox_foreign} (message_id, consumer) values (?, ?)";

/// Asked of what is too old only. It locks the row, and so sees the last commit in every isolation; where there is none it may
/// lock a gap, which is in the way of few: new ids are behind it.
const IS_RECORDED: &str =
    "select count(*) as answer from {inbox} where message_id = ? and consumer = ? lock in share mode";

/// Goes on where the last message is the one before; a gap and a repeat change nothing.
const ADVANCE_GAPLESS: &str = "\
update {inbox_cursor} set sequence = ? where consumer = ? and source = ? and part = ? and sequence = ? - 1";

/// Goes on where the last message is an earlier one; a repeat changes nothing.
const ADVANCE_RISING: &str = "\
update {inbox_cursor} set sequence = ? where consumer = ? and source = ? and part = ? and sequence < ?";

/// A plain look first: a lock on a row that is not there would be one on the gap, and two that begin would wait for each
/// other.
const IS_THERE: &str = "select count(*) as answer from {inbox_cursor} where consumer = ? and source = ? and part = ?";

/// Waits for whoever is about to advance, and sees the last commit in every isolation.
const LAST: &str =
    "select sequence as answer from {inbox_cursor} where consumer = ? and source = ? and part = ? for update";

const BEGIN: &str = "insert ignore into {inbox_cursor} (consumer, source, part, sequence) values (?, ?, ?, ?)";

/// Keeps a refused message; one that was refused before is counted.
const REFUSE: &str = "\
insert into {inbox_refused} (message_id, consumer, reason, topic, `key`, content_type, headers, payload)
values (?, ?, ?, ?, ?, ?, ?, ?)
    on duplicate key update times = times + 1";

/// The first id of the moment that lies so many milliseconds back, or of the year 1970: no id is older.
macro_rules! first_id {
    ($before:literal, $behind:literal) => {
        concat!(
            $before,
            "concat(insert(lpad(lower(hex(
         greatest(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000 - ?, 0))), 12, '0'), 9, 0, '-'),
       '-0000-0000-000000000000')",
            $behind
        )
    };
}

/// Asked without a lock before the row is raised: claims hold it until their transactions end, and new ones queue behind whoever
/// waits for it. Of the many batches of a round the first one raises it.
const LAGS: &str = first_id!("select cast(oldest < ", " as signed) as answer from {inbox_span} where one = 1");

/// What it was is never lowered: what is gone is gone.
const RAISE: &str = first_id!("update {inbox_span} set oldest = greatest(oldest, ", ") where one = 1");

/// So much of what is kept may lie between the moment that is raised to and the one that could be.
const LAG: i64 = 1_000;

/// By the primary key, from its beginning. It passes over what was handled late, and counts what it deletes: a batch that is not
/// full was the last one.
const FORGET: &str = "\
delete from {inbox}
 where message_id < (select oldest from {inbox_span} where one = 1)
   and seen_at < timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - ? * 1000
 order by message_id, consumer limit <rows>";

const FORGET_FOREIGN: &str = "\
delete from {inbox_foreign}
 where seen_at < timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - ? * 1000 order by seen_at limit <rows>";

/// Whether a number of an error asks to run the transaction again: a deadlock, a lock that somebody else holds, or a row that
/// was committed after the transaction's snapshot, which ends the transaction on MariaDB 11.6 and later
/// (`innodb_snapshot_isolation`).
pub fn asks_again(number: u16) -> bool {
    matches!(number, 1020 | 1205 | 1213)
}

/// Records that a consumer handles a message.
pub fn first_seen(names: &Names, claim: Claim) -> Turn<Claimed> {
    if made_at(claim.message).is_none() {
        return Turn::change(names.fill(FIRST_SEEN_FOREIGN), claim.values(), |inserted| match inserted {
            0 => Turn::Done(Claimed::Repeat),
            _ => Turn::Done(Claimed::First),
        });
    }
    let [too_old, is_recorded] = [TOO_OLD, IS_RECORDED].map(|sql| names.fill(sql));
    let mut values = claim.values();
    values.push(claim.id());
    Turn::change(names.fill(FIRST_SEEN), values, move |inserted| match inserted {
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
pub fn advance(names: &Names, place: Place) -> Turn<Advanced> {
    let update = match place.numbering {
        Numbering::Gapless => ADVANCE_GAPLESS,
        Numbering::Rising => ADVANCE_RISING,
    };
    let [is_there, last, begin] = [IS_THERE, LAST, BEGIN].map(|sql| names.fill(sql));
    let mut values = vec![Value::Number(place.sequence)];
    values.extend(place.values());
    Turn::change(names.fill(update), values, move |changed| match changed {
        0 => Turn::number(is_there, place.key(), move |there| match there {
            Some(0) => Turn::change(begin, place.values(), |inserted| match inserted {
                0 => Turn::Done(Advanced::Contended),
                _ => Turn::Done(Advanced::By(Advance::Next)),
            }),
            _ => Turn::number(last, place.key(), move |last| match (last, place.after(last)) {
                (Some(_), how @ (Advance::Repeat | Advance::Gap { .. })) => Turn::Done(Advanced::By(how)),
                _ => Turn::Done(Advanced::Contended),
            }),
        }),
        _ => Turn::Done(Advanced::By(Advance::Next)),
    })
}

/// Keeps a message that was refused.
pub fn refuse(names: &Names, refused: Refused) -> Turn<()> {
    Turn::change(names.fill(REFUSE), refused.values(), |_| Turn::Done(()))
}

/// Forgets what was handled longer ago than this, at most so many records of either kind at once.
pub fn forget(names: &Names, round: Forget) -> Turn<Round> {
    let [forget, foreign] =
        [FORGET, FORGET_FOREIGN].map(|sql| names.fill(sql).replace("<rows>", &round.at_most.to_string()));
    let (raise, keep) = (names.fill(RAISE), Value::Number(round.keep_ms));
    let delete = {
        let keep = keep.clone();
        move || {
            Turn::change(forget, [keep.clone()], move |with_time| {
                Turn::change(foreign, [keep], move |without| {
                    let more = with_time.max(without) >= u64::from(round.at_most);
                    Turn::Done(Round::Over(Forgotten { records: with_time + without, partitions: 0, more }))
                })
            })
        }
    };
    let lag = Value::Number(round.keep_ms.saturating_add(round.keep_ms / LAG));
    Turn::number(names.fill(LAGS), [lag], move |lags| match lags {
        Some(0) => delete(),
        _ => Turn::change(raise, [keep], move |_| delete()),
    })
}
