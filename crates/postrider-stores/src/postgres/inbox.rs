//! The inbox: what an application asks in its own transaction, whichever driver sends it.
//!
//! A claim is one call of the function that every other language calls as well. What it refuses, it refuses by an SQLSTATE:
//! [`TOO_OLD`] and [`FUTURE`], beside those of PostgreSQL that ask to run the transaction again ([`asks_again`]). In
//! PostgreSQL a refusal ends the transaction.

use postrider_core::receiving::{Advance, Numbering};

use super::Names;
use crate::dialog::{Turn, Value};
use crate::received::{Advanced, Claim, Claimed, Forget, Forgotten, Place, Refused, Round};

/// What was handled in the time of the message is forgotten.
pub const TOO_OLD: &str = "PR010";

/// The time of the message has not come, and no partition spans it: a clock is wrong.
pub const FUTURE: &str = "PR011";

/// The partition of the message's time was dropped while the claim was on its way there.
pub const NO_PARTITION: &str = "23514";

const FIRST_SEEN: &str = "select {first_seen}($2::text, $1::text::uuid)::integer::bigint as answer";

const ADVANCE: &str = "\
select {inbox_advance}($1::text, $2::text, $3::bigint, $4::bigint, $5::bigint = 1) as answer";

/// Keeps a refused message; one that was refused before is counted.
const REFUSE: &str = "\
insert into {inbox_refused} as r (message_id, consumer, reason, topic, key, content_type, headers, payload)
values ($1::text::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text::json, $8::bytea)
    on conflict (message_id, consumer) do update set times = r.times + 1";

const KEEP: &str = "select {inbox_keep}($1::bigint * interval '1 millisecond') as answer";

/// Its answer where claims that are open are in the way of what it would drop.
const HELD: i64 = -1;

/// By what was kept so far: where that was less than what is to be kept from this round on, nothing is forgotten by it.
const FORGET: &str = "\
select {inbox_forget}($1::bigint::integer) as answer from {inbox_span}
 where one and keep >= $2::bigint * interval '1 millisecond'";

/// Whether an SQLSTATE asks to run the transaction again: somebody else holds what it needs, or its snapshot is too old.
pub fn asks_again(sqlstate: &str) -> bool {
    matches!(sqlstate, "40001" | "40P01" | "55P03")
}

/// Records that a consumer handles a message.
pub fn first_seen(names: &Names, claim: Claim) -> Turn<Claimed> {
    Turn::number(names.fill(FIRST_SEEN), claim.values(), |first| match first {
        Some(1) => Turn::Done(Claimed::First),
        _ => Turn::Done(Claimed::Repeat),
    })
}

/// Records how far a consumer came in a source that delivers in order.
pub fn advance(names: &Names, place: Place) -> Turn<Advanced> {
    let mut values = place.values();
    values.push(Value::Number((place.numbering == Numbering::Gapless).into()));
    Turn::number(names.fill(ADVANCE), values, move |last| match (last, place.after(last)) {
        (None, _) => Turn::Done(Advanced::By(Advance::Next)),
        // Somebody else went back in the same moment.
        (Some(_), Advance::Next) => Turn::Done(Advanced::Contended),
        (Some(_), how) => Turn::Done(Advanced::By(how)),
    })
}

/// Keeps a message that was refused.
pub fn refuse(names: &Names, refused: Refused) -> Turn<()> {
    Turn::change(names.fill(REFUSE), refused.values(), |_| Turn::Done(()))
}

/// Forgets partitions of ids that were made longer ago than this, and of ids without a time what was handled longer ago, at most
/// so many records at once.
///
/// Partitions go in the order of their times, and `oldest` rises to the end of each with it: no record that is left is older, and
/// what is too old need not be looked for.
pub fn forget(names: &Names, round: Forget) -> Turn<Round> {
    let keep = names.fill(KEEP);
    let values = [Value::Number(round.at_most.into()), Value::Number(round.keep_ms)];
    Turn::number(names.fill(FORGET), values, move |records| {
        let records = count(records);
        Turn::number(keep, [Value::Number(round.keep_ms)], move |partitions| {
            let is_held = partitions == Some(HELD);
            let more = is_held || records >= u64::from(round.at_most);
            Turn::Done(match records {
                0 if is_held => Round::HeldUp,
                _ => Round::Over(Forgotten { records, partitions: count(partitions), more }),
            })
        })
    })
}

fn count(answer: Option<i64>) -> u64 {
    answer.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}
